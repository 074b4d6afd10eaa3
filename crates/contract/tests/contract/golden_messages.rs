//! One filled message of each kind.

use bytes::Bytes;
use polyvirt_contract::model::{MoveDecision, PowerState};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::wire::{ext, reconfigure_request, v1};
use polyvirt_contract::{ErrorKind, ProviderError};

use crate::fixtures;
use crate::golden::check;

#[allow(clippy::unnecessary_wraps, reason = "the shape of the field")]
fn task() -> Option<v1::TaskRef> {
    Some(v1::TaskRef {
        id: "task-9".into(),
    })
}

#[allow(clippy::unnecessary_wraps, reason = "the shape of the field")]
fn owner() -> Option<v1::ObjectIdentity> {
    Some(v1::ObjectIdentity {
        uid: "5e1f4d1e-0000-4000-8000-000000000001".into(),
        namespace: "team-a".into(),
        name: "web".into(),
    })
}

pub fn provider_v1() {
    lifecycle();
    facts();
    snapshots_and_clones();
    disks();
}

fn lifecycle() {
    check("provider.v1.ValidateRequest", &v1::ValidateRequest {});
    check(
        "provider.v1.ValidateResponse",
        &v1::ValidateResponse {
            ok: true,
            message: "Fine".into(),
            error_kind: "CredentialsRefused".into(),
            error_field: "spec.credentialSecretRef".into(),
        },
    );
    let create = v1::CreateRequest::try_from(&fixtures::create()).unwrap();
    check("provider.v1.CreateRequest", &create);
    check(
        "provider.v1.CreateResponse",
        &v1::CreateResponse {
            id: "vm-7".into(),
            task: task(),
        },
    );
    check(
        "provider.v1.DeleteRequest",
        &v1::DeleteRequest {
            id: "vm-7".into(),
            target_host_id: "hv-1".into(),
            owner: owner(),
        },
    );
    check(
        "provider.v1.TaskResponse",
        &v1::TaskResponse {
            task: task(),
            restart_required: true,
        },
    );
    check(
        "provider.v1.PowerRequest",
        &v1::PowerRequest {
            id: "vm-7".into(),
            op: v1::PowerOp::ShutdownGraceful.into(),
            graceful_timeout_seconds: 60,
            target_host_id: "hv-1".into(),
            owner: owner(),
        },
    );
    let mut desired = fixtures::create();
    desired.meta_data = Bytes::from_static(b"\xff\x00");
    let reconfigure = reconfigure_request(&"vm-7".into(), &desired).unwrap();
    check("provider.v1.ReconfigureRequest", &reconfigure);
    check(
        "provider.v1.HardwareUpgradeRequest",
        &v1::HardwareUpgradeRequest {
            id: "vm-7".into(),
            target_version: 21,
            target_host_id: "hv-1".into(),
        },
    );
}

fn facts() {
    check(
        "provider.v1.DescribeRequest",
        &v1::DescribeRequest {
            id: "vm-7".into(),
            target_host_id: "hv-1".into(),
            owner: owner(),
        },
    );
    let describe = v1::DescribeResponse::from(Some(fixtures::vm_state()));
    check("provider.v1.DescribeResponse", &describe);
    check(
        "provider.v1.TaskStatusRequest",
        &v1::TaskStatusRequest { task: task() },
    );
    let failed = ProviderError::new(ErrorKind::Exhausted, "No space left").at("spec.disks[0]");
    let status = v1::TaskStatusResponse::from(TaskState::Failed(failed));
    check("provider.v1.TaskStatusResponse", &status);
    check(
        "provider.v1.GetCapabilitiesRequest",
        &v1::GetCapabilitiesRequest {},
    );
    let capabilities = v1::GetCapabilitiesResponse::from(fixtures::capabilities());
    check("provider.v1.GetCapabilitiesResponse", &capabilities);
    check("provider.v1.ListVMsRequest", &v1::ListVMsRequest {});
    let mut on = fixtures::vm_state();
    on.power = PowerState::On;
    let list = v1::ListVMsResponse {
        vms: vec![on.into(), v1::VmInfo::default()],
    };
    check("provider.v1.ListVMsResponse", &list);
    check("provider.v1.ListHostsRequest", &v1::ListHostsRequest {});
    let host = v1::HostInfo {
        id: "hv-1".into(),
        address: "10.0.0.1".into(),
        allocatable_cpu: 16,
        allocatable_mem_mib: 65_536,
        allocatable_storage: 1 << 40,
        health: v1::HostHealth::Ready.into(),
        labels: [("zone".to_owned(), "a".to_owned())].into(),
        cpu_model: "EPYC".into(),
        cpu_features: vec!["avx2".into()],
        machine_types: vec!["q35".into()],
        emulator_version: "10.1.0".into(),
    };
    check("provider.v1.HostInfo", &host);
    let hosts = v1::ListHostsResponse { hosts: vec![host] };
    check("provider.v1.ListHostsResponse", &hosts);
    check(
        "provider.v1.GetHostInfoRequest",
        &v1::GetHostInfoRequest {
            host_id: "hv-1".into(),
        },
    );
}

fn snapshots_and_clones() {
    check(
        "provider.v1.SnapshotCreateRequest",
        &v1::SnapshotCreateRequest {
            vm_id: "vm-7".into(),
            name_hint: "before".into(),
            include_memory: true,
            description: "Before the upgrade".into(),
            quiesce: None,
            target_host_id: "hv-1".into(),
        },
    );
    check(
        "provider.v1.SnapshotCreateResponse",
        &v1::SnapshotCreateResponse {
            snapshot_id: "snap-1".into(),
            task: task(),
        },
    );
    check(
        "provider.v1.SnapshotDeleteRequest",
        &v1::SnapshotDeleteRequest {
            vm_id: "vm-7".into(),
            snapshot_id: "snap-1".into(),
            target_host_id: "hv-1".into(),
        },
    );
    check(
        "provider.v1.SnapshotRevertRequest",
        &v1::SnapshotRevertRequest {
            vm_id: "vm-7".into(),
            snapshot_id: "snap-1".into(),
            target_host_id: "hv-1".into(),
        },
    );
    let clone = v1::CloneRequest::try_from(&fixtures::clone_vm()).unwrap();
    check("provider.v1.CloneRequest", &clone);
    check(
        "provider.v1.CloneResponse",
        &v1::CloneResponse {
            target_vm_id: "vm-8".into(),
            task: task(),
        },
    );
}

fn disks() {
    let prepare = v1::ImagePrepareRequest::try_from(&fixtures::prepare()).unwrap();
    check("provider.v1.ImagePrepareRequest", &prepare);
    check(
        "provider.v1.ImagePrepareResponse",
        &v1::ImagePrepareResponse {
            task: task(),
            prepared_image_id: "9000".into(),
            prepared_image_path: "/pool/u.qcow2".into(),
            artifact: Some(v1::PreparedArtifact {
                name: "img-1".into(),
                image: owner(),
                source_digest: "sha256:0f".into(),
                reused: true,
            }),
        },
    );
    check(
        "provider.v1.ExportDiskRequest",
        &v1::ExportDiskRequest::from(fixtures::export()),
    );
    check(
        "provider.v1.ExportDiskResponse",
        &v1::ExportDiskResponse {
            export_id: "exp-1".into(),
            task: task(),
            estimated_size_bytes: 5 << 30,
            checksum: "abc".into(),
        },
    );
    check(
        "provider.v1.ImportDiskRequest",
        &v1::ImportDiskRequest::from(fixtures::import()),
    );
    check(
        "provider.v1.ImportDiskResponse",
        &v1::ImportDiskResponse {
            disk_id: "disk-9".into(),
            path: "/pool/web.qcow2".into(),
            task: task(),
            actual_size_bytes: 3 << 30,
            checksum: "abc".into(),
        },
    );
    check(
        "provider.v1.GetDiskInfoRequest",
        &v1::GetDiskInfoRequest {
            vm_id: "vm-7".into(),
            disk_id: "disk-0".into(),
            snapshot_id: "snap-1".into(),
            target_host_id: "hv-1".into(),
        },
    );
    let info = v1::GetDiskInfoResponse::from(fixtures::disk_info());
    check("provider.v1.GetDiskInfoResponse", &info);
}

pub fn extensions() {
    check(
        "polyvirt.provider.v1.GetFeaturesRequest",
        &ext::GetFeaturesRequest {},
    );
    let features = ext::GetFeaturesResponse::from(fixtures::features());
    check("polyvirt.provider.v1.GetFeaturesResponse", &features);
    let by = ext::find_vm_request::By::Identity("identity-1".into());
    check(
        "polyvirt.provider.v1.FindVmRequest",
        &ext::FindVmRequest { by: Some(by) },
    );
    let vm = ext::VmState::from(fixtures::vm_state());
    check(
        "polyvirt.provider.v1.FindVmResponse",
        &ext::FindVmResponse {
            vm: Some(vm.clone()),
        },
    );
    check(
        "polyvirt.provider.v1.ListVmsRequest",
        &ext::ListVmsRequest {},
    );
    check(
        "polyvirt.provider.v1.ListVmsResponse",
        &ext::ListVmsResponse { vms: vec![vm] },
    );
    check(
        "polyvirt.provider.v1.InventoryRequest",
        &ext::InventoryRequest {},
    );
    check(
        "polyvirt.provider.v1.DeleteImageRequest",
        &ext::DeleteImageRequest {
            id: "9000".into(),
            path: "/pool/u.qcow2".into(),
        },
    );
    check(
        "polyvirt.provider.v1.DeleteImageResponse",
        &ext::DeleteImageResponse {},
    );
    let inventory = ext::InventoryResponse::from(fixtures::inventory());
    check("polyvirt.provider.v1.InventoryResponse", &inventory);
    events();
    guest();
    migration();
    handover();
}

fn handover() {
    let handover = Some(ext::Handover::from(&fixtures::handover()));
    let packed = ext::PackVmRequest {
        handover: handover.clone(),
    };
    check("polyvirt.provider.v1.PackVmRequest", &packed);
    let luggage = ext::PackVmResponse::from(fixtures::luggage());
    check("polyvirt.provider.v1.PackVmResponse", &luggage);
    let received = ext::ReceiveVmRequest {
        handover: handover.clone(),
        description: fixtures::luggage().0,
        address: "10.0.0.2".into(),
    };
    check("polyvirt.provider.v1.ReceiveVmRequest", &received);
    let landing = ext::ReceiveVmResponse::from(fixtures::landing());
    check("polyvirt.provider.v1.ReceiveVmResponse", &landing);
    let sent = ext::SendVmRequest {
        handover,
        landing: Some(landing),
    };
    check("polyvirt.provider.v1.SendVmRequest", &sent);
    for (name, part) in ["", ".released"].into_iter().zip(fixtures::sending()) {
        let part = ext::SendVmResponse::from(part);
        check(&format!("polyvirt.provider.v1.SendVmResponse{name}"), &part);
    }
    let asked = ext::ListMovesRequest {
        vm_id: "vm-7".into(),
    };
    check("polyvirt.provider.v1.ListMovesRequest", &asked);
    let moves = ext::ListMovesResponse::from(fixtures::moves());
    check("polyvirt.provider.v1.ListMovesResponse", &moves);
    let settle = ext::SettleMoveRequest::from(&fixtures::settle(MoveDecision::Keep));
    check("polyvirt.provider.v1.SettleMoveRequest", &settle);
    let settled = ext::SettleMoveResponse {};
    check("polyvirt.provider.v1.SettleMoveResponse", &settled);
}

fn migration() {
    check(
        "polyvirt.provider.v1.MigrateRequest",
        &ext::MigrateRequest {
            vm_id: "vm-7".into(),
            target_host: "host-2".into(),
            live: true,
            compression: true,
            encrypted: true,
            bandwidth_bytes_per_second: 125_000_000,
            auto_converge: true,
            post_copy: true,
            request_id: "r-7".into(),
        },
    );
    check(
        "polyvirt.provider.v1.MigrateResponse",
        &ext::MigrateResponse {
            task_id: "task-9".into(),
        },
    );
    check(
        "polyvirt.provider.v1.GetMigrationProgressRequest",
        &ext::GetMigrationProgressRequest {
            task_id: "task-9".into(),
        },
    );
    check(
        "polyvirt.provider.v1.CancelMigrationRequest",
        &ext::CancelMigrationRequest {
            vm_id: "vm-7".into(),
            request_id: "r-7".into(),
        },
    );
    check(
        "polyvirt.provider.v1.CancelMigrationResponse",
        &ext::CancelMigrationResponse {},
    );
    check(
        "polyvirt.provider.v1.GetUsageRequest",
        &ext::GetUsageRequest {},
    );
    check(
        "polyvirt.provider.v1.GetUsageResponse",
        &ext::GetUsageResponse::from(fixtures::usage()),
    );
    let progress = ext::GetMigrationProgressResponse::from(fixtures::progress());
    check(
        "polyvirt.provider.v1.GetMigrationProgressResponse",
        &progress,
    );
}

fn events() {
    check("polyvirt.provider.v1.WatchRequest", &ext::WatchRequest {});
    let failed = ProviderError::invalid("spec.disks[1].sizeGiB", "A disk only grows");
    let task = |state| VmEvent::Task {
        id: "task-9".into(),
        state,
    };
    for (name, event) in [
        ("", VmEvent::State(fixtures::vm_state())),
        (
            ".gone",
            VmEvent::Gone {
                id: "vm-7".into(),
                identity: Some("i-1".into()),
                revision: 13,
            },
        ),
        (".synced", VmEvent::Synced),
        (".running", task(TaskState::Running { percent: Some(0) })),
        (".succeeded", task(TaskState::Succeeded)),
        (".failed", task(TaskState::Failed(failed))),
        (".heartbeat", VmEvent::Heartbeat),
    ] {
        let message = ext::VmEvent::from(event.clone());
        check(&format!("polyvirt.provider.v1.VmEvent{name}"), &message);
        assert_eq!(Option::<VmEvent>::from(message), Some(event));
    }
}

fn guest() {
    check(
        "polyvirt.provider.v1.GuestExecRequest",
        &ext::GuestExecRequest {
            vm_id: "vm-7".into(),
            command: vec!["id".into(), "-u".into()],
            stdin: Bytes::from_static(b"\x00"),
            timeout_ms: 1500,
        },
    );
    check(
        "polyvirt.provider.v1.GuestExecResponse",
        &ext::GuestExecResponse {
            exit_code: -1,
            stdout: Bytes::from_static(b"out"),
            stderr: Bytes::from_static(b"err"),
        },
    );
    let open = ext::ConsoleOpen {
        vm_id: "vm-7".into(),
        kind: ext::ConsoleKind::Vnc.into(),
    };
    let open = ext::console_request::Message::Open(open);
    check(
        "polyvirt.provider.v1.ConsoleRequest",
        &ext::ConsoleRequest {
            message: Some(open),
        },
    );
    let data = ext::console_request::Message::Data(Bytes::from_static(b"ls\n"));
    check(
        "polyvirt.provider.v1.ConsoleRequest.data",
        &ext::ConsoleRequest {
            message: Some(data),
        },
    );
    let output = ext::ConsoleResponse {
        data: Bytes::from_static(b"login: "),
    };
    check("polyvirt.provider.v1.ConsoleResponse", &output);
    check(
        "polyvirt.provider.v1.ErrorDetail",
        &ext::ErrorDetail {
            kind: ext::ErrorKind::IdentityConflict.into(),
            field: Some("metadata.name".into()),
        },
    );
}
