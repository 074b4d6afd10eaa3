//! The daemon is killed in each operation, and comes back: whoever asks again gets what was asked for, once, and nothing is left.
//!
//! | operation | where |
//! |---|---|
//! | create | `kills`, at four moments |
//! | power on, off, reboot; disk and card plugged in, disk grown, size changed, disk taken; snapshot taken, gone back to, deleted; full and linked clone; image prepared and deleted; delete | here |
//! | move, at the source and at the target | `moving` |

use std::time::Duration;

use polyvirt_contract::model::{
    CloneMode, CloneVm, CreateVm, DiskSpec, ExpandPolicy, ImageOrigin, PowerOp, PowerState,
    PrepareImage, PreparedImage, Pull, Quiesce, SnapshotContents, SnapshotRequest, VmRef,
};
use polyvirt_contract::{ErrorKind, Provider as _, ProviderError, Result, TaskId};

use crate::lab::{Lab, nic, owner};
use crate::storage;

/// When the daemon is killed after the beginning.
const MOMENTS: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(40)];
const ATTEMPTS: usize = 300;

/// What a manager tries again.
fn may_pass(error: &ProviderError) -> bool {
    matches!(
        error.kind,
        ErrorKind::Unavailable
            | ErrorKind::Timeout
            | ErrorKind::Precondition
            | ErrorKind::Cancelled
            | ErrorKind::Internal
    )
}

/// Asks, kills the daemon at that moment, starts it again, and asks until it is done.
async fn survives(
    lab: &Lab,
    what: &str,
    moment: Duration,
    ask: impl AsyncFn() -> Result<Option<TaskId>>,
) {
    let kills = async {
        tokio::time::sleep(moment).await;
        tokio::task::block_in_place(|| {
            lab.host.kill();
            lab.host.forget_unborn();
            lab.host.run();
        });
    };
    let first = async { lab.ended(ask().await).await };
    let (first, ()) = tokio::join!(first, kills);
    println!("{what} after {moment:?}: {first:?}");
    let mut last = first;
    for _ in 0..ATTEMPTS {
        match &last {
            // The daemon may have died before it was written down: whoever asks again learns that it is done.
            Ok(()) => return,
            Err(error) => assert!(may_pass(error), "{what}: {error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        last = lab.ended(ask().await).await;
    }
    panic!("{what} never went well: {last:?}");
}

fn disk(name: &str, size_gib: u32) -> DiskSpec {
    DiskSpec {
        name: name.to_owned(),
        size_gib,
        expand_policy: ExpandPolicy::Online,
        ..DiskSpec::default()
    }
}

async fn power(lab: &Lab, vm: &VmRef, moment: Duration) {
    for (op, expected) in [
        (PowerOp::On, PowerState::On),
        (PowerOp::Reboot, PowerState::On),
        (PowerOp::Off, PowerState::Off),
        (PowerOp::On, PowerState::On),
    ] {
        let what = format!("{op:?}");
        survives(lab, &what, moment, async || {
            lab.provider.power(vm, op.into()).await
        })
        .await;
        lab.until(vm, &what, |state| state.power == expected).await;
    }
}

/// A change, and what it is called.
type Step = (&'static str, fn(&mut CreateVm));

async fn changes(lab: &Lab, vm: &VmRef, desired: &mut CreateVm, moment: Duration) {
    let steps: [Step; 4] = [
        ("plug in", |wanted| {
            wanted.disks = vec![disk("data", 1)];
            wanted.networks.push(nic("eth1"));
        }),
        ("grow", |wanted| wanted.disks[0].size_gib = 2),
        ("resize", |wanted| wanted.class.cpu = 2),
        ("take away", |wanted| {
            wanted.disks.clear();
            wanted.networks.truncate(1);
        }),
    ];
    for (what, change) in steps {
        change(desired);
        let wanted = &*desired;
        survives(lab, what, moment, async || {
            lab.provider.reconfigure(vm, wanted.clone()).await
        })
        .await;
        let state = lab.state(vm).await;
        let volumes = lab.host.volumes("default");
        let data = volumes.iter().filter(|name| name.contains(".vd")).count();
        match what {
            "plug in" | "grow" | "resize" => {
                assert_eq!(data, 1, "{what}: {volumes:?}");
                let size = state.disks.expect("told")[0].size_gib;
                assert_eq!(size, wanted.disks[0].size_gib, "{what}");
                assert_eq!(state.nics.expect("told").len(), 2, "{what}");
            }
            // A guest that has not booted does not let go: it does at the next start.
            _ => assert!(data <= 1, "{what}: {volumes:?}"),
        }
    }
    desired.class.cpu = 1;
}

async fn snapshots(lab: &Lab, vm: &VmRef, moment: Duration) {
    for contents in [SnapshotContents::Disks, SnapshotContents::DisksAndMemory] {
        let request = SnapshotRequest {
            name_hint: "moment".to_owned(),
            description: String::new(),
            contents,
            quiesce: Quiesce::IfPossible,
        };
        let id = "moment".into();
        survives(lab, &format!("snapshot {contents:?}"), moment, async || {
            let taken = lab.provider.snapshot_create(vm, request.clone()).await?;
            Ok(taken.task)
        })
        .await;
        let listed = lab.state(vm).await.snapshots.expect("told");
        assert_eq!(listed.len(), 1, "{listed:?}");
        survives(lab, "revert", moment, async || {
            lab.provider.snapshot_revert(vm, &id).await
        })
        .await;
        survives(lab, "delete snapshot", moment, async || {
            match lab.provider.snapshot_delete(vm, &id).await {
                Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
                other => other,
            }
        })
        .await;
        assert_eq!(lab.state(vm).await.snapshots, Some(Vec::new()));
        lab.power(vm, PowerOp::On).await;
    }
}

async fn clones(lab: &Lab, vm: &VmRef, moment: Duration) {
    lab.power(vm, PowerOp::Off).await;
    for (number, mode) in [(7, CloneMode::Full), (8, CloneMode::Linked)] {
        let name = format!("copy-{number}");
        let copy = CloneVm {
            owner: Some(owner(&name, number)),
            source: vm.id.clone(),
            target_name: name.clone(),
            mode,
            class: None,
            placement: None,
            customize_json: String::new(),
        };
        survives(lab, &format!("clone {mode:?}"), moment, async || {
            Ok(lab.provider.clone_vm(copy.clone()).await?.task)
        })
        .await;
        let found = lab
            .provider
            .find(&copy.owner.clone().expect("owned").identity)
            .await;
        let state = found.expect("answers").expect("there");
        let copied = VmRef {
            id: state.id,
            owner: copy.owner.clone(),
        };
        lab.power(&copied, PowerOp::On).await;
        removes(lab, &copied, moment).await;
    }
}

async fn removes(lab: &Lab, vm: &VmRef, moment: Duration) {
    survives(lab, "delete", moment, async || {
        match lab.provider.delete(vm).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            other => other,
        }
    })
    .await;
    assert_eq!(lab.provider.describe(&vm.id).await, Ok(None));
    let left = lab.host.volumes("default");
    let of_vm = |name: &&String| name.starts_with(vm.id.as_str());
    assert_eq!(left.iter().find(of_vm), None, "{left:?}");
}

async fn images(lab: &Lab, moment: Duration) {
    let url = storage::serve(std::fs::read(crate::lab::guest_image()).expect("readable")).await;
    let request = PrepareImage {
        origin: ImageOrigin::Libvirt {
            path: String::new(),
            url,
            format: "qcow2".to_owned(),
            storage_pool: String::new(),
        },
        checksum: String::new(),
        checksum_type: String::new(),
        storage_hint: String::new(),
        pull: Pull::default(),
        target_name: "image".to_owned(),
        identity: None,
    };
    let before = lab.host.volumes("default");
    survives(lab, "image", moment, async || {
        Ok(lab.provider.image_prepare(request.clone()).await?.task)
    })
    .await;
    let prepared = lab
        .provider
        .image_prepare(request.clone())
        .await
        .expect("there");
    let image = PreparedImage {
        task: None,
        ..prepared
    };
    survives(lab, "delete image", moment, async || {
        match lab.provider.image_delete(&image).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            other => other.map(|()| None),
        }
    })
    .await;
    assert_eq!(lab.host.volumes("default"), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_daemon_that_dies_in_any_operation_loses_nothing_and_leaves_nothing() {
    let lab = Lab::new().await;
    for (number, moment) in (1..).zip(MOMENTS) {
        let mut desired = lab.desired(&format!("vm-{number}"), number);
        let vm = lab.create(&desired).await;
        power(&lab, &vm, moment).await;
        changes(&lab, &vm, &mut desired, moment).await;
        snapshots(&lab, &vm, moment).await;
        clones(&lab, &vm, moment).await;
        removes(&lab, &vm, moment).await;
        images(&lab, moment).await;
    }
    let left = lab.host.volumes("default");
    assert!(left.iter().all(|name| name.starts_with("img-")), "{left:?}");
    assert_eq!(left.len(), 2, "the image of the VMs and its mark: {left:?}");
    assert_eq!(lab.host.virsh(&["list", "--all", "--name"]), "");
}
