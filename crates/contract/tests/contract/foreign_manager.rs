//! Our server under a manager that knows only `provider.v1`: no metadata, no additions, plain generated client.

use std::sync::Arc;

use polyvirt_contract::model::{self, CreateVm, ImageOrigin, PowerState, UserData, VmRef, VmState};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::wire::v1::provider_client::ProviderClient;
use polyvirt_contract::wire::v1::*;
use polyvirt_contract::{ErrorKind, ProviderError};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::fixtures;
use crate::recorder::{Recorder, Seen};
use crate::support::Running;

async fn start() -> (Arc<Recorder>, Running, ProviderClient<Channel>) {
    let recorder = Arc::new(Recorder::with_vms(vec![fixtures::vm_state()]));
    let server = Running::start(recorder.clone()).await;
    let url = format!("http://{}", server.address);
    let manager = ProviderClient::connect(url).await.unwrap();
    (recorder, server, manager)
}

#[tokio::test]
async fn create_without_identity() {
    let (recorder, _server, mut manager) = start().await;
    let request = CreateRequest {
        name: "web".into(),
        user_data: "#cloud-config".into(),
        class_json: r#"{"CPU":2,"MemoryMiB":2048,"Firmware":"EFI","DiskDefaults":null}"#.into(),
        image_json: r#"{"TemplateName":"","Path":"/p","URL":"","Format":"qcow2"}"#.into(),
        networks_json: "null".into(),
        disks_json: r#"[{"SizeGiB":5,"Type":"thin","Name":"d"}]"#.into(),
        tags: vec!["a".into()],
        ..Default::default()
    };
    let response = manager.create(request).await.unwrap().into_inner();
    assert_eq!(
        (response.id.as_str(), response.task.unwrap().id.as_str()),
        ("vm-7", "task-9")
    );
    let [Seen::Create(vm)] = &recorder.seen()[..] else {
        panic!("not a create");
    };
    assert_eq!(vm.owner, None);
    assert_eq!((vm.class.cpu, vm.image.path.as_str()), (2, "/p"));
    assert_eq!(
        vm.user_data,
        Some(UserData::CloudInit("#cloud-config".into()))
    );
    assert_eq!(
        (&vm.placement, vm.networks.len(), vm.disks.len()),
        (&None, 0, 1)
    );
}

#[tokio::test]
async fn describe_says_on_or_off_and_flat_facts() {
    let (recorder, _server, mut manager) = start().await;
    for (power, word) in [
        (PowerState::On, "On"),
        (PowerState::Off, "Off"),
        (PowerState::Suspended, "On"),
    ] {
        recorder.vms.lock().unwrap()[0].power = power;
        let request = DescribeRequest {
            id: "vm-7".into(),
            ..Default::default()
        };
        let vm = manager.describe(request).await.unwrap().into_inner();
        assert_eq!((vm.exists, vm.power_state.as_str()), (true, word));
        assert_eq!(vm.ips, ["10.0.0.5", "fd00::5"]);
        let raw: serde_json::Value = serde_json::from_str(&vm.provider_raw_json).unwrap();
        assert!(
            raw.as_object()
                .unwrap()
                .values()
                .all(serde_json::Value::is_string)
        );
        assert_eq!(raw["quoted"], "a \"b\" c");
        assert_eq!(raw["host"], "hv-1");
    }
    let gone = manager
        .describe(DescribeRequest {
            id: "vm-0".into(),
            ..Default::default()
        })
        .await
        .unwrap();
    assert_eq!(gone.into_inner(), DescribeResponse::default());
}

#[tokio::test]
async fn a_provider_that_answers_not_found_says_exists_false() {
    let (recorder, _server, mut manager) = start().await;
    *recorder.fail.lock().unwrap() = Some(ProviderError::not_found("VM 7"));
    let answer = manager
        .describe(DescribeRequest {
            id: "vm-7".into(),
            ..Default::default()
        })
        .await
        .unwrap();
    assert!(!answer.into_inner().exists);
}

#[tokio::test]
async fn codes_are_those_of_the_contract() {
    let (recorder, _server, mut manager) = start().await;
    for (kind, code) in [
        (ErrorKind::NotFound, Code::NotFound),
        (ErrorKind::Invalid, Code::InvalidArgument),
        (ErrorKind::NameConflict, Code::AlreadyExists),
        (ErrorKind::Unavailable, Code::Unavailable),
        (ErrorKind::Timeout, Code::DeadlineExceeded),
        (ErrorKind::Unsupported, Code::Unimplemented),
        (ErrorKind::Exhausted, Code::ResourceExhausted),
        (ErrorKind::PermissionDenied, Code::PermissionDenied),
        (ErrorKind::Unauthenticated, Code::Unauthenticated),
        (ErrorKind::Cancelled, Code::Cancelled),
        (ErrorKind::Internal, Code::Internal),
    ] {
        *recorder.fail.lock().unwrap() = Some(ProviderError::new(kind, "No"));
        let status = manager
            .delete(DeleteRequest {
                id: "vm-7".into(),
                ..Default::default()
            })
            .await
            .unwrap_err();
        assert_eq!((status.code(), status.message()), (code, "No"));
    }
}

#[tokio::test]
async fn a_document_that_cannot_be_read_is_an_invalid_argument() {
    let (recorder, _server, mut manager) = start().await;
    let request = CreateRequest {
        class_json: r#"{"CPU":"x"}"#.into(),
        ..Default::default()
    };
    let status = manager.create(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(
        status.message().contains("class.cpu"),
        "{}",
        status.message()
    );
    let power = PowerRequest {
        id: "vm-7".into(),
        op: 77,
        ..Default::default()
    };
    assert_eq!(
        manager.power(power).await.unwrap_err().code(),
        Code::InvalidArgument
    );
    assert_eq!(recorder.seen(), []);
}

#[tokio::test]
async fn validate_and_tasks() {
    let (recorder, _server, mut manager) = start().await;
    assert!(
        manager
            .validate(ValidateRequest {})
            .await
            .unwrap()
            .into_inner()
            .ok
    );
    let failed = ProviderError::new(ErrorKind::Exhausted, "No space left");
    *recorder.task.lock().unwrap() = Some(TaskState::Failed(failed.clone()));
    let request = TaskStatusRequest {
        task: Some(TaskRef { id: "t".into() }),
    };
    let status = manager.task_status(request).await.unwrap().into_inner();
    assert_eq!(
        (status.done, status.error.as_str()),
        (true, "No space left")
    );
    assert_eq!(
        manager
            .task_status(TaskStatusRequest { task: None })
            .await
            .unwrap_err()
            .code(),
        Code::InvalidArgument
    );
    *recorder.fail.lock().unwrap() = Some(failed);
    let refused = manager
        .validate(ValidateRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (refused.ok, refused.message.as_str()),
        (false, "No space left")
    );
}

#[tokio::test]
async fn clone_and_image_in_the_casing_of_their_objects() {
    let (recorder, _server, mut manager) = start().await;
    let clone = CloneRequest {
        source_vm_id: "vm-7".into(),
        target_name: "copy".into(),
        class_json: r#"{"cpu":2,"memory":"4Gi","firmware":"BIOS"}"#.into(),
        placement_json: r#"{"name":"spread"}"#.into(),
        ..Default::default()
    };
    ProviderClient::clone(&mut manager, clone).await.unwrap();
    let image = ImagePrepareRequest {
        image_json: r#"{"source":{"proxmox":{"templateID":9000}}}"#.into(),
        target_name: "u".into(),
        ..Default::default()
    };
    manager.image_prepare(image).await.unwrap();
    let [Seen::Clone(clone), Seen::ImagePrepare(image)] = &recorder.seen()[..] else {
        panic!("not a clone and an image");
    };
    assert_eq!(
        (clone.class.as_ref().unwrap().memory_mib, &clone.placement),
        (4096, &None)
    );
    assert!(matches!(
        image.origin,
        ImageOrigin::Proxmox {
            template_id: Some(9000),
            ..
        }
    ));
}

#[tokio::test]
async fn all_other_calls() {
    let (recorder, _server, mut manager) = start().await;
    let id = || "vm-7".to_owned();
    let power = PowerRequest {
        id: id(),
        op: 4,
        graceful_timeout_seconds: 60,
        ..Default::default()
    };
    manager.power(power).await.unwrap();
    let desired_json = r#"{"Name":"a","Class":{"CPU":1}}"#.to_owned();
    let reconfigure = ReconfigureRequest {
        id: id(),
        desired_json,
        ..Default::default()
    };
    manager.reconfigure(reconfigure).await.unwrap();
    manager
        .hardware_upgrade(HardwareUpgradeRequest {
            id: id(),
            target_version: 21,
            ..Default::default()
        })
        .await
        .unwrap();
    let snapshot = SnapshotCreateRequest {
        vm_id: id(),
        ..Default::default()
    };
    manager.snapshot_create(snapshot).await.unwrap();
    let snapshot_id = "s".to_owned();
    let delete = SnapshotDeleteRequest {
        vm_id: id(),
        snapshot_id: snapshot_id.clone(),
        ..Default::default()
    };
    manager.snapshot_delete(delete).await.unwrap();
    manager
        .snapshot_revert(SnapshotRevertRequest {
            vm_id: id(),
            snapshot_id,
            ..Default::default()
        })
        .await
        .unwrap();
    manager
        .export_disk(ExportDiskRequest {
            vm_id: id(),
            ..Default::default()
        })
        .await
        .unwrap();
    let import = ImportDiskRequest {
        verify_checksum: true,
        ..Default::default()
    };
    manager.import_disk(import).await.unwrap();
    manager
        .get_disk_info(GetDiskInfoRequest {
            vm_id: id(),
            ..Default::default()
        })
        .await
        .unwrap();

    let seen = recorder.seen();
    // One look after the change, for what waits for a restart.
    assert_eq!(seen.len(), 10);
    let vm = VmRef {
        id: "vm-7".into(),
        owner: None,
    };
    let timeout = std::time::Duration::from_mins(1);
    let graceful = model::PowerOp::ShutdownGraceful { timeout }.into();
    assert_eq!(seen[0], Seen::Power(vm.clone(), graceful));
    let class = model::ClassSpec {
        cpu: 1,
        ..Default::default()
    };
    let desired = CreateVm {
        name: "a".into(),
        class,
        ..CreateVm::default()
    };
    assert_eq!(seen[1], Seen::Reconfigure(vm, desired));
    assert!(matches!(&seen[8], Seen::Import(i) if i.expected_checksum.is_none()));
}

#[tokio::test]
async fn lists_and_capabilities() {
    let (_recorder, _server, mut manager) = start().await;
    let list = manager
        .list_v_ms(ListVMsRequest {})
        .await
        .unwrap()
        .into_inner();
    let vm = &list.vms[0];
    assert_eq!(
        (vm.power_state.as_str(), vm.cpu, vm.memory_mib),
        ("On", 4, 8192)
    );
    // Whoever adopts it takes the first for the one that it boots from.
    let paths: Vec<_> = vm.disks.iter().map(|disk| disk.path.as_str()).collect();
    assert_eq!(paths, ["/pool/root.qcow2", "/pool/data.qcow2"]);
    assert_eq!(
        (vm.disks[1].size_gib, vm.networks[0].ip_address.as_str()),
        (100, "10.0.0.5")
    );
    let back = VmState::from(vm.clone());
    assert_eq!(back.nics, fixtures::vm_state().nics);
    let capabilities = manager
        .get_capabilities(GetCapabilitiesRequest {})
        .await
        .unwrap();
    assert_eq!(capabilities.into_inner(), fixtures::capabilities().into());
}

#[tokio::test]
async fn health_is_served_under_the_names_in_use() {
    let (_recorder, server, _manager) = start().await;
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let mut health = HealthClient::new(endpoint.connect_lazy());
    for name in ["", "provider", "provider.v1.Provider"] {
        let request = HealthCheckRequest {
            service: name.into(),
        };
        let response = health.check(request).await.unwrap().into_inner();
        assert_eq!(response.status, 1, "{name:?} serves");
    }
    let unknown = HealthCheckRequest {
        service: "other".into(),
    };
    assert_eq!(
        health.check(unknown).await.unwrap_err().code(),
        Code::NotFound
    );
}
