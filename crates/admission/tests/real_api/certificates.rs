//! Certificates that come and go while requests run.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use polyvirt_admission::{Keeper, Lifetimes};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::wire::Wire;
use crate::world::{Role, World};

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
