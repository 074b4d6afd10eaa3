//! Certificates that come and go while requests run.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use polyvirt_admission::{
    Caches, ClientConfig, Configuration, FailurePolicy, Keeper, Lifetimes, Metrics, Place,
    Registration, Webhooks,
};
use polyvirt_engine::catalogue::StandIn;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::wire::Wire;
use crate::world::{Role, World, until};

/// A year in ten seconds.
const SHORT: Lifetimes = Lifetimes {
    valid: Duration::from_secs(6),
    renew_before: Duration::from_secs(4),
    overlap: Duration::from_secs(1),
};

async fn trusted(world: &World) -> Vec<u8> {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
    let found = api.get(&world.namespace).await.expect("registered");
    let hooks = found.webhooks.expect("webhooks");
    hooks[0].client_config.ca_bundle.clone().expect("trusted").0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_fails_no_request() {
    let mut world = World::empty("renewal").await;
    world.furnish().await;
    world.start(Role::StandsBy, SHORT).await;
    let mut held = Wire::connect(world.port, &trusted(&world).await)
        .await
        .expect("connected");
    let mut shown = BTreeSet::from([held.shown.clone()]);
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let class = World::object("VMClass", "other", json!({"cpu": 1, "memory": "1Gi"}));
    let deadline = Instant::now() + Duration::from_secs(13);
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
        shown.len() >= 3,
        "{} certificates in {requests} requests",
        shown.len()
    );
    assert!(requests > 20, "{requests}");
    let answer = held.post("/validate", "{}".to_owned()).await;
    assert_eq!(answer.expect("the connection stands").status(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_managers_show_one_certificate() {
    let world = World::empty("two").await;
    let names = vec!["webhooks.x.svc".to_owned()];
    let keeper = || {
        Keeper::new(
            world.client.clone(),
            &world.namespace,
            "s",
            names.clone(),
            Lifetimes::default(),
        )
    };
    let (one, other) = (keeper(), keeper());
    let (one, other) = tokio::join!(one.keep(), other.keep());
    assert_eq!(one.expect("kept"), other.expect("kept"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_secret_is_made_anew_and_a_foreign_one_is_left_alone() {
    let world = World::empty("damaged").await;
    let api: Api<Secret> = Api::namespaced(world.client.clone(), &world.namespace);
    let names = vec!["webhooks.x.svc".to_owned()];
    let keeper = Keeper::new(
        world.client.clone(),
        &world.namespace,
        "s",
        names,
        Lifetimes::default(),
    );
    let first = keeper.keep().await.expect("kept");
    let merge = async |change: Value| {
        let patched = api
            .patch("s", &PatchParams::default(), &Patch::Merge(&change))
            .await;
        patched.expect("patched")
    };
    merge(json!({"data": {"ca.crt": null}})).await;
    let second = keeper.keep().await.expect("kept");
    assert_ne!(first, second);
    // As cert-manager's: no mark of ours, and the names are its business.
    merge(json!({"metadata": {"labels": null, "annotations": null}})).await;
    let version = api.get("s").await.expect("there").metadata.resource_version;
    assert_eq!(keeper.keep().await.expect("kept"), second);
    assert_eq!(
        api.get("s").await.expect("there").metadata.resource_version,
        version
    );
    merge(json!({"data": {"ca.crt": null}})).await;
    let refused = keeper
        .keep()
        .await
        .expect_err("nothing to show")
        .to_string();
    assert!(
        refused.contains("has no tls.crt, tls.key and ca.crt"),
        "{refused}"
    );
}

/// The configurations as a chart makes them.
fn charted(world: &World) -> Configuration {
    Configuration {
        name: world.namespace.clone(),
        client: ClientConfig::Service {
            namespace: world.namespace.clone(),
            name: "webhooks".to_owned(),
            port: 443,
        },
        authority: Vec::new(),
        failure_policy: FailurePolicy::Fail,
        namespaces: vec![world.namespace.clone()],
        own_namespace: "polyvirt-system".to_owned(),
        own_account: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authority_is_put_into_what_the_chart_made_and_nothing_else_is_touched() {
    let world = World::empty("chart").await;
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(world.client.clone());
    let chart = PatchParams::apply("helm");
    let wanted = charted(&world);
    let before = validating
        .patch(&wanted.name, &chart, &Patch::Apply(wanted.validating()))
        .await;
    let before = before.expect("made");
    let mut foreign = wanted.mutating();
    foreign["metadata"]["annotations"] = json!({"cert-manager.io/inject-ca-from": "a/b"});
    mutating
        .patch(&wanted.name, &chart, &Patch::Apply(foreign))
        .await
        .expect("made");

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let place = Place {
        namespace: world.namespace.clone(),
        service: "webhooks".to_owned(),
        configuration: wanted.name.clone(),
        registration: Registration::Injected,
        lifetimes: Lifetimes::default(),
        look_every: Duration::from_millis(100),
    };
    let nothing = StandIn::start(&world.client, std::slice::from_ref(&world.namespace));
    let facts = Caches::new(nothing.catalogue().clone(), None, Arc::new(|_| Ok(())));
    let stop = CancellationToken::new();
    let webhooks = Webhooks::prepare(
        world.client.clone(),
        place,
        Arc::new(facts),
        Metrics::default(),
    );
    let webhooks = webhooks.await.expect("prepared");
    let served = tokio::spawn(webhooks.serve(listener, stop.clone()));

    let after = until("both webhooks trust", || async {
        let found = validating.get(&wanted.name).await.expect("there");
        let all = found
            .webhooks
            .iter()
            .flatten()
            .all(|hook| hook.client_config.ca_bundle.is_some());
        all.then_some(found)
    })
    .await;
    let without = |config: &ValidatingWebhookConfiguration| {
        let mut hooks = config.webhooks.clone().expect("webhooks");
        for hook in &mut hooks {
            hook.client_config.ca_bundle = None;
        }
        hooks
    };
    assert_eq!(without(&before), without(&after));
    // The chart is applied again at each upgrade: nobody fights over the field.
    validating
        .patch(&wanted.name, &chart, &Patch::Apply(wanted.validating()))
        .await
        .expect("no conflict");
    let kept = validating
        .get(&wanted.name)
        .await
        .expect("there")
        .webhooks
        .expect("webhooks");
    assert!(
        kept.iter()
            .all(|hook| hook.client_config.ca_bundle.is_some())
    );
    let left = mutating
        .get(&wanted.name)
        .await
        .expect("there")
        .webhooks
        .expect("webhooks");
    assert!(
        left.iter()
            .all(|hook| hook.client_config.ca_bundle.is_none())
    );

    stop.cancel();
    served.await.expect("ended").expect("served");
    validating
        .get(&wanted.name)
        .await
        .expect("what the chart made stays");
    validating
        .delete(&wanted.name, &DeleteParams::default())
        .await
        .expect("cleaned up");
    mutating
        .delete(&wanted.name, &DeleteParams::default())
        .await
        .expect("cleaned up");
}
