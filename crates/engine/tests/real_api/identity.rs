//! Whose VM is it? Never a guess.

use kube::Api;
use kube::api::PostParams;
use polyvirt_api::infra::{Provider, VMClass, VMImage, VirtualMachine};
use polyvirt_api::names;
use polyvirt_plan::Reason;
use polyvirt_provider_mock::{Happened, Mock, MockConfig};
use polyvirt_testkit::namespace;
use serde_json::json;

use crate::support::look::{id, runs};
use crate::support::world::HYPERVISOR;
use crate::support::{SMALL, TEMPLATE, World, message, reason, vm};

fn created(mock: &Mock) -> usize {
    mock.journal()
        .iter()
        .filter(|entry| entry.what == Happened::Created)
        .count()
}

#[tokio::test]
async fn two_namespaces_have_a_vm_of_the_same_name_on_one_provider() {
    let mut world = World::empty("shared-provider").await;
    let mock = world.furnish(MockConfig::default()).await;
    let home = world.namespace.clone();
    let mut teams = Vec::new();
    for team in ["team-a", "team-b"] {
        let team = namespace(&world.client, team).await.expect("a namespace");
        world.also_manages(&team);
        teams.push(team);
    }
    world.shares_all();
    world.start().await;
    for team in &teams {
        let at_home = |name: &str| json!({"name": name, "namespace": home});
        let spec = json!({"providerRef": at_home(HYPERVISOR), "classRef": at_home(SMALL), "imageRef": at_home(TEMPLATE)});
        let object = serde_json::from_value(vm("web").spec(spec).value).expect("a manifest");
        let api = Api::<VirtualMachine>::namespaced(world.client.clone(), team);
        api.create(&PostParams::default(), &object)
            .await
            .expect("created");
    }
    for team in &teams {
        world.namespace.clone_from(team);
        world.vm("web", "runs", runs).await;
    }
    let mut there: Vec<_> = mock.vms().into_iter().map(|vm| vm.name).collect();
    there.sort();
    let mut wanted: Vec<_> = teams.iter().map(|team| format!("{team}.web")).collect();
    wanted.sort();
    assert_eq!(there, wanted);
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert_eq!(mock.vms().len(), 1, "the other team's VM stays");
}

#[tokio::test]
async fn a_provider_says_which_other_namespaces_may_use_it() {
    let mut world = World::empty("consumers").await;
    let mock = world.furnish(MockConfig::default()).await;
    let home = world.namespace.clone();
    let shared_with = |team: &str| {
        let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": team}});
        json!({"spec": {"consumerNamespaceSelector": selector}})
    };
    world
        .edit::<Provider>(HYPERVISOR, shared_with("nobody"))
        .await;
    let everyone = json!({"spec": {"consumerNamespaceSelector": {}}});
    world.edit::<VMClass>(SMALL, everyone.clone()).await;
    world.edit::<VMImage>(TEMPLATE, everyone).await;
    let team = namespace(&world.client, "consumer")
        .await
        .expect("a namespace");
    world.also_manages(&team);
    world.start().await;
    world.namespace.clone_from(&team);
    let at_home = |name: &str| json!({"name": name, "namespace": home});
    let spec = json!({"providerRef": at_home(HYPERVISOR), "classRef": at_home(SMALL), "imageRef": at_home(TEMPLATE)});
    world.create(vm("web").spec(spec)).await;
    let refused = |vm: &VirtualMachine| reason(vm) == Reason::ConsumerNotAllowed.as_str();
    let told = world.vm("web", "is refused", refused).await;
    assert!(
        message(&told).starts_with("spec.providerRef: "),
        "{}",
        message(&told)
    );
    assert!(mock.vms().is_empty());
    world.namespace.clone_from(&home);
    world.edit::<Provider>(HYPERVISOR, shared_with(&team)).await;
    world.namespace = team;
    world.vm("web", "runs", runs).await;
}

#[tokio::test]
async fn without_a_selector_an_object_is_for_its_own_namespace_only() {
    let mut world = World::empty("closed").await;
    let mock = world.furnish(MockConfig::default()).await;
    let home = world.namespace.clone();
    let team = namespace(&world.client, "closed-team")
        .await
        .expect("a namespace");
    world.also_manages(&team);
    world.start().await;
    let everyone = json!({"spec": {"consumerNamespaceSelector": {}}});
    world.namespace.clone_from(&team);
    let at_home = |name: &str| json!({"name": name, "namespace": home});
    let spec = json!({"providerRef": at_home(HYPERVISOR), "classRef": at_home(SMALL), "imageRef": at_home(TEMPLATE)});
    world.create(vm("web").spec(spec)).await;
    for field in ["spec.providerRef", "spec.classRef", "spec.imageRef"] {
        let refused = |vm: &VirtualMachine| {
            reason(vm) == Reason::ConsumerNotAllowed.as_str()
                && message(vm).starts_with(&format!("{field}: "))
        };
        world.vm("web", field, refused).await;
        assert!(mock.vms().is_empty());
        world.namespace.clone_from(&home);
        match field {
            "spec.providerRef" => drop(world.edit::<Provider>(HYPERVISOR, everyone.clone()).await),
            "spec.classRef" => drop(world.edit::<VMClass>(SMALL, everyone.clone()).await),
            _ => drop(world.edit::<VMImage>(TEMPLATE, everyone.clone()).await),
        }
        world.namespace.clone_from(&team);
    }
    world.vm("web", "runs", runs).await;
}

#[tokio::test]
async fn a_copy_of_an_object_does_not_touch_the_vm_of_the_original() {
    let (world, mock) = World::furnished("copy", MockConfig::default()).await;
    let original = world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    let uid = original.metadata.uid.clone().unwrap_or_default();
    let before = mock.counts().mutations();
    let copy = vm("copy").annotated(names::IDENTITY_ANNOTATION, &uid);
    world
        .create(copy.spec(json!({"powerState": "Off", "resources": {"cpu": 8}})))
        .await;
    let conflict = |vm: &VirtualMachine| reason(vm) == Reason::IdentityConflict.as_str();
    let copy = world.vm("copy", "is told of the conflict", conflict).await;
    assert!(
        message(&copy).starts_with("metadata.annotations[polyvirt.io/identity]: "),
        "{}",
        message(&copy)
    );
    assert!(
        message(&copy).contains(&format!("{}/web", world.namespace)),
        "{}",
        message(&copy)
    );
    assert_eq!(mock.counts().mutations(), before);
    world.delete::<VirtualMachine>("copy").await;
    world.gone::<VirtualMachine>("copy").await;
    world.vm("web", "runs as before", runs).await;
    assert_eq!(mock.vms().len(), 1);
}

#[tokio::test]
async fn a_copy_without_the_annotation_becomes_a_vm_of_its_own() {
    let (world, mock) = World::furnished("copy-heals", MockConfig::default()).await;
    let original = world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    let uid = original.metadata.uid.clone().unwrap_or_default();
    world
        .create(vm("copy").annotated(names::IDENTITY_ANNOTATION, &uid))
        .await;
    world
        .vm("copy", "conflicts", |vm| reason(vm) == "IdentityConflict")
        .await;
    world
        .annotate("copy", names::IDENTITY_ANNOTATION, json!(null))
        .await;
    world.vm("copy", "runs", runs).await;
    assert_eq!(mock.vms().len(), 2);
}

#[tokio::test]
async fn a_stranger_of_the_same_name_is_never_touched() {
    let (world, mock) = World::furnished("stranger", MockConfig::default()).await;
    let stranger = mock.out_of_band().create_stranger("web").expect("created");
    let before = mock.vm(&stranger);
    world.create(vm("web")).await;
    let conflict = |vm: &VirtualMachine| reason(vm) == Reason::NameConflict.as_str();
    let vm = world.vm("web", "is told of the conflict", conflict).await;
    assert!(
        message(&vm).starts_with("metadata.name: "),
        "{}",
        message(&vm)
    );
    assert!(
        message(&vm).contains("rename one of the two"),
        "{}",
        message(&vm)
    );
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert_eq!(mock.vm(&stranger), before);
}

#[tokio::test]
async fn a_name_conflict_ends_when_the_stranger_goes() {
    let (world, mock) = World::furnished("stranger-goes", MockConfig::default()).await;
    let stranger = mock.out_of_band().create_stranger("web").expect("created");
    world.create(vm("web")).await;
    world
        .vm("web", "conflicts", |vm| reason(vm) == "NameConflict")
        .await;
    mock.out_of_band().delete(&stranger).expect("deleted");
    world.vm("web", "runs", runs).await;
    assert_eq!(mock.vms().len(), 1);
}

#[tokio::test]
async fn an_object_from_a_backup_finds_its_vm_again() {
    let (world, mock) = World::furnished("backup", MockConfig::default()).await;
    let first = world
        .create(vm("web").spec(json!({"deletionPolicy": "Retain"})))
        .await;
    let before = world.vm("web", "runs", runs).await;
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    let identity = first.metadata.uid.clone().unwrap_or_default();
    let restored = vm("web").annotated(names::IDENTITY_ANNOTATION, &identity);
    let second = world
        .create(restored.spec(json!({"powerState": "Off"})))
        .await;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    let after = world
        .vm("web", "is off", crate::support::look::stands)
        .await;
    assert_eq!(id(&after), id(&before));
    assert_eq!(created(&mock), 1);
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    assert!(mock.vms().is_empty(), "it is ours to delete");
}

#[tokio::test]
async fn an_object_whose_finalizer_was_torn_off_finds_its_vm_again() {
    let (mut world, mock) = World::furnished("torn", MockConfig::default()).await;
    let first = world.create(vm("web")).await;
    let before = world.vm("web", "runs", runs).await;
    world.stop().await;
    world.delete::<VirtualMachine>("web").await;
    world
        .edit::<VirtualMachine>("web", json!({"metadata": {"finalizers": null}}))
        .await;
    world.gone::<VirtualMachine>("web").await;
    world.start().await;
    let identity = first.metadata.uid.unwrap_or_default();
    world
        .create(vm("web").annotated(names::IDENTITY_ANNOTATION, &identity))
        .await;
    let after = world.vm("web", "runs", runs).await;
    assert_eq!((id(&after), created(&mock)), (id(&before), 1));
}

#[tokio::test]
async fn an_object_that_is_made_anew_without_its_identity_does_not_take_the_old_vm() {
    let (world, mock) = World::furnished("anew", MockConfig::default()).await;
    world
        .create(vm("web").spec(json!({"deletionPolicy": "Retain"})))
        .await;
    let kept = id(&world.vm("web", "runs", runs).await);
    world.delete::<VirtualMachine>("web").await;
    world.gone::<VirtualMachine>("web").await;
    let before = mock.vm(&kept);
    world
        .create(vm("web").spec(json!({"powerState": "Off"})))
        .await;
    world
        .vm("web", "conflicts", |vm| reason(vm) == "NameConflict")
        .await;
    world.reconciled_again("web").await;
    assert_eq!(mock.vm(&kept), before);
}

#[tokio::test]
async fn a_create_whose_answer_is_lost_makes_one_vm() {
    let (world, mock) = World::furnished("lost-create", MockConfig::default()).await;
    mock.faults().parse("lose=Create:2").expect("a rule");
    world.create(vm("web")).await;
    world.vm("web", "runs", runs).await;
    assert_eq!((created(&mock), mock.vms().len()), (1, 1));
}

#[tokio::test]
async fn a_status_that_was_wiped_does_not_make_a_second_vm() {
    let (mut world, mock) = World::furnished("wiped", MockConfig::default()).await;
    world.create(vm("web")).await;
    let before = world.vm("web", "runs", runs).await;
    world.stop().await;
    let api = world.api::<VirtualMachine>();
    let wiped = VirtualMachine {
        status: None,
        ..world.get("web").await
    };
    let replaced = api
        .replace_status("web", &PostParams::default(), &wiped)
        .await;
    assert_eq!(replaced.expect("replaced").status, None);
    world.start().await;
    let after = world.vm("web", "runs", runs).await;
    assert_eq!((id(&after), created(&mock)), (id(&before), 1));
}

/// Says in the object's status that its VM is that of another object.
async fn misled(world: &World, name: &str, id: &polyvirt_contract::VmId) {
    let wrong = json!({"status": {"id": id.as_str()}});
    let params = kube::api::PatchParams::default();
    let api = world.api::<VirtualMachine>();
    let patched = api
        .patch_status(name, &params, &kube::api::Patch::Merge(&wrong))
        .await;
    patched.expect("patched");
}

#[tokio::test]
async fn a_status_with_the_id_of_another_vm_heals() {
    let (world, mock) = World::furnished("wrong-id", MockConfig::default()).await;
    for name in ["web", "db"] {
        world.create(vm(name)).await;
    }
    let web = id(&world.vm("web", "runs", runs).await);
    let db = id(&world.vm("db", "runs", runs).await);
    misled(&world, "web", &db).await;
    let healed = |vm: &VirtualMachine| runs(vm) && id(vm) == web;
    world.vm("web", "has its own id again", healed).await;
    world.vm("db", "is untouched", runs).await;
    assert_eq!((created(&mock), mock.vms().len()), (2, 2));
}

#[tokio::test]
async fn an_object_with_the_id_of_another_vm_takes_its_own_vm_with_it() {
    let (mut world, mock) = World::furnished("wrong-id-gone", MockConfig::default()).await;
    for name in ["web", "db"] {
        world.create(vm(name)).await;
    }
    world.vm("web", "runs", runs).await;
    let db = id(&world.vm("db", "runs", runs).await);
    // Before anybody can heal it.
    world.stop().await;
    misled(&world, "web", &db).await;
    world.delete::<VirtualMachine>("web").await;
    world.start().await;
    world.gone::<VirtualMachine>("web").await;
    let left: Vec<_> = mock.vms().into_iter().map(|vm| vm.id).collect();
    assert_eq!(left, [db], "its own VM is gone, the other's is not");
}
