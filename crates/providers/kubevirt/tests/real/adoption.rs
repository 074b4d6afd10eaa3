//! VMs that somebody else made.

use polyvirt_api::kubevirt::{DiskOption, KubevirtOptions};
use polyvirt_contract::model::{PowerOp, PowerState, UserData};
use polyvirt_contract::{ErrorKind, Provider};
use serde_json::{Value, json};

use crate::lab::{Lab, with_options};

/// A VirtualMachine as the operator makes it that Polyvirt takes the place of.
fn of_the_go_operator(name: &str) -> Value {
    let labels = json!({
        "vitistack.io/managed-by": "kubevirt-operator",
        "vitistack.io/source-machine": name,
    });
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "runStrategy": "Always",
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "domain": {
                        "cpu": {"model": "host-model", "cores": 2, "sockets": 1, "threads": 1},
                        "memory": {"guest": "512Mi"},
                        "firmware": {"bootloader": {"efi": {"secureBoot": false}}},
                        "devices": {
                            "autoattachPodInterface": false,
                            "networkInterfaceMultiqueue": true,
                            "disks": [{"name": "root", "disk": {"bus": "virtio"}, "bootOrder": 1}],
                            "interfaces": [{
                                "name": "default", "model": "virtio", "bridge": {},
                                "macAddress": "02:12:00:00:00:01",
                            }],
                        },
                    },
                    "networks": [{"name": "default", "pod": {}}],
                    "volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": name}}],
                },
            },
        },
    })
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "volumeMode": "Block",
            "resources": {"requests": {"storage": "20Gi"}},
        },
    })
}

async fn foreign(lab: &Lab, name: &str) {
    lab.put("PersistentVolumeClaim", claim(name)).await;
    lab.put("VirtualMachine", of_the_go_operator(name)).await;
    let begin = std::time::Instant::now();
    loop {
        let listed = lab.provider.list_vms().await.expect("a list");
        let id = format!("{}/{name}", lab.namespace);
        let found = listed.iter().find(|vm| vm.id.as_str() == id);
        if found.is_some_and(|vm| vm.power == PowerState::On) {
            return;
        }
        assert!(begin.elapsed() < crate::lab::PATIENCE, "{listed:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_of_the_old_operator_is_taken_over_without_a_restart() {
    let lab = Lab::new().await;
    foreign(&lab, "web").await;
    let before = lab.get("VirtualMachine", "web").await;
    let instance = lab.get("VirtualMachineInstance", "web").await;
    let options = KubevirtOptions {
        vm_name: Some("vm-web".to_owned()),
        adopt_names: vec!["vm-web".to_owned(), "web".to_owned()],
        root_disk: Some(DiskOption {
            claim: Some("web".to_owned()),
            ..DiskOption::default()
        }),
        ..KubevirtOptions::default()
    };
    let wish = with_options(lab.wish("web"), &options);
    let vm = lab.make(wish.clone()).await;
    assert_eq!(vm.id.as_str(), format!("{}/web", lab.namespace));
    let state = lab.state(&vm).await;
    assert_eq!(
        (state.power, state.owner),
        (PowerState::On, vm.owner.clone())
    );
    let after = lab.get("VirtualMachine", "web").await;
    let shape = |vm: &Value| vm["spec"]["template"]["spec"].clone();
    assert_eq!(shape(&after), shape(&before));
    assert_eq!(
        after["metadata"]["labels"]["vitistack.io/source-machine"],
        "web"
    );
    let now = lab.get("VirtualMachineInstance", "web").await;
    assert_eq!(now["metadata"]["uid"], instance["metadata"]["uid"]);
    assert_eq!(lab.names("VirtualMachine").await, ["web"]);
    assert_eq!(lab.names("PersistentVolumeClaim").await, ["web"]);
    assert_eq!(lab.make(wish).await.id, vm.id, "asked for again");
    lab.switch(&vm, PowerOp::Off, PowerState::Off).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_of_somebody_else_is_never_touched() {
    let lab = Lab::new().await;
    foreign(&lab, "web").await;
    let before = lab.get("VirtualMachine", "web").await;
    let error = lab
        .provider
        .create(lab.wish("web"))
        .await
        .expect_err("refused");
    assert_eq!(error.kind, ErrorKind::NameConflict);
    let after = lab.get("VirtualMachine", "web").await;
    for part in ["/spec", "/metadata/labels", "/metadata/annotations"] {
        assert_eq!(after.pointer(part), before.pointer(part), "{part}");
    }
    assert_eq!(lab.names("PersistentVolumeClaim").await, ["web"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_of_somebody_else_is_never_overwritten() {
    let lab = Lab::new().await;
    let theirs = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web-cloudinit"},
        "stringData": {"userdata": "theirs"},
    });
    lab.put("Secret", theirs).await;
    let before = lab.get("Secret", "web-cloudinit").await;
    let mut wish = lab.wish("web");
    wish.user_data = Some(UserData::CloudInit("#cloud-config\n".into()));
    let error = lab.provider.create(wish).await.expect_err("refused");
    assert_eq!(error.kind, ErrorKind::NameConflict, "{error}");
    let after = lab.get("Secret", "web-cloudinit").await;
    assert_eq!(after, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_of_somebody_else_is_never_used_by_accident() {
    let lab = Lab::new().await;
    lab.put("PersistentVolumeClaim", claim("web-root")).await;
    let error = lab
        .provider
        .create(lab.wish("web"))
        .await
        .expect_err("refused");
    assert_eq!(error.kind, ErrorKind::NameConflict, "{error}");
    // A person who names it means it; it stays when the VM goes.
    let options = KubevirtOptions {
        root_disk: Some(DiskOption {
            claim: Some("web-root".to_owned()),
            ..DiskOption::default()
        }),
        ..KubevirtOptions::default()
    };
    let vm = lab.make(with_options(lab.wish("web"), &options)).await;
    lab.provider.delete(&vm).await.expect("accepted");
    assert_eq!(lab.names("PersistentVolumeClaim").await, ["web-root"]);
}
