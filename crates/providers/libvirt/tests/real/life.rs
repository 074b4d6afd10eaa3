//! One guest from its beginning to its end, beside domains of others.

use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use polyvirt_contract::model::{ConsoleKind, Owner, PowerOp, PowerState, UserData};
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{ErrorKind, Provider as _};

use crate::host::Host;
use crate::lab::{Lab, next, owner, told};
use crate::switch;

const FOREIGN: &str = "<domain type='qemu'><name>theirs</name><uuid>0a1b2c3d-0000-4000-8000-0000000000ff</uuid><memory unit='MiB'>64</memory><os><type machine='q35'>hvm</type></os><features><acpi/></features><devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='DISK'/><target dev='vda' bus='virtio'/></disk></devices></domain>";

fn define_foreign(lab: &Lab) -> String {
    let file = lab.host.path("theirs.xml");
    let disk = lab.host.path("theirs.qcow2").display().to_string();
    let made = Command::new("qemu-img")
        .args(["create", "-q", "-f", "qcow2", &disk, "3G"])
        .status();
    assert!(made.expect("qemu-img is installed").success());
    std::fs::write(&file, FOREIGN.replace("DISK", &disk)).expect("written");
    lab.host.virsh(&["define", &file.display().to_string()]);
    lab.host.virsh(&["dumpxml", "theirs"])
}

/// Whoever adopts it sees what it has.
async fn is_listed_with_its_disk(lab: &Lab) {
    let all = lab.provider.list_vms().await.expect("listed");
    let theirs = all.iter().find(|vm| vm.name == "theirs").expect("seen");
    let disks = theirs.disks.as_deref().expect("told");
    let [disk] = disks else { panic!("{disks:?}") };
    assert!(disk.path.ends_with("/theirs.qcow2"), "{disk:?}");
    assert_eq!((disk.size_gib, disk.format.as_str()), (3, "qcow2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_lives_and_others_are_left_alone() {
    let lab = Lab::on(Host::with_switch()).await;
    let theirs = define_foreign(&lab);
    is_listed_with_its_disk(&lab).await;
    let mut stream = lab.watch().await;
    let mut desired = lab.desired("web", 1);
    let script = "#!/bin/sh\necho seeded > /tmp/seeded\n";
    desired.user_data = Some(UserData::CloudInit(Bytes::from(script)));
    desired.tags = vec!["blue & <green>".to_owned()];
    switch::plug(&mut desired);
    let vm = lab.create(&desired).await;
    let state = lab.boot(&vm).await;
    assert_eq!(state.owner, desired.owner);
    assert_eq!(state.details["tags"], "blue & <green>");
    lab.until_runs(&vm, "grep -q seeded /tmp/seeded").await;
    switch::is_in_its_vlan(&lab, &vm).await;
    told(&mut stream, |state| {
        state.id == vm.id && !state.ips.is_empty()
    })
    .await;
    let xml = lab.host.virsh(&["dumpxml", "web"]);
    assert!(
        !xml.contains("seeded"),
        "what the guest is told is in no XML"
    );

    // What others do to it is told within a second.
    let begun = Instant::now();
    lab.host.virsh(&["destroy", "web"]);
    let virsh = begun.elapsed();
    told(&mut stream, |state| {
        state.id == vm.id && state.power == PowerState::Off
    })
    .await;
    let told = begun.elapsed();
    let _ = writeln!(
        std::io::stderr(),
        "destroyed behind our back: virsh took {virsh:?}, told after {told:?}"
    );
    assert!(told < virsh + Duration::from_secs(1), "{told:?}");

    // Another object of the same name gets neither the name nor the VM.
    let mut other = lab.desired("web", 2);
    other.owner = Some(Owner {
        namespace: "elsewhere".to_owned(),
        ..owner("web", 2)
    });
    let refused = lab.provider.create(other).await.expect_err("taken");
    assert_eq!(refused.kind, ErrorKind::NameConflict);
    let stolen = lab.desired("other", 0xff);
    let refused = lab.provider.create(stolen).await.expect_err("taken");
    assert_eq!(refused.kind, ErrorKind::IdentityConflict);
    let named = lab.desired("theirs", 3);
    let refused = lab.provider.create(named).await.expect_err("taken");
    assert_eq!(refused.kind, ErrorKind::NameConflict);

    lab.delete(&vm).await;
    while !matches!(next(&mut stream).await, VmEvent::Gone { id, .. } if id == vm.id) {}
    assert_eq!(lab.host.virsh(&["dumpxml", "theirs"]), theirs);
    assert_eq!(lab.host.virsh(&["list", "--all", "--name"]), "theirs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_comes_later_finds_everything() {
    let lab = Lab::new().await;
    let vm = lab.create(&lab.desired("kept", 1)).await;
    lab.power(&vm, PowerOp::On).await;
    let later = crate::lab::open(&lab.host.url());
    let identity = vm.owner.clone().expect("owned").identity;
    let found = later
        .find(&identity)
        .await
        .expect("answers")
        .expect("there");
    assert_eq!(
        (found.id.clone(), found.power),
        (vm.id.clone(), PowerState::On)
    );
    let refused = later.console(&vm, ConsoleKind::Vnc).await;
    // The socket of the screen is in the daemon's own name space here: reached, and not found.
    assert!(refused.is_err());
    lab.delete(&vm).await;
    assert_eq!(later.describe(&vm.id).await, Ok(None));
}
