//! The webhooks are down. Nothing may wait for itself.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use polyvirt_admission::{ClientConfig, Configuration, FailurePolicy};
use polyvirt_pki::Lifetimes;
use serde_json::{Value, json};

use crate::world::{Role, World, plane, refusal, until, vm};

/// Registers webhooks at a port where nobody listens, and waits until the API server asks them.
async fn register(world: &World, failure_policy: FailurePolicy) {
    let configuration = Configuration {
        name: world.namespace.clone(),
        client: ClientConfig::Url("https://127.0.0.1:1".to_owned()),
        authority: Vec::new(),
        failure_policy,
        namespaces: vec![world.namespace.clone()],
        own_namespace: "polyvirt-system".to_owned(),
        own_account: Some("system:serviceaccount:polyvirt-system:polyvirt".to_owned()),
    };
    let params = PatchParams::apply("test");
    let api: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
    let name = &world.namespace;
    api.patch(name, &params, &Patch::Apply(configuration.validating()))
        .await
        .expect("made");
    let api: Api<MutatingWebhookConfiguration> = Api::all(world.client.clone());
    api.patch(name, &params, &Patch::Apply(configuration.mutating()))
        .await
        .expect("made");
}

fn broken() -> Value {
    json!({"cpu": 1, "memory": "1e99"})
}

/// About as much as etcd takes.
fn large_user_data() -> Value {
    let text = format!("#cloud-config\n# {}\n", "x\n# ".repeat(300_000));
    json!({"userData": {"cloudInit": {"inline": text}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spec_as_large_as_can_be_is_looked_at() {
    let world = World::furnished("large").await;
    let made = world
        .create("VirtualMachine", "a", vm(large_user_data()))
        .await;
    assert!(
        refusal(made).message.contains("spec.userData"),
        "too large for guests"
    );
    let lines = "# x\n".repeat(250_000);
    let text = format!("#cloud-config\n{lines}");
    let spec = vm(json!({"userData": {"cloudInit": {"inline": text}}}));
    world
        .create("VirtualMachine", "b", spec)
        .await
        .expect("made");
    let off = Patch::Merge(json!({"spec": {"powerState": "OffGraceful"}}));
    let api = world.api("VirtualMachine");
    api.patch("b", &PatchParams::default(), &off)
        .await
        .expect("changed");
    // More than one if the manager writes a status at the same moment: the API server begins again.
    assert!(world.reviews("operation=\"UPDATE\",verdict=\"allowed\"") >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn fail_refuses_new_wishes_and_lets_everything_else_go_on() {
    let world = World::empty("fail").await;
    world.furnish().await;
    let held = World::object("VMClass", "held", json!({"cpu": 1, "memory": "1Gi"}));
    let mut held = held;
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    let api = world.api("VMClass");
    api.create(&PostParams::default(), &held)
        .await
        .expect("made");
    let mut large = World::object("VirtualMachine", "large", vm(large_user_data()));
    large.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    let vms = world.api("VirtualMachine");
    vms.create(&PostParams::default(), &large)
        .await
        .expect("made");
    register(&world, FailurePolicy::Fail).await;
    let message = until("the API server asks", || async {
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let object = World::object("VMClass", "x", broken());
        api.create(&params, &object)
            .await
            .err()
            .map(|error| error.to_string())
    })
    .await;
    assert!(message.contains("failed calling webhook"), "{message}");

    let merge = async |change: Value| {
        api.patch("held", &PatchParams::default(), &Patch::Merge(&change))
            .await
    };
    refusal(merge(json!({"spec": {"cpu": 2}})).await);
    merge(json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .expect("no wish changes");
    let status = json!({"status": {"usedByVMs": 1}});
    let status = api
        .patch_status("held", &PatchParams::default(), &Patch::Merge(&status))
        .await;
    status.expect("the status is ours");
    // Deletion is protected by finalizers, so it need not wait for us.
    api.delete("held", &DeleteParams::default())
        .await
        .expect("taken");
    merge(json!({"metadata": {"finalizers": null}}))
        .await
        .expect("finalizers come off");
    // Conditions look at specs of any size.
    let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let freed = vms.patch("large", &PatchParams::default(), &bare).await;
    freed.expect("finalizers come off");
    assert!(api.get_opt("held").await.expect("an answer").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn ignore_lets_everything_go_on() {
    let world = World::empty("ignore").await;
    world.furnish().await;
    register(&world, FailurePolicy::Ignore).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    world
        .create("VMClass", "x", broken())
        .await
        .expect("nobody looks");
    world
        .create("VirtualMachine", "x", vm(json!({})))
        .await
        .expect("nobody looks");
}

/// The manager makes VMs for sets and clones, and must not depend on its own answer.
#[tokio::test(flavor = "multi_thread")]
async fn the_account_of_the_manager_is_not_looked_at() {
    let world = World::empty("account").await;
    register(&world, FailurePolicy::Fail).await;
    let class = World::object("VMClass", "x", json!({"cpu": 1, "memory": "1Gi"}));
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    until("the API server asks others", || async {
        world.api("VMClass").create(&dry, &class).await.err()
    })
    .await;
    let account = "system:serviceaccount:polyvirt-system:polyvirt";
    let manager = plane()
        .await
        .client_as(account, &["system:masters"])
        .expect("a client");
    let api = Api::namespaced_with(
        manager,
        &world.namespace,
        &crate::world::resource("VMClass"),
    );
    api.create(&PostParams::default(), &class)
        .await
        .expect("not looked at");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_that_stops_signs_off() {
    let mut world = World::empty("sign-off").await;
    world.start(Role::Leads, Lifetimes::default()).await;
    refusal(world.create("VMClass", "x", broken()).await);
    world.stop_webhooks().await;
    world.stop_manager().await;
    let api: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
    assert!(
        api.get_opt(&world.namespace)
            .await
            .expect("an answer")
            .is_none()
    );
    let api: Api<MutatingWebhookConfiguration> = Api::all(world.client.clone());
    assert!(
        api.get_opt(&world.namespace)
            .await
            .expect("an answer")
            .is_none()
    );
    until("nobody is asked", || async {
        world.create("VMClass", "x", broken()).await.ok()
    })
    .await;
}
