//! A provider that dies at any moment: its work stops where it stands, and the next life ends it.

use std::time::Duration;

use polyvirt_contract::Provider as _;
use polyvirt_contract::model::{CreateVm, PowerOp, PowerState, VmRef};

use crate::lab::{Lab, desired, open};

/// Begins to create and start the VM in a life of its own, which ends after a while wherever the work stands.
fn die_after(folder: &std::path::Path, wanted: &CreateVm, life: Duration) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let work = async {
            let provider = open(folder).await;
            let created = provider.create(wanted.clone()).await.expect("accepted");
            let vm = VmRef {
                id: created.id,
                owner: wanted.owner.clone(),
            };
            let _ = provider.power(&vm, PowerOp::On.into()).await;
            std::future::pending::<()>().await;
        };
        let _ = tokio::time::timeout(life, work).await;
    });
    runtime.shutdown_background();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_dies_at_any_moment_leaves_one_vm_or_none() {
    let mut lab = Lab::new().await;
    let elsewhere = tempfile::tempdir().expect("a folder");
    for (number, millis) in [0, 3, 8, 15, 30, 60, 90, 120, 180, 250, 400, 700]
        .into_iter()
        .enumerate()
    {
        let number = 100 + u32::try_from(number).expect("small");
        let wanted = desired(&format!("crash-{millis}"), number);
        // The folder is free for the other life while this one is elsewhere.
        lab.provider = open(elsewhere.path()).await;
        let (folder, asked) = (lab.folder.path().to_owned(), wanted.clone());
        let life = Duration::from_millis(millis);
        let died = tokio::task::spawn_blocking(move || die_after(&folder, &asked, life));
        died.await.expect("it died as it should");
        lab.provider = open(lab.folder.path()).await;

        let vm = lab.create(&wanted).await;
        let found = lab.provider.list_vms().await.expect("listed");
        assert_eq!(found.len(), 1, "after {millis} ms: {found:?}");
        lab.power(&vm, PowerOp::On).await;
        let state = lab.state(&vm).await;
        assert_eq!(
            (state.power, state.fault.as_str()),
            (PowerState::On, ""),
            "after {millis} ms"
        );
        lab.delete(&vm).await;
    }
}
