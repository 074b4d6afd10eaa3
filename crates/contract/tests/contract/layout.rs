//! Numbers and types of every field, written down by hand from the contract and compared with what was compiled.

use std::collections::BTreeMap;

use polyvirt_contract::wire::FILE_DESCRIPTORS;
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, MessageOptions,
};

/// `Rpc: Request -> Response`
const RPCS: &str = "
Validate: ValidateRequest -> ValidateResponse
Create: CreateRequest -> CreateResponse
Delete: DeleteRequest -> TaskResponse
Power: PowerRequest -> TaskResponse
Reconfigure: ReconfigureRequest -> TaskResponse
HardwareUpgrade: HardwareUpgradeRequest -> TaskResponse
Describe: DescribeRequest -> DescribeResponse
TaskStatus: TaskStatusRequest -> TaskStatusResponse
SnapshotCreate: SnapshotCreateRequest -> SnapshotCreateResponse
SnapshotDelete: SnapshotDeleteRequest -> TaskResponse
SnapshotRevert: SnapshotRevertRequest -> TaskResponse
Clone: CloneRequest -> CloneResponse
ImagePrepare: ImagePrepareRequest -> ImagePrepareResponse
GetCapabilities: GetCapabilitiesRequest -> GetCapabilitiesResponse
ExportDisk: ExportDiskRequest -> ExportDiskResponse
ImportDisk: ImportDiskRequest -> ImportDiskResponse
GetDiskInfo: GetDiskInfoRequest -> GetDiskInfoResponse
ListVMs: ListVMsRequest -> ListVMsResponse
ListHosts: ListHostsRequest -> ListHostsResponse
GetHostInfo: GetHostInfoRequest -> HostInfo
";

/// `Message: name=number:type …`, all fields that peers in the field know.
const SHARED: &str = "
TaskRef: id=1:string
Empty:
ObjectIdentity: uid=1:string namespace=2:string name=3:string
ValidateRequest:
ValidateResponse: ok=1:bool message=2:string
CreateRequest: name=1:string user_data=2:bytes class_json=3:string image_json=4:string networks_json=5:string disks_json=6:string placement_json=7:string tags=8:string[] meta_data=9:bytes target_host_id=10:string owner=11:ObjectIdentity
CreateResponse: id=1:string task=2:TaskRef
DeleteRequest: id=1:string target_host_id=2:string owner=3:ObjectIdentity
PowerRequest: id=1:string op=2:PowerOp graceful_timeout_seconds=3:int32 target_host_id=4:string owner=5:ObjectIdentity
ReconfigureRequest: id=1:string desired_json=2:string target_host_id=3:string owner=4:ObjectIdentity
HardwareUpgradeRequest: id=1:string target_version=2:int32 target_host_id=3:string
TaskResponse: task=1:TaskRef restart_required=2:bool
DescribeRequest: id=1:string target_host_id=2:string owner=3:ObjectIdentity
DescribeResponse: exists=1:bool power_state=2:string ips=3:string[] console_url=4:string provider_raw_json=5:string max_memory_mib=6:int64 vcpus=7:int32
TaskStatusRequest: task=1:TaskRef
TaskStatusResponse: done=1:bool error=2:string
SnapshotCreateRequest: vm_id=1:string name_hint=2:string include_memory=3:bool description=4:string target_host_id=5:string
SnapshotCreateResponse: snapshot_id=1:string task=2:TaskRef
SnapshotDeleteRequest: vm_id=1:string snapshot_id=2:string target_host_id=3:string
SnapshotRevertRequest: vm_id=1:string snapshot_id=2:string target_host_id=3:string
CloneRequest: source_vm_id=1:string target_name=2:string linked=3:bool class_json=4:string placement_json=5:string customize_json=6:string source_host_id=7:string target_vm=8:ObjectIdentity
CloneResponse: target_vm_id=1:string task=2:TaskRef
ImagePrepareRequest: image_json=1:string target_name=2:string storage_hint=3:string image=4:ObjectIdentity source_digest=5:string provider=6:ObjectIdentity
ImagePrepareResponse: task=1:TaskRef prepared_image_id=2:string prepared_image_path=3:string artifact=4:PreparedArtifact
PreparedArtifact: name=1:string image=2:ObjectIdentity source_digest=3:string reused=4:bool
ExportDiskRequest: vm_id=1:string disk_id=2:string snapshot_id=3:string destination_url=4:string format=5:string compress=6:bool credentials=7:map<string,string> backend_type=8:string transfer_mode=9:string storage_options_json=10:string target_host_id=11:string
ExportDiskResponse: export_id=1:string task=2:TaskRef estimated_size_bytes=3:int64 checksum=4:string
ImportDiskRequest: source_url=1:string storage_hint=2:string format=3:string target_name=4:string verify_checksum=5:bool expected_checksum=6:string credentials=7:map<string,string> backend_type=8:string transfer_mode=9:string storage_options_json=10:string target_vm=11:ObjectIdentity
ImportDiskResponse: disk_id=1:string path=2:string task=3:TaskRef actual_size_bytes=4:int64 checksum=5:string
GetDiskInfoRequest: vm_id=1:string disk_id=2:string snapshot_id=3:string target_host_id=4:string
GetDiskInfoResponse: disk_id=1:string format=2:string virtual_size_bytes=3:int64 actual_size_bytes=4:int64 path=5:string is_bootable=6:bool snapshots=7:string[] backing_file=8:string metadata=9:map<string,string>
ListVMsRequest:
ListVMsResponse: vms=1:VMInfo[]
VMInfo: id=1:string name=2:string power_state=3:string ips=4:string[] cpu=5:int32 memory_mib=6:int64 disks=7:DiskInfo[] networks=8:NetworkInfo[] provider_raw=9:map<string,string>
DiskInfo: id=1:string path=2:string size_gib=3:int32 format=4:string
NetworkInfo: name=1:string mac=2:string ip_address=3:string
ListHostsRequest:
ListHostsResponse: hosts=1:HostInfo[]
GetHostInfoRequest: host_id=1:string
HostInfo: id=1:string address=2:string allocatable_cpu=3:int32 allocatable_mem_mib=4:int64 allocatable_storage=5:int64 health=6:HostHealth labels=7:map<string,string> cpu_model=8:string cpu_features=9:string[] machine_types=10:string[] emulator_version=11:string
GetCapabilitiesRequest:
GetCapabilitiesResponse: supports_reconfigure_online=1:bool supports_disk_expansion_online=2:bool supports_snapshots=3:bool supports_memory_snapshots=4:bool supports_linked_clones=5:bool supports_image_import=6:bool supported_disk_types=7:string[] supported_network_types=8:string[] supports_disk_export=9:bool supports_disk_import=10:bool supported_export_formats=11:string[] supported_import_formats=12:string[] supports_export_compression=13:bool supported_export_backends=14:string[] supported_import_backends=15:string[] supported_transfer_modes=16:string[] supports_clustering=17:bool supports_image_artifact_identity=18:bool supports_honest_reconfigure=19:bool
";

/// What we added to messages of `provider.v1`.
const ADDED: &str = "
ValidateResponse: error_kind=1000:string error_field=1001:string
CreateRequest: user_data_kind=1000:UserDataKind network_data=1001:bytes
ReconfigureRequest: user_data=1000:bytes meta_data=1001:bytes network_data=1002:bytes
TaskStatusResponse: error_kind=1000:string error_field=1001:string percent=1002:uint32
SnapshotCreateRequest: quiesce=1000:bool
";

const FIRST_ADDED: i32 = 1000;

#[test]
fn every_rpc_has_its_messages() {
    let file = file("provider.v1");
    let service = &file.service[0];
    assert_eq!(service.name(), "Provider");
    let found: BTreeMap<&str, String> = service
        .method
        .iter()
        .map(|m| {
            assert!(
                !m.client_streaming() && !m.server_streaming(),
                "{} streams",
                m.name()
            );
            let types = format!("{} -> {}", short(m.input_type()), short(m.output_type()));
            (m.name(), types)
        })
        .collect();
    let expected: BTreeMap<&str, String> = rows(RPCS)
        .into_iter()
        .map(|(name, rest)| (name, rest.to_owned()))
        .collect();
    assert_eq!(found.len(), 20);
    assert_eq!(found, expected);
}

#[test]
fn every_shared_field_has_its_number_and_type() {
    assert_eq!(compiled(|number| number < FIRST_ADDED), written(SHARED));
}

#[test]
fn every_addition_is_written_down() {
    let mut added = compiled(|number| number >= FIRST_ADDED);
    added.retain(|_, fields| !fields.is_empty());
    assert_eq!(added, written(ADDED));
}

#[test]
fn power_operations_have_their_numbers() {
    let file = file("provider.v1");
    let power = file
        .enum_type
        .iter()
        .find(|e| e.name() == "PowerOp")
        .unwrap();
    let values: Vec<_> = power.value.iter().map(|v| (v.name(), v.number())).collect();
    assert_eq!(
        values,
        [
            ("POWER_OP_UNSPECIFIED", 0),
            ("POWER_OP_ON", 1),
            ("POWER_OP_OFF", 2),
            ("POWER_OP_REBOOT", 3),
            ("POWER_OP_SHUTDOWN_GRACEFUL", 4),
            ("POWER_OP_PAUSE", FIRST_ADDED),
        ]
    );
}

#[test]
fn extensions_stream_where_they_must() {
    let file = file("polyvirt.provider.v1");
    let service = &file.service[0];
    assert_eq!(service.name(), "Extensions");
    let streams: Vec<_> = service
        .method
        .iter()
        .map(|m| (m.name(), m.client_streaming(), m.server_streaming()))
        .collect();
    assert_eq!(
        streams,
        [
            ("GetFeatures", false, false),
            ("FindVm", false, false),
            ("ListVms", false, true),
            ("Watch", false, true),
            ("Inventory", false, false),
            ("DeleteImage", false, false),
            ("GuestExec", false, false),
            ("Migrate", false, false),
            ("GetMigrationProgress", false, false),
            ("CancelMigration", false, false),
            ("GetUsage", false, false),
            ("PackVm", false, false),
            ("ReceiveVm", false, false),
            ("SendVm", false, true),
            ("ListMoves", false, false),
            ("SettleMove", false, false),
            ("Console", true, true),
        ]
    );
}

fn file(package: &str) -> FileDescriptorProto {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTORS).unwrap();
    set.file
        .into_iter()
        .find(|f| f.package() == package)
        .unwrap()
}

fn rows(table: &str) -> Vec<(&str, &str)> {
    let lines = table.lines().filter(|l| !l.is_empty());
    lines
        .map(|l| l.split_once(':').unwrap())
        .map(|(n, rest)| (n, rest.trim()))
        .collect()
}

type Layout = BTreeMap<String, Vec<String>>;

fn written(table: &str) -> Layout {
    let fields = |rest: &str| rest.split_whitespace().map(str::to_owned).collect();
    rows(table)
        .into_iter()
        .map(|(name, rest)| (name.to_owned(), fields(rest)))
        .collect()
}

fn compiled(wanted: impl Fn(i32) -> bool) -> Layout {
    let fields = |message: &DescriptorProto| {
        let fields = message.field.iter().filter(|f| wanted(f.number()));
        fields
            .map(|f| format!("{}={}:{}", f.name(), f.number(), type_of(message, f)))
            .collect()
    };
    let file = file("provider.v1");
    file.message_type
        .iter()
        .map(|m| (m.name().to_owned(), fields(m)))
        .collect()
}

fn type_of(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let repeated = field.label() == Label::Repeated;
    let name = match field.r#type() {
        Type::String => "string".to_owned(),
        Type::Bytes => "bytes".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Int32 => "int32".to_owned(),
        Type::Int64 => "int64".to_owned(),
        Type::Uint32 => "uint32".to_owned(),
        Type::Enum => short(field.type_name()).to_owned(),
        Type::Message => match map_entry(message, short(field.type_name())) {
            Some(entry) => return entry,
            None => short(field.type_name()).to_owned(),
        },
        other => panic!("{}: {other:?}", field.name()),
    };
    if repeated { format!("{name}[]") } else { name }
}

fn map_entry(message: &DescriptorProto, name: &str) -> Option<String> {
    let entry = message.nested_type.iter().find(|n| n.name() == name)?;
    assert!(
        entry
            .options
            .as_ref()
            .is_some_and(MessageOptions::map_entry)
    );
    let kinds: Vec<_> = entry.field.iter().map(|f| type_of(entry, f)).collect();
    Some(format!("map<{}>", kinds.join(",")))
}

fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap()
}
