//! Every form of the README is taken under strict validation, and runs.

use polyvirt_api::infra::{VMNetworkAttachment, VMSnapshot};

use super::*;
use crate::world::pair;

fn migration() -> Value {
    json!({"allowLiveMigration": true, "compression": true, "encrypted": true, "bandwidth": "10Gbps"})
}

fn gpu() -> Value {
    json!([{"type": "gpu", "vendor": "nvidia", "model": "tesla-t4", "count": 1}])
}

fn interfaces() -> Value {
    json!([
        {"name": "management", "type": "bridge",
         "ipv4": {"method": "static", "address": "10.0.1.10/24", "gateway": "10.0.1.1"}},
        {"name": "data", "type": "sr-iov", "ipv4": {"method": "dhcp"}},
    ])
}

const USER_DATA: &str = "#cloud-config
users:
  - name: admin
    ssh_authorized_keys:
      - ssh-rsa AAAAB3...
packages:
  - docker.io
  - nginx
runcmd:
  - docker run -d nginx
";

fn nodes() -> Value {
    let region = json!({"key": "node.novacron.io/region", "operator": "In", "values": ["us-east-1", "us-west-2"]});
    json!({
        "nodeSelector": {"node.novacron.io/type": "compute", "node.novacron.io/gpu": "true"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [region]}],
        }}},
    })
}

/// No host of the hypervisor here has a GPU, a virtual function or the labels of the README.
async fn finds_no_host(world: &World, name: &str) -> VirtualMachine {
    let refused = |vm: &VirtualMachine| {
        let mut all = vm.status.iter().flat_map(|s| &s.conditions);
        all.any(|c| c.reason.as_deref() == Some("NodeSelectionFailed"))
    };
    world.until(name, "without a host", refused).await
}

#[tokio::test]
async fn everything_at_once() {
    let (world, kvm) = furnished("nova-all").await;
    let mut whole = made_of(json!({
        "devices": gpu(), "networks": interfaces(), "userData": USER_DATA,
        "volumes": [{"name": "data", "size": "100Gi", "storageClass": "fast", "accessMode": "ReadWriteOnce"}],
    }));
    merge(&mut whole, &made_of(nodes()));
    merge(
        &mut whole,
        &json!({"spec": {
            "migrationPolicy": migration(),
            "snapshotPolicy": {"schedule": "0 2 * * *", "retention": 7},
            "updateStrategy": {"type": "Recreate"},
        }}),
    );
    let stored = apply(&world, readme("everything", whole)).await;
    let stored = serde_json::to_value(stored.spec.template.spec).unwrap();
    assert_eq!(stored["affinity"], nodes()["affinity"]);
    let vm = finds_no_host(&world, "everything").await;
    assert_eq!(
        condition(&vm, "LiveMigratable"),
        pair("True", "MigrationEnabled")
    );
    let spec = world.get::<infra::VirtualMachine>("everything").await.spec;
    let spec = serde_json::to_value(spec).unwrap();
    for (path, expected) in [
        ("/networks/0/ipAddress", json!("10.0.1.10")),
        ("/disks/0/sizeGiB", json!(100)),
        ("/userData/cloudInit/inline", json!(USER_DATA)),
        ("/resources/devices/0/model", json!("tesla-t4")),
        ("/resources/devices/0/vendor", json!("nvidia")),
        ("/resources/devices/1/type", json!("sriov")),
        ("/resources/devices/1/model", json!("data")),
        ("/placement/nodeSelector", nodes()["nodeSelector"].clone()),
        ("/placement/affinity", nodes()["affinity"].clone()),
        ("/reconfigurePolicy/restart", json!("WhenNeeded")),
    ] {
        assert_eq!(spec.pointer(path), Some(&expected), "{path}");
    }
    let schedule = world
        .until("everything-scheduled", "there", |_: &VMSnapshot| true)
        .await;
    let cron = schedule.spec.schedule.unwrap().cron_spec;
    assert_eq!(cron.as_deref(), Some("0 2 * * *"));
    world.delete::<VirtualMachine>("everything").await;
    world.gone::<VirtualMachine>("everything").await;
    world.gone::<VMSnapshot>("everything-scheduled").await;
    world
        .gone::<VMNetworkAttachment>("everything-management")
        .await;
    assert!(kvm.vms().is_empty());
}

#[tokio::test]
async fn the_fragments_are_patches_of_a_vm_that_runs() {
    let (world, _kvm) = furnished("nova-patches").await;
    apply(&world, readme("my-vm", json!({}))).await;
    stands(&world, "my-vm", "Running").await;
    for fragment in [
        json!({"spec": {"migrationPolicy": migration()}}),
        json!({"spec": {"snapshotPolicy": {"schedule": "0 2 * * *", "retention": 7}}}),
        made_of(json!({"devices": gpu()})),
        made_of(json!({"networks": interfaces()})),
        made_of(json!({"userData": USER_DATA})),
        made_of(nodes()),
    ] {
        patch(&world, "my-vm", fragment).await;
    }
    // Devices come with a VM, not later.
    let told = |vm: &VirtualMachine| {
        let all = vm.status.iter().flat_map(|s| &s.conditions);
        let mut fields = all.filter(|c| c.type_ == "FieldsHonoured");
        fields.any(|c| {
            let message = c.message.as_deref().unwrap_or_default();
            let late = ["devices[0]", "networks[1].type"];
            late.iter().all(|field| message.contains(field))
        })
    };
    world
        .until("my-vm", "told of what comes too late", told)
        .await;
    let enabled = |vm: &VirtualMachine| {
        let all = vm.status.iter().flat_map(|s| &s.conditions);
        let mut live = all.filter(|c| c.type_ == "LiveMigratable");
        live.any(|c| c.status == "True")
    };
    world.until("my-vm", "migratable", enabled).await;
    world
        .until("my-vm-scheduled", "there", |_: &VMSnapshot| true)
        .await;
    let placed = |vm: &infra::VirtualMachine| vm.spec.placement.is_some();
    world.until("my-vm", "placed", placed).await;
    stands(&world, "my-vm", "Running").await;
    let keeps = |n: Option<i32>| {
        move |s: &VMSnapshot| s.spec.retention_policy.as_ref().and_then(|r| r.max_count) == n
    };
    world
        .until("my-vm-scheduled", "seven", keeps(Some(7)))
        .await;
    let all = json!({"spec": {"snapshotPolicy": {"retention": null}}});
    patch(&world, "my-vm", all).await;
    world.until("my-vm-scheduled", "all", keeps(None)).await;
    patch(&world, "my-vm", json!({"spec": {"snapshotPolicy": null}})).await;
    let rests = |s: &VMSnapshot| s.spec.schedule.as_ref().is_some_and(|s| s.suspend);
    world.until("my-vm-scheduled", "resting", rests).await;
    world.delete::<VirtualMachine>("my-vm").await;
    world.gone::<VMSnapshot>("my-vm-scheduled").await;
}

#[tokio::test]
async fn each_fragment_is_a_form_of_its_own() {
    let (world, kvm) = furnished("nova-forms").await;
    let forms = [
        ("gpu", made_of(json!({"devices": gpu()}))),
        ("nics", made_of(json!({"networks": interfaces()}))),
        ("cloud-init", made_of(json!({"userData": USER_DATA}))),
        ("affinity", made_of(nodes())),
        (
            "url",
            made_of(json!({"image": {"source": "https://images.example/a.qcow2"}})),
        ),
        (
            "hooks",
            made_of(json!({"lifecycle": {
                "postStart": {"exec": {"command": ["/bin/true"]}},
                "preStop": {"httpGet": {"path": "/drain", "port": 8080}},
            }})),
        ),
        (
            "dual",
            made_of(json!({"networks": [{"name": "lan", "type": "macvlan",
            "ipv4": {"method": "static", "address": "10.0.1.10/24"}, "ipv6": {"method": "auto"}}]})),
        ),
    ];
    for (name, form) in &forms {
        apply(&world, readme(name, form.clone())).await;
    }
    let wishes_too_much = ["gpu", "nics", "affinity"];
    for (name, _) in &forms {
        if wishes_too_much.contains(name) {
            finds_no_host(&world, name).await;
        } else {
            stands(&world, name, "Running").await;
        }
    }
    assert_eq!(kvm.vms().len(), forms.len() - wishes_too_much.len());
    let told = world.get::<VirtualMachine>("dual").await;
    assert_eq!(
        condition(&told, "FieldsHonoured"),
        pair("False", "FieldsIgnored")
    );
}

#[tokio::test]
async fn policies_alone_are_no_vm() {
    let world = World::empty("nova-policies").await;
    for spec in [
        json!({"migrationPolicy": migration()}),
        json!({"snapshotPolicy": {"schedule": "0 2 * * *", "retention": 7}}),
    ] {
        let object = json!({
            "apiVersion": "novacron.io/v1alpha1", "kind": "VirtualMachine",
            "metadata": {"name": "my-vm"}, "spec": spec,
        });
        let api = world.api::<VirtualMachine>();
        let params = PatchParams::apply("kubectl");
        let refused = api.patch("my-vm", &params, &Patch::Apply(&object)).await;
        let why = refused.expect_err("refused").to_string();
        assert!(why.contains("spec.template: Required value"), "{why}");
    }
}
