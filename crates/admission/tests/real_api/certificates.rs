//! Certificates and authorities that come and go while requests run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use polyvirt_pki::{
    AUTHORITY_SECRET, Keeper, Keyring, Lifetimes, Purpose, Serving, Source, Subject, leaf,
};
use serde_json::json;
use tokio::time::Instant;

use crate::wire::Wire;
use crate::world::{Role, World};

/// Five years in less than half a minute.
const SHORT: Lifetimes = Lifetimes {
    authority: Duration::from_secs(24),
    leaf: Duration::from_secs(6),
    spread: Duration::from_secs(2),
};

async fn trusted(world: &World) -> Vec<u8> {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
    let found = api.get(&world.namespace).await.expect("registered");
    let hooks = found.webhooks.expect("webhooks");
    hooks[0].client_config.ca_bundle.clone().expect("trusted").0
}

fn keeper(world: &World) -> Arc<Keeper> {
    let lifetimes = Lifetimes::default();
    Arc::new(Keeper::new(
        world.client.clone(),
        &world.namespace,
        lifetimes,
    ))
}

fn serving(source: Source) -> Serving {
    Serving::new(source, vec!["webhooks.x.svc".to_owned()])
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_a_renewal_nor_another_authority_fails_a_request() {
    let mut world = World::empty("renewal").await;
    world.furnish().await;
    world.start(Role::StandsBy, SHORT).await;
    let begun_with = trusted(&world).await;
    let mut held = Wire::connect(world.port, &begun_with)
        .await
        .expect("connected");
    let mut shown = BTreeSet::from([held.shown.clone()]);
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let class = World::object("VMClass", "other", json!({"cpu": 1, "memory": "1Gi"}));
    let deadline = Instant::now() + SHORT.authority + SHORT.spread * 2;
    let mut requests = 0;
    while Instant::now() < deadline {
        let made = world.api("VMClass").create(&dry, &class).await;
        made.expect("no request fails for a renewal");
        requests += 1;
        // Whoever trusts what is trusted now gets through, whatever is shown.
        let wire = Wire::connect(world.port, &trusted(&world).await).await;
        shown.insert(wire.expect("trusted").shown);
    }
    assert!(
        shown.len() >= 4,
        "{} certificates in {requests} requests",
        shown.len()
    );
    assert!(requests > 20, "{requests}");
    let stranger = Wire::connect(world.port, &begun_with).await;
    assert!(stranger.is_err(), "the first authority is forgotten");
    let answer = held.post("/validate", "{}".to_owned()).await;
    assert_eq!(answer.expect("the connection stands").status(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_managers_are_trusted_by_one_authority() {
    let world = World::empty("two").await;
    let (one, other) = (keeper(&world), keeper(&world));
    let (one, other) = (serving(Source::Own(one)), serving(Source::Own(other)));
    let now = Timestamp::now();
    let (one, other) = tokio::join!(one.keep(now), other.keep(now));
    assert_eq!(one.expect("kept"), other.expect("kept"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_is_damaged_is_told_of_and_made_anew_once_it_is_taken_out() {
    let world = World::empty("damaged").await;
    let now = Timestamp::now();
    let first = keeper(&world).keyring(now).await.expect("made").bundle();
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &world.namespace);
    let params = PatchParams::default();
    let spoil = Patch::Merge(json!({"data": {"tls.key": null}}));
    let spoilt = secrets.patch(AUTHORITY_SECRET, &params, &spoil).await;
    spoilt.expect("patched");
    let told = keeper(&world).keyring(now).await.expect_err("spoilt");
    assert!(told.to_string().contains("it has no tls.key"), "{told}");
    let empty = Patch::Merge(json!({"data": null}));
    let emptied = secrets.patch(AUTHORITY_SECRET, &params, &empty).await;
    emptied.expect("patched");
    let second = keeper(&world).keyring(now).await.expect("made").bundle();
    assert_ne!(first, second);
}

/// As cert-manager writes it.
fn foreign(keyring: &Keyring) -> Secret {
    let subject = Subject {
        name: "webhooks.x.svc".to_owned(),
        names: vec!["webhooks.x.svc".to_owned()],
        purpose: Purpose::Server,
    };
    let (issued, _) =
        leaf::issue(keyring, &subject, &Lifetimes::default(), Timestamp::now()).expect("signed");
    let parts = [
        ("tls.crt", issued.certificate),
        ("tls.key", issued.key),
        ("ca.crt", keyring.bundle()),
    ];
    let parts = parts.map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())));
    let mut secret = Secret {
        data: Some(parts.into()),
        ..Secret::default()
    };
    secret.metadata.name = Some("theirs".to_owned());
    secret
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_somebody_else_keeps_is_shown_and_left_alone() {
    let world = World::empty("foreign").await;
    let serving = serving(Source::given(
        world.client.clone(),
        &world.namespace,
        "theirs",
    ));
    let now = Timestamp::now();
    let refused = serving.keep(now).await.expect_err("nothing to show");
    assert!(
        refused
            .to_string()
            .contains("has no tls.crt, tls.key and ca.crt"),
        "{refused}"
    );
    let keyring = Keyring::make(&Lifetimes::default(), now).expect("made");
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &world.namespace);
    let theirs = foreign(&keyring);
    let made = secrets.create(&PostParams::default(), &theirs).await;
    let made = made.expect("made");
    let kept = serving.keep(now).await.expect("kept");
    assert_eq!(kept.trusted, keyring.bundle().into_bytes());
    assert_eq!(kept.look_again, None);
    let after = secrets.get("theirs").await.expect("there");
    assert_eq!(
        after.metadata.resource_version,
        made.metadata.resource_version
    );
    let own = secrets.get_opt(AUTHORITY_SECRET).await.expect("answers");
    assert!(own.is_none(), "no authority is made that nobody needs");
}
