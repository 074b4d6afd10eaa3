//! What a user sees.

use kube::api::{DeleteParams, Patch, PatchParams};
use polyvirt_pki::Lifetimes;
use serde_json::json;

use crate::world::{Role, World, refusal, until, vm};

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_the_field_and_what_to_do() {
    let world = World::furnished("refusal").await;
    let twice = json!({"networks": [
        {"name": "a", "macAddress": "52:54:00:00:00:01"},
        {"name": "b", "macAddress": "52:54:00:00:00:01"},
    ]});
    let status = refusal(world.create("VirtualMachine", "web", vm(twice)).await);
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    assert_eq!(
        status.message,
        "admission webhook \"validate.polyvirt.io\" denied the request: VirtualMachine \"web\" can never work as it is written: \
         spec.networks[b].macAddress: spec.networks[a] has the same. Give each card its own"
    );
    let causes = status.details.expect("details").causes;
    assert_eq!(causes[0].field, "spec.networks[b].macAddress");
    let made = world.create("VirtualMachine", "web", vm(json!({}))).await;
    made.expect("nothing wrong with it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_is_warned_of_what_is_missing_and_of_what_does_nothing() {
    let world = World::furnished("warning").await;
    let elsewhere = json!({"classRef": {"name": "large"}, "driftPolicy": {"deletion": "Recreate"}});
    let told = world.warnings("VirtualMachine", "a", vm(elsewhere)).await;
    assert_eq!(told.len(), 2, "{told:?}");
    let missing = format!("VMClass {}/large does not exist yet", world.namespace);
    assert!(told[0].contains(&missing), "{told:?}");
    assert!(
        told[1].contains("what was on its disks is lost"),
        "{told:?}"
    );
    let plain = world.warnings("VirtualMachine", "b", vm(json!({}))).await;
    assert_eq!(plain, Vec::<String>::new());
    let insecure = json!({"type": "vsphere", "endpoint": "https://v", "insecureSkipVerify": true});
    let told = world.warnings("Provider", "v", insecure).await;
    assert!(told[0].contains("spec.insecureSkipVerify"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_that_stands_by_knows_the_same() {
    let mut world = World::empty("standby").await;
    world.furnish().await;
    world.start(Role::StandsBy, Lifetimes::default()).await;
    let told = world
        .warnings(
            "VirtualMachine",
            "a",
            vm(json!({"classRef": {"name": "large"}})),
        )
        .await;
    assert_eq!(told.len(), 1, "{told:?}");
    let dry = DeleteParams {
        dry_run: true,
        ..DeleteParams::default()
    };
    let warned = r#"operation="DELETE",verdict="warned""#;
    until("the VM is in the index", || async {
        let deleted = world.api("Provider").delete("hv", &dry).await;
        deleted.expect("accepted");
        (world.reviews(warned) > 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_fault_may_stay_and_its_finalizers_come_off() {
    let mut world = World::empty("ratchet").await;
    world.furnish().await;
    let broken = vm(json!({"networks": [{"name": "a", "macAddress": "01:00:00:00:00:01"}]}));
    let mut old = World::object("VirtualMachine", "old", broken.clone());
    old.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    let params = kube::api::PostParams::default();
    world
        .api("VirtualMachine")
        .create(&params, &old)
        .await
        .expect("nobody looks yet");
    world.start(Role::StandsBy, Lifetimes::default()).await;
    let again = world.create("VirtualMachine", "new", broken).await;
    assert!(
        refusal(again)
            .message
            .contains("spec.networks[a].macAddress")
    );

    let edit = async |change: serde_json::Value| {
        let api = world.api("VirtualMachine");
        api.patch("old", &PatchParams::default(), &Patch::Merge(&change))
            .await
    };
    edit(json!({"spec": {"tags": ["x"]}}))
        .await
        .expect("the fault is old");
    let worse = json!({"spec": {"userData": {"cloudInit": {"inline": "#cloud-config\na: ["}}}});
    assert!(
        refusal(edit(worse).await)
            .message
            .contains("spec.userData.cloudInit.inline")
    );
    let deleted = world
        .api("VirtualMachine")
        .delete("old", &DeleteParams::default())
        .await;
    deleted.expect("taken");
    edit(json!({"metadata": {"finalizers": null}}))
        .await
        .expect("finalizers come off");
    until("it is gone", || async {
        let found = world
            .api("VirtualMachine")
            .get_opt("old")
            .await
            .expect("an answer");
        found.is_none().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asked_for_a_clone_is_written_down() {
    let world = World::furnished("creator").await;
    let spec = json!({"source": {"vmRef": {"name": "a"}}, "target": {"name": "b"}});
    let made = world
        .create("VMClone", "c", spec.clone())
        .await
        .expect("made");
    let creator = made.data["spec"]["metadata"]["createdBy"].clone();
    assert!(
        creator.as_str().is_some_and(|name| !name.is_empty()),
        "{creator}"
    );
    let version = made.metadata.resource_version;
    let params = PatchParams::apply("gitops").force();
    let object = json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMClone",
        "metadata": {"name": "c"}, "spec": spec,
    });
    for _ in 0..2 {
        let applied = world
            .api("VMClone")
            .patch("c", &params, &Patch::Apply(&object))
            .await;
        let applied = applied.expect("applied");
        assert_eq!(applied.data["spec"]["metadata"]["createdBy"], creator);
    }
    assert!(version.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_managers_own_writes_are_not_looked_at() {
    let world = World::furnished("own-writes").await;
    world
        .create("VirtualMachine", "a", vm(json!({})))
        .await
        .expect("made");
    until("it runs", || async {
        let vm = world.api("VirtualMachine").get("a").await.expect("there");
        (vm.data["status"]["phase"] == "Running").then_some(())
    })
    .await;
    assert_eq!(
        world.reviews("kind=\"VirtualMachine\",operation=\"CREATE\""),
        1
    );
    assert_eq!(world.reviews("operation=\"UPDATE\""), 0);
}
