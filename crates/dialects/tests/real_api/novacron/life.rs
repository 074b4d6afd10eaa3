//! From the manifest to the end.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::api::ListParams;
use kube::runtime::watcher;
use polyvirt_api::infra::{VMNetworkAttachment, VMSnapshot};

use super::*;
use crate::world::{Object, pair};

#[tokio::test]
async fn the_walk_through_of_the_readme() {
    let (world, kvm) = furnished("nova-readme").await;
    apply(&world, readme("my-vm", json!({}))).await;
    let vm = stands(&world, "my-vm", "Running").await;
    let status = vm.status.clone().unwrap();
    assert!(status.vm_id.is_some(), "{status:?}");
    assert!(status.last_updated.is_some());
    assert_eq!(condition(&vm, "Ready"), pair("True", "Running"));
    assert_eq!(
        condition(&vm, "LiveMigratable"),
        pair("False", "MigrationDisabled")
    );
    assert_eq!(vm.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
    let made = world.get::<infra::VirtualMachine>("my-vm").await;
    let owner = &made.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(owner.api_version, "novacron.io/v1alpha1");
    assert_eq!(Some(&owner.uid), vm.metadata.uid.as_ref());
    let url = made.spec.image.unwrap().http.unwrap().url;
    assert!(url.ends_with("jammy-server-cloudimg-amd64.img"), "{url}");

    patch(&world, "my-vm", json!({"spec": {"running": false}})).await;
    let vm = stands(&world, "my-vm", "Stopped").await;
    assert_eq!(condition(&vm, "Ready"), pair("False", "Stopped"));
    patch(&world, "my-vm", json!({"spec": {"running": true}})).await;
    let vm = stands(&world, "my-vm", "Running").await;
    assert_eq!(vm.status.unwrap().vm_id, status.vm_id);
    assert_eq!(kvm.vms().len(), 1);
    let memory = format!(
        "novacron_vm_memory_usage_bytes{{namespace=\"{}\",name=\"my-vm\"}}",
        world.namespace
    );
    let deadline = Instant::now() + Duration::from_secs(20);
    while !world.scrape_nova().contains(&memory) {
        assert!(Instant::now() < deadline, "{}", world.scrape_nova());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    world.delete::<VirtualMachine>("my-vm").await;
    world.gone::<VirtualMachine>("my-vm").await;
    world.gone::<infra::VirtualMachine>("my-vm").await;
    assert!(kvm.vms().is_empty());
    let text = world.scrape_nova();
    assert!(
        text.contains("novacron_reconcile_total{result=\"success\"}"),
        "{text}"
    );
    assert!(!text.contains(&memory), "{text}");
}

#[tokio::test]
async fn a_vm_that_is_not_to_run_is_made_and_never_started() {
    let (world, kvm) = furnished("nova-off").await;
    let mut silent = readme("quiet", json!({}));
    silent["spec"].as_object_mut().unwrap().remove("running");
    apply(&world, silent).await;
    let vm = stands(&world, "quiet", "Stopped").await;
    assert!(!vm.spec.running);
    assert_eq!(kvm.vms().len(), 1);
    let made = world.get::<infra::VirtualMachine>("quiet").await;
    let power = made.status.unwrap().power_state;
    assert!(
        matches!(power, Some(PowerState::Off | PowerState::OffGraceful)),
        "{power:?}"
    );
}

#[tokio::test]
async fn a_hypervisor_that_does_not_answer_keeps_the_vm_until_it_is_forced() {
    let (world, kvm) = furnished("nova-force").await;
    apply(&world, readme("my-vm", json!({}))).await;
    stands(&world, "my-vm", "Running").await;
    kvm.faults()
        .parse("fail=Delete:Unavailable:1000")
        .expect("a rule");
    world.delete::<VirtualMachine>("my-vm").await;
    let waits = says(&world, "my-vm", "False", "Deleting").await;
    assert_eq!(waits.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
    let force = json!({"metadata": {"annotations": {"novacron.io/force-delete": "true"}}});
    patch(&world, "my-vm", force).await;
    world.gone::<VirtualMachine>("my-vm").await;
}

/// Everything that anybody of us writes, with its version.
async fn versions(world: &World) -> Vec<(String, Option<String>)> {
    async fn of<K: Object>(world: &World) -> Vec<(String, Option<String>)> {
        let list = world.api::<K>().list(&ListParams::default()).await.unwrap();
        let each = list.items.into_iter().map(|object| {
            let meta = object.meta();
            let name = format!("{}/{}", K::kind(&()), meta.name.clone().unwrap());
            (name, meta.resource_version.clone())
        });
        each.collect()
    }
    let mut all = of::<VirtualMachine>(world).await;
    all.extend(of::<infra::VirtualMachine>(world).await);
    all.extend(of::<VMNetworkAttachment>(world).await);
    all.extend(of::<VMSnapshot>(world).await);
    all
}

#[tokio::test]
async fn nothing_is_written_at_rest_nor_by_a_new_manager() {
    let (mut world, kvm) = furnished("nova-rest").await;
    let two = json!([{"name": "default", "type": "bridge"}, {"name": "data", "type": "bridge"}]);
    for name in ["a", "b"] {
        apply(&world, readme(name, made_of(json!({ "networks": two })))).await;
    }
    for name in ["a", "b"] {
        stands(&world, name, "Running").await;
    }
    let rest = Duration::from_secs(6);
    let mut before = versions(&world).await;
    for attempt in 0.. {
        assert!(attempt < 20, "it never comes to rest");
        tokio::time::sleep(rest).await;
        let now = versions(&world).await;
        if std::mem::replace(&mut before, now.clone()) == now {
            break;
        }
    }
    world.stop();
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.start(|_| {}).await;
    tokio::time::sleep(rest).await;
    assert_eq!(versions(&world).await, before);
    assert_eq!(kvm.vms().len(), 2);
}

/// Every version of a VM that anybody sees is one write.
#[tokio::test]
async fn a_vm_is_written_a_few_times_on_its_way() {
    let (world, _kvm) = furnished("nova-writes").await;
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (api, into) = (world.api::<VirtualMachine>(), seen.clone());
    let watch = tokio::spawn(async move {
        let mut stream = watcher(api, watcher::Config::default()).boxed();
        while let Some(event) = stream.next().await {
            if let Ok(watcher::Event::Apply(vm)) = event {
                into.lock().unwrap().push(vm.status.and_then(|s| s.phase));
            }
        }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    apply(&world, readme("my-vm", json!({}))).await;
    stands(&world, "my-vm", "Running").await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    watch.abort();
    let phases = seen.lock().unwrap().clone();
    // The user's own, the finalizer, Pending (creating, starting), Running; addresses may come later.
    assert!(phases.len() <= 7, "{phases:?}");
    let vm = world.get::<VirtualMachine>("my-vm").await;
    assert_eq!(vm.metadata.generation, Some(1));
}

#[tokio::test]
async fn a_crash_that_is_corrected_is_reported_on_the_owner() {
    let (world, kvm) = furnished("nova-crash").await;
    apply(&world, readme("my-vm", json!({}))).await;
    let vm = stands(&world, "my-vm", "Running").await;
    let id = kvm.vms()[0].id.clone();
    kvm.out_of_band().power_off(&id).expect("stopped");
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let api: kube::Api<k8s_openapi::api::core::v1::Event> =
            kube::Api::namespaced(world.client.clone(), &world.namespace);
        let events = api
            .list(&ListParams::default())
            .await
            .expect("events")
            .items;
        let ours = events.iter().find(|event| {
            event.reason.as_deref() == Some("DriftCorrected")
                && event.involved_object.uid == vm.metadata.uid
        });
        if let Some(event) = ours {
            assert_eq!(event.type_.as_deref(), Some("Warning"));
            assert_eq!(
                event.involved_object.api_version.as_deref(),
                Some("novacron.io/v1alpha1")
            );
            assert!(event.last_timestamp.is_some() && event.count == Some(1));
            break;
        }
        assert!(Instant::now() < deadline, "{events:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stands(&world, "my-vm", "Running").await;
}
