//! Our client with a provider that knows only `provider.v1`.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use polyvirt_contract::grpc::{Client, Server, Target, connect};
use polyvirt_contract::model::{ConsoleKind, PowerOp, PowerState, SnapshotRequest, VmState};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::wire::v1;
use polyvirt_contract::wire::v1::provider_server::{Provider as Wire, ProviderServer};
use polyvirt_contract::{ErrorKind, Features, Provider};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use crate::fixtures;
use crate::recorder::Recorder;
use crate::support::loopback;

type Answer<T> = Result<Response<T>, Status>;

/// Written from the contract, without our server.
#[derive(Default)]
struct Foreign {
    created: Mutex<Vec<(MetadataMap, v1::CreateRequest)>>,
}

fn refused<T>() -> Answer<T> {
    Err(Status::unknown("plain error"))
}

#[tonic::async_trait]
impl Wire for Foreign {
    async fn validate(&self, _: Request<v1::ValidateRequest>) -> Answer<v1::ValidateResponse> {
        let message = "cannot log in".to_owned();
        Ok(Response::new(v1::ValidateResponse {
            ok: false,
            message,
            ..Default::default()
        }))
    }
    async fn create(&self, request: Request<v1::CreateRequest>) -> Answer<v1::CreateResponse> {
        let (metadata, _, message) = request.into_parts();
        self.created.lock().unwrap().push((metadata, message));
        let task = Some(v1::TaskRef::default());
        Ok(Response::new(v1::CreateResponse {
            id: "101".into(),
            task,
        }))
    }
    async fn delete(&self, _: Request<v1::DeleteRequest>) -> Answer<v1::TaskResponse> {
        Err(Status::not_found("no such domain"))
    }
    async fn power(&self, _: Request<v1::PowerRequest>) -> Answer<v1::TaskResponse> {
        Ok(Response::new(v1::TaskResponse {
            task: Some(v1::TaskRef { id: "t1".into() }),
            ..Default::default()
        }))
    }
    async fn reconfigure(&self, _: Request<v1::ReconfigureRequest>) -> Answer<v1::TaskResponse> {
        refused()
    }
    async fn hardware_upgrade(
        &self,
        _: Request<v1::HardwareUpgradeRequest>,
    ) -> Answer<v1::TaskResponse> {
        Err(Status::unimplemented("not on this hypervisor"))
    }
    async fn describe(
        &self,
        request: Request<v1::DescribeRequest>,
    ) -> Answer<v1::DescribeResponse> {
        match request.into_inner().id.as_str() {
            "101" => Ok(Response::new(v1::DescribeResponse {
                exists: true,
                power_state: "On".into(),
                ips: vec!["10.0.0.9".into()],
                console_url: "vnc://x".into(),
                provider_raw_json: r#"{"name":"web","cpu_count":4,"tools":null}"#.into(),
                ..Default::default()
            })),
            "broken" => Ok(Response::new(v1::DescribeResponse {
                exists: true,
                power_state: "levitating".into(),
                provider_raw_json: r#"{"name":"a"b"}"#.into(),
                ..Default::default()
            })),
            "gone" => Ok(Response::new(v1::DescribeResponse::default())),
            _ => Err(Status::not_found("no such domain")),
        }
    }
    async fn task_status(
        &self,
        _: Request<v1::TaskStatusRequest>,
    ) -> Answer<v1::TaskStatusResponse> {
        let error = "import failed".to_owned();
        Ok(Response::new(v1::TaskStatusResponse {
            error,
            ..Default::default()
        }))
    }
    async fn snapshot_create(
        &self,
        _: Request<v1::SnapshotCreateRequest>,
    ) -> Answer<v1::SnapshotCreateResponse> {
        Err(Status::failed_precondition("power it off first"))
    }
    async fn snapshot_delete(
        &self,
        _: Request<v1::SnapshotDeleteRequest>,
    ) -> Answer<v1::TaskResponse> {
        Err(Status::resource_exhausted("slow down"))
    }
    async fn snapshot_revert(
        &self,
        _: Request<v1::SnapshotRevertRequest>,
    ) -> Answer<v1::TaskResponse> {
        refused()
    }
    async fn clone(&self, _: Request<v1::CloneRequest>) -> Answer<v1::CloneResponse> {
        Err(Status::already_exists("name taken"))
    }
    async fn image_prepare(
        &self,
        _: Request<v1::ImagePrepareRequest>,
    ) -> Answer<v1::ImagePrepareResponse> {
        refused()
    }
    async fn get_capabilities(
        &self,
        _: Request<v1::GetCapabilitiesRequest>,
    ) -> Answer<v1::GetCapabilitiesResponse> {
        let capabilities = fixtures::capabilities().into();
        Ok(Response::new(capabilities))
    }
    async fn export_disk(
        &self,
        _: Request<v1::ExportDiskRequest>,
    ) -> Answer<v1::ExportDiskResponse> {
        refused()
    }
    async fn import_disk(
        &self,
        _: Request<v1::ImportDiskRequest>,
    ) -> Answer<v1::ImportDiskResponse> {
        refused()
    }
    async fn get_disk_info(
        &self,
        _: Request<v1::GetDiskInfoRequest>,
    ) -> Answer<v1::GetDiskInfoResponse> {
        refused()
    }
    async fn list_v_ms(&self, _: Request<v1::ListVMsRequest>) -> Answer<v1::ListVMsResponse> {
        let vm = v1::VmInfo {
            id: "101".into(),
            name: "web".into(),
            power_state: "Off".into(),
            cpu: 2,
            memory_mib: 2048,
            ..Default::default()
        };
        Ok(Response::new(v1::ListVMsResponse { vms: vec![vm] }))
    }
    async fn list_hosts(&self, _: Request<v1::ListHostsRequest>) -> Answer<v1::ListHostsResponse> {
        Err(Status::unimplemented("one host only"))
    }
    async fn get_host_info(&self, _: Request<v1::GetHostInfoRequest>) -> Answer<v1::HostInfo> {
        Err(Status::unimplemented("one host only"))
    }
}

async fn start() -> (Arc<Foreign>, Client) {
    let foreign = Arc::new(Foreign::default());
    let client = serve_only(ProviderServer::from_arc(foreign.clone())).await;
    (foreign, client)
}

async fn serve_only<T: Wire>(service: ProviderServer<T>) -> Client {
    let listener = loopback().await;
    let target = Target::new(listener.local_addr().unwrap().to_string());
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let router = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(router.serve_with_incoming(incoming));
    connect(target).unwrap()
}

#[tokio::test]
async fn it_offers_no_extensions() {
    let (_, client) = start().await;
    assert_eq!(client.features().await.unwrap(), Features::default());
    assert_eq!(
        client.capabilities().await.unwrap(),
        fixtures::capabilities()
    );
    let vm = fixtures::vm_ref();
    let errors = [
        client.find(&"i".into()).await.unwrap_err(),
        client.watch().await.err().unwrap(),
        client.inventory().await.unwrap_err(),
        client.guest_exec(&vm, fixtures::exec()).await.unwrap_err(),
        client.console(&vm, ConsoleKind::Serial).await.unwrap_err(),
        client.migrate(&vm, fixtures::migrate()).await.unwrap_err(),
        client.migration_progress(&"t".into()).await.unwrap_err(),
        client.usage().await.unwrap_err(),
        client.cancel_migration(&vm, &"r".into()).await.unwrap_err(),
        client.moves(None).await.unwrap_err(),
        client.pack_vm(&fixtures::handover()).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(
            error.message.starts_with("This provider does not support "),
            "{error}"
        );
    }
}

#[tokio::test]
async fn states_come_from_describe_and_the_plain_list() {
    let (_, client) = start().await;
    let vm = client.describe(&"101".into()).await.unwrap().unwrap();
    assert_eq!(
        (vm.power, vm.name.as_str(), vm.revision),
        (PowerState::On, "web", 0)
    );
    assert_eq!((vm.owner, vm.disks, vm.nics), (None, None, None));
    assert_eq!(
        vm.details,
        fixtures::map(&[("name", "web"), ("cpu_count", "4"), ("tools", "")])
    );
    assert_eq!(client.describe(&"gone".into()).await.unwrap(), None);
    assert_eq!(client.describe(&"never-was".into()).await.unwrap(), None);

    let list = client.list_vms().await.unwrap();
    assert_eq!(
        (list[0].cpu, list[0].memory_mib, list[0].power),
        (2, 2048, PowerState::Off)
    );
    assert_eq!(list[0].disks, None);
}

#[tokio::test]
async fn broken_raw_json_does_not_lose_the_vm() {
    let (_, client) = start().await;
    let vm = client.describe(&"broken".into()).await.unwrap().unwrap();
    assert_eq!(vm.power, PowerState::Unknown);
    assert!(vm.details.contains_key("parseError"));
}

#[tokio::test]
async fn answers_are_read_by_the_rules_of_the_contract() {
    let (_, client) = start().await;
    let vm = fixtures::vm_ref();
    let refused = client.validate().await.unwrap_err();
    assert_eq!(
        (refused.kind, refused.message.as_str()),
        (ErrorKind::Unavailable, "cannot log in")
    );
    let created = client.create(fixtures::create()).await.unwrap();
    assert_eq!(
        (created.id.as_str(), created.task),
        ("101", None),
        "an empty task is none"
    );
    let task = client.power(&vm, PowerOp::On.into()).await.unwrap();
    assert_eq!(task, Some("t1".into()));
    let failed = client.task_status(&"t1".into()).await.unwrap();
    assert!(matches!(failed, TaskState::Failed(e) if e.message == "import failed"));
}

#[tokio::test]
async fn codes_become_kinds() {
    let (_, client) = start().await;
    let vm = fixtures::vm_ref();
    let kinds = [
        client.delete(&vm).await.unwrap_err().kind,
        client
            .reconfigure(&vm, fixtures::create())
            .await
            .unwrap_err()
            .kind,
        client.hardware_upgrade(&vm, 21).await.unwrap_err().kind,
        client
            .snapshot_create(&vm, SnapshotRequest::default())
            .await
            .unwrap_err()
            .kind,
        client
            .snapshot_delete(&vm, &"s".into())
            .await
            .unwrap_err()
            .kind,
        client
            .clone_vm(fixtures::clone_vm())
            .await
            .unwrap_err()
            .kind,
    ];
    assert_eq!(
        kinds,
        [
            ErrorKind::NotFound,
            ErrorKind::Internal,
            ErrorKind::Unsupported,
            ErrorKind::Precondition,
            ErrorKind::Exhausted,
            ErrorKind::NameConflict,
        ]
    );
}

#[tokio::test]
async fn it_gets_the_documents_it_expects_and_an_identity_it_may_ignore() {
    let (foreign, client) = start().await;
    client.create(fixtures::create()).await.unwrap();
    let (metadata, message) = foreign.created.lock().unwrap().remove(0);
    assert_eq!(
        metadata.get("polyvirt-identity").unwrap(),
        "0b5e9a52-7d1f-4c8e-9a77-2f9f3f6f7f10"
    );
    assert_eq!(metadata.get("polyvirt-namespace").unwrap(), "team-a");
    assert_eq!(metadata.get("polyvirt-name").unwrap(), "web-1");
    assert_eq!(metadata.get("grpc-timeout").unwrap(), "300000m");
    assert!(
        message
            .class_json
            .starts_with(r#"{"CPU":4,"MemoryMiB":8192,"Firmware":"UEFI","#)
    );
}

#[tokio::test]
async fn five_thousand_vms_in_one_message() {
    let vms: Vec<VmState> = (0..5000)
        .map(|n| {
            let mut vm = fixtures::vm_state();
            vm.id = format!("vm-{n}").into();
            vm.details.insert("notes".into(), "n".repeat(900));
            vm
        })
        .collect();
    let (basic_only, _) = Server::new(Arc::new(Recorder::with_vms(vms))).into_services();
    let client = serve_only(basic_only).await;
    let listed = client.list_vms().await.unwrap();
    assert_eq!(listed.len(), 5000);
    assert_eq!(
        (listed[4999].id.as_str(), listed[4999].revision),
        ("vm-4999", 0)
    );
    let watched = client
        .watch()
        .await
        .map(|mut s| async move { s.next().await });
    assert_eq!(watched.err().unwrap().kind, ErrorKind::Unsupported);
}
