//! VMs that somebody else made.

use polyvirt_api::kubevirt::{DiskOption, KubevirtOptions};
use polyvirt_contract::model::{PowerOp, PowerState, UserData};
use polyvirt_contract::{ErrorKind, Provider};
use serde_json::{Value, json};

use crate::lab::{Lab, with_options};

/// A VirtualMachine as the operator makes it that Polyvirt takes the place of, for the Machine that it says.
fn of_the_go_operator(name: &str, machine: &str) -> Value {
    let labels = json!({
        "vitistack.io/managed-by": "kubevirt-operator",
        "vitistack.io/source-machine": machine,
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

async fn foreign(lab: &Lab, name: &str, machine: &str) {
    lab.put("PersistentVolumeClaim", claim(name)).await;
    lab.put("VirtualMachine", of_the_go_operator(name, machine))
        .await;
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

/// What the Viti Stack API asks for when it makes the VM of the Machine `web`, whose claim has the VM's name.
fn options(claim: &str) -> KubevirtOptions {
    let labels = ["vitistack.io/machine", "vitistack.io/source-machine"];
    KubevirtOptions {
        vm_name: Some("vm-web".to_owned()),
        adopt_names: vec!["vm-web".to_owned(), "web".to_owned()],
        adopt_labels: labels.map(|key| (key.to_owned(), "web".to_owned())).into(),
        root_disk: Some(DiskOption {
            claim: Some(claim.to_owned()),
            ..DiskOption::default()
        }),
        ..KubevirtOptions::default()
    }
}

async fn is_taken_over(name: &str) {
    let lab = Lab::new().await;
    foreign(&lab, name, "web").await;
    let before = lab.get("VirtualMachine", name).await;
    let instance = lab.get("VirtualMachineInstance", name).await;
    let wish = with_options(lab.wish("web"), &options(name));
    let vm = lab.make(wish.clone()).await;
    assert_eq!(vm.id.as_str(), format!("{}/{name}", lab.namespace));
    let state = lab.state(&vm).await;
    assert_eq!(
        (state.power, state.owner),
        (PowerState::On, vm.owner.clone())
    );
    let after = lab.get("VirtualMachine", name).await;
    let shape = |vm: &Value| vm["spec"]["template"]["spec"].clone();
    assert_eq!(shape(&after), shape(&before));
    assert_eq!(
        after["metadata"]["labels"]["vitistack.io/source-machine"],
        "web"
    );
    let now = lab.get("VirtualMachineInstance", name).await;
    assert_eq!(now["metadata"]["uid"], instance["metadata"]["uid"]);
    assert_eq!(lab.names("VirtualMachine").await, [name]);
    assert_eq!(lab.names("PersistentVolumeClaim").await, [name]);
    assert_eq!(lab.make(wish).await.id, vm.id, "asked for again");
    lab.switch(&vm, PowerOp::Off, PowerState::Off).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_of_the_old_operator_is_taken_over_without_a_restart() {
    is_taken_over("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_is_one_that_has_the_name_that_it_would_get_here() {
    is_taken_over("vm-web").await;
}

/// Of the names to adopt, and made for another Machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_that_was_made_for_another_machine_is_left_alone() {
    let lab = Lab::new().await;
    foreign(&lab, "vm-web", "db").await;
    let before = lab.get("VirtualMachine", "vm-web").await;
    let wish = with_options(lab.wish("web"), &options("vm-web"));
    let error = lab.provider.create(wish).await.expect_err("refused");
    assert_eq!(error.kind, ErrorKind::NameConflict, "{error}");
    let after = lab.get("VirtualMachine", "vm-web").await;
    for part in ["/spec", "/metadata/labels", "/metadata/annotations"] {
        assert_eq!(after.pointer(part), before.pointer(part), "{part}");
    }
    assert_eq!(lab.names("VirtualMachine").await, ["vm-web"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_of_somebody_else_is_never_touched() {
    let lab = Lab::new().await;
    foreign(&lab, "web", "web").await;
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
