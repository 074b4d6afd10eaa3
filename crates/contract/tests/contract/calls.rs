//! Every call, from our client through a socket to our server, with all that the model can say.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use polyvirt_contract::model::*;
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{ErrorKind, Provider, ProviderError, RequestId, TaskId};

use crate::fixtures;
use crate::recorder::{Recorder, Seen};
use crate::support::Running;

async fn start() -> (Arc<Recorder>, Running) {
    let recorder = Arc::new(Recorder::with_vms(vec![fixtures::vm_state()]));
    let server = Running::start(recorder.clone()).await;
    (recorder, server)
}

#[allow(clippy::unnecessary_wraps, reason = "the shape of the answers")]
fn task() -> Option<TaskId> {
    TaskId::non_empty("task-9")
}

#[tokio::test]
async fn lifecycle_of_a_vm() {
    let (recorder, server) = start().await;
    let client = server.client();
    let vm = fixtures::vm_ref();

    client.validate().await.unwrap();
    assert_eq!(
        client.capabilities().await.unwrap(),
        fixtures::capabilities()
    );
    let created = client.create(fixtures::create()).await.unwrap();
    assert_eq!(
        created,
        Created {
            id: "vm-7".into(),
            task: task()
        }
    );
    assert_eq!(
        client.reconfigure(&vm, fixtures::create()).await.unwrap(),
        task()
    );
    assert_eq!(client.hardware_upgrade(&vm, 21).await.unwrap(), task());
    assert_eq!(client.delete(&vm).await.unwrap(), None);
    assert_eq!(
        recorder.seen(),
        [
            Seen::Create(fixtures::create()),
            Seen::Reconfigure(vm.clone(), fixtures::create()),
            Seen::HardwareUpgrade(vm.clone(), 21),
            Seen::Delete(vm),
        ]
    );
}

#[tokio::test]
async fn power_with_and_without_a_request_of_a_user() {
    let (recorder, server) = start().await;
    let client = server.client();
    let vm = fixtures::vm_ref();
    let timeout = Duration::from_secs(90);
    for request in [
        PowerRequest::from(PowerOp::On),
        PowerRequest::from(PowerOp::Off),
        PowerRequest {
            op: PowerOp::Reboot,
            request: Some("restart/3 ü".into()),
        },
        PowerRequest::from(PowerOp::ShutdownGraceful { timeout }),
    ] {
        assert_eq!(client.power(&vm, request.clone()).await.unwrap(), task());
        assert_eq!(recorder.seen(), [Seen::Power(vm.clone(), request)]);
    }
}

#[tokio::test]
async fn without_an_owner_none_arrives() {
    let (recorder, server) = start().await;
    let client = server.client();
    let vm = VmRef {
        id: "vm-7".into(),
        owner: None,
    };
    let create = CreateVm {
        owner: None,
        ..fixtures::create()
    };
    client.create(create.clone()).await.unwrap();
    client.delete(&vm).await.unwrap();
    assert_eq!(recorder.seen(), [Seen::Create(create), Seen::Delete(vm)]);
}

#[tokio::test]
async fn typed_states_with_owner_and_revision() {
    let (recorder, server) = start().await;
    let client = server.client();
    let state = fixtures::vm_state();
    assert_eq!(
        client.describe(&state.id).await.unwrap(),
        Some(state.clone())
    );
    assert_eq!(client.describe(&"vm-0".into()).await.unwrap(), None);
    let identity = fixtures::owner().identity;
    assert_eq!(client.find(&identity).await.unwrap(), Some(state.clone()));
    assert_eq!(client.find(&"nobody".into()).await.unwrap(), None);
    assert!(client.list_vms().await.unwrap() == std::slice::from_ref(&state));
    assert_eq!(
        recorder.seen(),
        [
            Seen::Describe(state.id),
            Seen::Describe("vm-0".into()),
            Seen::Find(identity),
            Seen::Find("nobody".into()),
        ]
    );
}

#[tokio::test]
async fn tasks_in_every_state() {
    let (recorder, server) = start().await;
    let client = server.client();
    let failed = ProviderError::new(ErrorKind::Exhausted, "No space left").at("spec.disks[0]");
    for state in [
        TaskState::Running { percent: None },
        TaskState::Running { percent: Some(0) },
        TaskState::Running { percent: Some(99) },
        TaskState::Succeeded,
        TaskState::Failed(failed),
    ] {
        *recorder.task.lock().unwrap() = Some(state.clone());
        assert_eq!(client.task_status(&"task-9".into()).await.unwrap(), state);
    }
    *recorder.task.lock().unwrap() = None;
    let error = client.task_status(&"task-9".into()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn snapshots_clones_images() {
    let (recorder, server) = start().await;
    let client = server.client();
    let vm = fixtures::vm_ref();
    let request = SnapshotRequest {
        name_hint: "before".into(),
        description: "Before the upgrade".into(),
        contents: SnapshotContents::DisksAndMemory,
        quiesce: Quiesce::No,
    };
    let created = client.snapshot_create(&vm, request.clone()).await.unwrap();
    assert_eq!(
        created,
        SnapshotCreated {
            id: "snap-1".into(),
            task: task()
        }
    );
    assert_eq!(
        client.snapshot_delete(&vm, &"snap-1".into()).await.unwrap(),
        task()
    );
    assert_eq!(
        client.snapshot_revert(&vm, &"snap-1".into()).await.unwrap(),
        task()
    );
    let cloned = client.clone_vm(fixtures::clone_vm()).await.unwrap();
    assert_eq!(
        cloned,
        Cloned {
            id: "vm-8".into(),
            task: task()
        }
    );
    let prepared = client.image_prepare(fixtures::prepare()).await.unwrap();
    assert_eq!((prepared.id.as_str(), prepared.task), ("9000", task()));
    assert_eq!(
        recorder.seen(),
        [
            Seen::SnapshotCreate(vm.clone(), request),
            Seen::SnapshotDelete(vm.clone(), "snap-1".into()),
            Seen::SnapshotRevert(vm, "snap-1".into()),
            Seen::Clone(fixtures::clone_vm()),
            Seen::ImagePrepare(fixtures::prepare()),
        ]
    );
}

#[tokio::test]
async fn disks() {
    let (recorder, server) = start().await;
    let client = server.client();
    let exported = client.export_disk(fixtures::export()).await.unwrap();
    assert_eq!(
        (exported.id.as_str(), exported.estimated_size_bytes),
        ("exp-1", 5)
    );
    let imported = client.import_disk(fixtures::import()).await.unwrap();
    assert_eq!(
        (imported.path.as_str(), imported.task),
        ("/pool/web.qcow2", task())
    );
    let unchecked = ImportDisk {
        expected_checksum: None,
        ..fixtures::import()
    };
    client.import_disk(unchecked.clone()).await.unwrap();
    let snapshot = "snap-1".into();
    let info = client
        .disk_info(&"vm-7".into(), "disk-0", Some(&snapshot))
        .await
        .unwrap();
    assert_eq!(info, fixtures::disk_info());
    assert_eq!(
        recorder.seen(),
        [
            Seen::Export(fixtures::export()),
            Seen::Import(fixtures::import()),
            Seen::Import(unchecked),
            Seen::DiskInfo("vm-7".into(), "disk-0".into(), Some(snapshot)),
        ]
    );
}

#[tokio::test]
async fn features_inventory_and_commands() {
    let (recorder, server) = start().await;
    let client = server.client();
    assert_eq!(client.features().await.unwrap(), fixtures::features());
    assert_eq!(client.inventory().await.unwrap(), fixtures::inventory());
    let vm = fixtures::vm_ref();
    let output = client.guest_exec(&vm, fixtures::exec()).await.unwrap();
    assert_eq!(
        (output.exit_code, output.stdout),
        (3, fixtures::exec().stdin)
    );
    assert_eq!(output.stderr, Bytes::from_static(b"\xfferr"));
    let image = PreparedImage {
        id: "9000".into(),
        path: "/pool/u.qcow2".into(),
        task: None,
    };
    client.image_delete(&image).await.unwrap();
    assert_eq!(
        recorder.seen(),
        [Seen::Exec(vm, fixtures::exec()), Seen::ImageDelete(image)]
    );
}

#[tokio::test]
async fn every_kind_of_error_arrives_as_it_was() {
    let (recorder, server) = start().await;
    let client = server.client();
    for kind in ErrorKind::ALL {
        let error = ProviderError::new(kind, "Größe: 5 > 4 %").at("spec.disks[1].sizeGiB");
        *recorder.fail.lock().unwrap() = Some(error.clone());
        assert_eq!(client.validate().await.unwrap_err(), error);
        assert_eq!(client.create(fixtures::create()).await.unwrap_err(), error);
        assert_eq!(client.delete(&fixtures::vm_ref()).await.unwrap_err(), error);
        assert_eq!(client.list_vms().await.unwrap_err(), error);
        assert_eq!(client.inventory().await.unwrap_err(), error);
        assert_eq!(client.watch().await.err().unwrap(), error);
        let console = client.console(&fixtures::vm_ref(), ConsoleKind::Vnc).await;
        assert_eq!(console.err().unwrap(), error);
        match client.describe(&"vm-7".into()).await {
            Ok(state) => assert_eq!((state, kind), (None, ErrorKind::NotFound)),
            Err(found) => assert_eq!(found, error),
        }
    }
}

#[tokio::test]
async fn a_list_of_five_thousand_vms() {
    let vms: Vec<VmState> = (0..5000).map(numbered).collect();
    let server = Running::start(Arc::new(Recorder::with_vms(vms.clone()))).await;
    let listed = server.client().list_vms().await.unwrap();
    assert!(listed == vms);
}

/// Large enough that all of them exceed the usual limit of a message.
fn numbered(number: u64) -> VmState {
    let mut vm = fixtures::vm_state();
    vm.id = format!("vm-{number}").into();
    vm.revision = number;
    vm.details.insert("notes".into(), "n".repeat(600));
    vm
}

#[tokio::test]
async fn a_request_without_a_vm_is_refused_before_it_reaches_the_provider() {
    let (recorder, server) = start().await;
    let nothing = VmRef {
        id: "".into(),
        owner: None,
    };
    let error = server.client().delete(&nothing).await.unwrap_err();
    assert_eq!(
        (error.kind, error.field.as_deref()),
        (ErrorKind::Invalid, Some("id"))
    );
    assert_eq!(recorder.seen(), []);
}

#[tokio::test]
async fn a_move_and_how_far_it_is() {
    let (recorder, server) = start().await;
    let client = server.client();
    let vm = fixtures::vm_ref();
    let cold = MigrateVm {
        mode: MigrationMode::Cold,
        ..MigrateVm::default()
    };
    for wish in [fixtures::migrate(), cold] {
        let task = client.migrate(&vm, wish.clone()).await.unwrap();
        assert_eq!(task, TaskId::non_empty("task-9"));
        assert_eq!(recorder.seen(), [Seen::Migrate(vm.clone(), wish)]);
    }
    let task = TaskId::from("task-9");
    let progress = client.migration_progress(&task).await.unwrap();
    assert_eq!(progress, fixtures::progress());
    assert_eq!(recorder.seen(), [Seen::Progress(task)]);
    let request = RequestId::from("r-7");
    client.cancel_migration(&vm, &request).await.unwrap();
    assert_eq!(recorder.seen(), [Seen::Cancel(vm, request)]);
}

#[tokio::test]
async fn both_sides_of_a_move() {
    let (recorder, server) = start().await;
    let client = server.client();
    let handover = fixtures::handover();
    let luggage = client.pack_vm(&handover).await.unwrap();
    assert_eq!(luggage, fixtures::luggage());
    let landing = client.receive_vm(&handover, luggage.clone(), "10.0.0.2");
    assert_eq!(landing.await.unwrap(), fixtures::landing());
    let told = client.send_vm(&handover, &fixtures::landing()).await;
    let told: Vec<_> = told.unwrap().map(Result::unwrap).collect().await;
    assert_eq!(told, fixtures::sending());
    assert_eq!(client.moves(None).await.unwrap(), fixtures::moves());
    let vm = handover.vm.clone();
    assert_eq!(client.moves(Some(&vm)).await.unwrap(), fixtures::moves());
    let mut expected = vec![
        Seen::Pack(handover.clone()),
        Seen::Receive(handover.clone(), luggage, "10.0.0.2".into()),
        Seen::Send(handover, fixtures::landing()),
        Seen::Moves(None),
        Seen::Moves(Some(vm)),
    ];
    for decision in [MoveDecision::Go, MoveDecision::Keep, MoveDecision::Drop] {
        let settle = fixtures::settle(decision);
        client.settle_move(&settle).await.unwrap();
        expected.push(Seen::Settle(settle));
    }
    assert_eq!(recorder.seen(), expected);
}

#[tokio::test]
async fn who_no_longer_listens_calls_the_guest_back() {
    let recorder = Arc::new(Recorder {
        endless: true,
        ..Recorder::default()
    });
    let server = Running::start(recorder.clone()).await;
    let client = server.client();
    let mut told = client
        .send_vm(&fixtures::handover(), &fixtures::landing())
        .await
        .unwrap();
    assert!(told.next().await.is_some());
    assert_eq!(recorder.open_now(), 1);
    drop(told);
    while recorder.open_now() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn what_vms_use() {
    let (recorder, server) = start().await;
    let client = server.client();
    assert_eq!(client.usage().await.unwrap(), fixtures::usage());
    assert_eq!(recorder.seen(), [Seen::Usage]);
}
