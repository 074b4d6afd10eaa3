//! What newer guests want, run and not only defined: UEFI, a TPM, a screen; and addresses without an agent.

use bytes::Bytes;
use futures::StreamExt as _;
use polyvirt_contract::Provider as _;
use polyvirt_contract::model::{ConsoleKind, Firmware, PowerOp, SecurityProfile, UserData};

use crate::host::Host;
use crate::lab::{Lab, told};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_boots_with_uefi_and_a_tpm_and_shows_its_screen() {
    let lab = Lab::new().await;
    let mut desired = lab.desired("modern", 1);
    desired.class.firmware = Firmware::Uefi;
    desired.class.security = Some(SecurityProfile {
        tpm: true,
        ..SecurityProfile::default()
    });
    let vm = lab.create(&desired).await;
    // The daemon's own folder for it is in a name space of its own; what is edited by hand stays.
    let socket = lab.host.path("screen.sock");
    let xml = lab.host.virsh(&["dumpxml", "--inactive", "modern"]);
    let listen = format!("<listen type='socket' socket='{}'/>", socket.display());
    let edited = xml.replace("<listen type='socket'/>", &listen);
    assert_ne!(
        xml, edited,
        "the screen is described in another way now: {xml}"
    );
    let file = lab.host.path("modern.xml");
    std::fs::write(&file, edited).expect("written");
    lab.host.virsh(&["define", &file.display().to_string()]);

    let state = lab.boot(&vm).await;
    assert_eq!(state.details["firmware"], "UEFI");
    assert_eq!(
        lab.run(&vm, "test -d /sys/firmware/efi && echo efi").await,
        "efi"
    );
    let live = lab.host.virsh(&["dumpxml", "modern"]);
    assert!(live.contains("<tpm model='tpm-crb'>"), "{live}");
    let pids = std::fs::read_dir(lab.host.path("run/qemu/swtpm")).expect("swtpm runs");
    assert!(pids.count() > 0, "no TPM is emulated");

    let mut screen = lab
        .provider
        .console(&vm, ConsoleKind::Vnc)
        .await
        .expect("open");
    let greeting = screen.output.next().await.expect("speaks").expect("bytes");
    assert!(greeting.starts_with(b"RFB 003."), "{greeting:?}");
    drop(screen);
    lab.delete(&vm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libvirt_takes_and_starts_a_machine_with_ignition() {
    let lab = Lab::new().await;
    let mut desired = lab.desired("coreos", 1);
    let document = r#"{"ignition": {"version": "3.4.0"}}"#;
    desired.user_data = Some(UserData::Ignition(Bytes::from(document)));
    let vm = lab.create(&desired).await;
    lab.power(&vm, PowerOp::On).await;
    let live = lab.host.virsh(&["dumpxml", "coreos"]);
    assert!(live.contains("opt/com.coreos/config"), "{live}");
    assert!(
        !live.contains("3.4.0"),
        "the document is in a file, not in the XML"
    );
    lab.delete(&vm).await;
}

const NETWORK: &str = "<network><name>lan</name><forward mode='open'/><bridge name='lvlan0' stp='off' delay='0'/><ip address='192.168.177.1' netmask='255.255.255.0'><dhcp><range start='192.168.177.10' end='192.168.177.99'/></dhcp></ip></network>";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_without_an_agent_is_found_by_its_lease() {
    let lab = Lab::on(Host::apart()).await;
    let file = lab.host.path("lan.xml");
    std::fs::write(&file, NETWORK).expect("written");
    lab.host.virsh(&["net-define", &file.display().to_string()]);
    lab.host.virsh(&["net-start", "lan"]);
    let disk = lab.host.path("images/guest.qcow2");
    let xml = format!(
        "<domain type='qemu'><name>mute</name><uuid>0a1b2c3d-0000-4000-8000-0000000000aa</uuid><memory unit='MiB'>192</memory><os><type machine='q35'>hvm</type></os><features><acpi/></features><devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{}'/><target dev='vda' bus='virtio'/></disk><interface type='network'><mac address='02:70:aa:00:00:07'/><source network='lan'/><model type='virtio'/></interface><serial type='pty'/></devices></domain>",
        disk.display()
    );
    let file = lab.host.path("mute.xml");
    std::fs::write(&file, xml).expect("written");
    let mut stream = lab.watch().await;
    lab.host.virsh(&["define", &file.display().to_string()]);
    lab.host.virsh(&["start", "mute"]);
    let state = told(&mut stream, |state| !state.ips.is_empty()).await;
    assert_eq!(state.name, "mute");
    assert!(state.ips[0].starts_with("192.168.177."), "{:?}", state.ips);
    lab.host.virsh(&["destroy", "mute"]);
    told(&mut stream, |state| state.ips.is_empty()).await;
}
