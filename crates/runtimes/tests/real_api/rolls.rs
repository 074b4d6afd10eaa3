//! What replaces pods, and what does not.

use std::time::Duration;

use jiff::Timestamp;
use polyvirt_pki::Lifetimes;
use serde_json::{Value, json};

use crate::lab::{Lab, mock, until};

fn template(deployment: &Value) -> Value {
    deployment["spec"]["template"].clone()
}

#[tokio::test]
async fn new_credentials_replace_the_pods_of_their_provider_alone() {
    let lab = Lab::new().await;
    lab.secret("login", &[("password", "one")]).await;
    let mut spec = mock();
    spec["credentialSecretRef"] = json!({"name": "login"});
    let provider = lab.provider("keyed", spec).await;
    let other = lab.provider("other", mock()).await;
    lab.way(&provider).await.expect("made");
    lab.way(&other).await.expect("made");
    let (before, others) = (lab.deployment("keyed").await, lab.deployment("other").await);
    assert!(
        !before.to_string().contains("one\""),
        "no credentials in it"
    );

    // The same words in a new Secret are no news.
    lab.secret("login", &[("password", "one")]).await;
    lab.way(&provider).await.expect("made");
    assert_eq!(template(&lab.deployment("keyed").await), template(&before));

    lab.secret("login", &[("password", "two")]).await;
    lab.way(&provider).await.expect("made");
    lab.way(&other).await.expect("made");
    assert_ne!(template(&lab.deployment("keyed").await), template(&before));
    assert_eq!(lab.deployment("other").await, others);
}

/// The Deployment of a mock with another value at this path of its spec.
async fn deployed_with(lab: &Lab, name: &str, path: &str, value: Value) -> Value {
    let mut spec = mock();
    *path.split('.').fold(&mut spec, |part, key| &mut part[key]) = value;
    let provider = lab.provider(name, spec).await;
    lab.way(&provider).await.expect("made");
    lab.deployment(name).await
}

#[tokio::test]
async fn what_pods_are_made_of_replaces_them_and_nothing_else_does() {
    let lab = Lab::new().await;
    let keyring = polyvirt_pki::Keyring::make(&Lifetimes::default(), Timestamp::now());
    let authority = keyring.expect("made").signing().kept();
    let parts = [
        ("tls.crt", authority.certificate.as_str()),
        ("tls.key", authority.key.as_str()),
        ("ca.crt", authority.certificate.as_str()),
    ];
    lab.secret("mine", &parts).await;
    let as_it_was = ("type", json!("mock"));
    let deployed = async |name, (path, value): (&str, Value)| {
        template(&deployed_with(&lab, name, path, value).await)
    };
    let others = deployed("other", as_it_was.clone()).await;
    let before = deployed("moving", as_it_was.clone()).await;
    for change in [
        ("endpoint", json!("mock://memory?seed=2")),
        ("runtime.image", json!("else.test/p:1")),
        ("runtime.service.port", json!(9090)),
        ("runtime.service.tls.enabled", json!(false)),
        ("runtime.service.tls.secretRef", json!({"name": "mine"})),
    ] {
        assert_ne!(
            deployed("moving", change.clone()).await,
            before,
            "{change:?}"
        );
        let back = deployed("moving", as_it_was.clone()).await;
        assert_eq!(back, before, "back from {change:?}");
    }
    for change in [
        ("healthCheck.interval", json!("1m")),
        ("rateLimit", json!({"qps": 5, "burst": 9})),
        ("runtime.service.tls.enabled", json!(true)),
    ] {
        assert_eq!(
            deployed("moving", change.clone()).await,
            before,
            "{change:?}"
        );
    }
    assert_eq!(template(&lab.deployment("other").await), others);
}

async fn certificate(lab: &Lab, provider: &str) -> (Value, Value) {
    let secret = lab.find("", "Secret", provider).await.expect("there");
    (
        secret["data"]["tls.crt"].clone(),
        secret["data"]["ca.crt"].clone(),
    )
}

#[tokio::test]
async fn certificates_and_their_authority_are_renewed_and_our_pods_stay() {
    let lifetimes = Lifetimes {
        authority: Duration::from_secs(24),
        leaf: Duration::from_secs(6),
        spread: Duration::from_secs(1),
    };
    let lab = Lab::with(lifetimes, |_| ()).await;
    let provider = lab.provider("fresh", mock()).await;
    let theirs = json!({"type": "mock", "runtime": {"mode": "Remote", "image": "else.test/p:1"}});
    let foreign = lab.provider("foreign", theirs).await;
    let way = lab.way(&provider).await.expect("made");
    lab.way(&foreign).await.expect("made");
    assert!(way.place.look_again.is_some_and(|t| t <= lifetimes.leaf));
    let (first, trusted) = certificate(&lab, "fresh").await;
    let ours = lab.deployment("fresh").await;
    let others = lab.deployment("foreign").await;
    let begin = Timestamp::now();
    until("the certificate is renewed", async || {
        lab.way(&provider).await.expect("made");
        certificate(&lab, "fresh").await.0 != first
    })
    .await;
    assert_eq!(
        certificate(&lab, "fresh").await.1,
        trusted,
        "by the same authority"
    );
    until("another authority is trusted", async || {
        lab.way(&provider).await.expect("made");
        certificate(&lab, "fresh").await.1 != trusted
    })
    .await;
    let passed = Timestamp::now().duration_since(begin).as_secs();
    assert!(
        (12..24).contains(&passed),
        "after two thirds of its life: {passed} s"
    );
    assert_eq!(lab.deployment("fresh").await, ours, "ours reads them anew");
    lab.way(&foreign).await.expect("made");
    assert_ne!(
        template(&lab.deployment("foreign").await),
        template(&others)
    );
}
