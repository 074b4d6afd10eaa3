//! UEFI, with and without secure boot.

use polyvirt_contract::model::{Firmware, PowerOp, SecurityProfile};
use polyvirt_contract::{Provider as _, VmId};

use crate::lab::{Lab, desired};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uefi_boots_and_keeps_its_variables_in_snapshots() {
    let lab = Lab::new().await;
    let mut wanted = desired("uefi", 30);
    wanted.class.firmware = Firmware::Uefi;
    let vm = lab.create(&wanted).await;
    let state = lab.boot(&vm).await;
    assert_eq!(state.details["firmware"], "UEFI");
    lab.until_runs(&vm, "test -d /sys/firmware/efi").await;
    let request = polyvirt_contract::model::SnapshotRequest {
        name_hint: "efi".to_owned(),
        contents: polyvirt_contract::model::SnapshotContents::DisksAndMemory,
        ..Default::default()
    };
    let taken = lab
        .provider
        .snapshot_create(&vm, request)
        .await
        .expect("accepted");
    lab.done(Ok(taken.task)).await;
    lab.done(lab.provider.snapshot_revert(&vm, &taken.id).await)
        .await;
    lab.up(&vm).await;
    lab.delete(&vm).await;
}

/// The test guest is not signed: a firmware that demands signatures starts, and does not start the guest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secure_boot_refuses_a_guest_that_nobody_signed() {
    let lab = Lab::new().await;
    let mut wanted = desired("secure", 31);
    wanted.class.firmware = Firmware::Uefi;
    wanted.class.security = Some(SecurityProfile {
        secure_boot: true,
        ..SecurityProfile::default()
    });
    let vm = lab.create(&wanted).await;
    lab.power(&vm, PowerOp::On).await;
    let log = lab.vm_folder(&vm).join("console.log");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    loop {
        let said = std::fs::read(&log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(
            !said.contains("GUEST ready"),
            "the guest started though it is not signed"
        );
        if said.contains("Access Denied") || said.contains("Security Violation") {
            break;
        }
        assert!(
            std::time::Instant::now() < deadline,
            "the firmware said: {said}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    assert_ne!(vm.id, VmId::default());
    lab.delete(&vm).await;
}
