//! Values with every field set to something that is not its default.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use polyvirt_contract::model::*;
use polyvirt_contract::{Capabilities, Extension, Features, RequestId};

pub fn owner() -> Owner {
    Owner {
        identity: "0b5e9a52-7d1f-4c8e-9a77-2f9f3f6f7f10".into(),
        namespace: "team-a".into(),
        name: "web-1".into(),
    }
}

pub fn vm_ref() -> VmRef {
    VmRef {
        id: "vm-7".into(),
        owner: Some(owner()),
    }
}

pub fn class() -> ClassSpec {
    ClassSpec {
        cpu: 4,
        memory_mib: 8192,
        firmware: Firmware::Uefi,
        disk_defaults: Some(DiskDefaults {
            disk_type: "thin".into(),
            size_gib: 40,
        }),
        guest_tools_policy: "install".into(),
        extra_config: map(&[("svga.autodetect", "TRUE"), ("a", "b")]),
        performance: Some(PerformanceProfile {
            latency_sensitivity: "high".into(),
            cpu_hot_add: true,
            memory_hot_add: true,
            virtualization_based_security: true,
            nested_virtualization: true,
            hyper_threading_policy: "prefer".into(),
        }),
        security: Some(SecurityProfile {
            secure_boot: true,
            tpm: true,
            tpm_version: "2.0".into(),
            vtd: true,
            encryption: true,
            key_provider: "standard".into(),
            require_encryption: true,
        }),
        limits: Some(ResourceLimits {
            cpu_limit: Some(4000),
            cpu_reservation: Some(1000),
            memory_limit_mib: Some(8192),
            memory_reservation_mib: Some(2048),
            cpu_shares: Some(500),
        }),
    }
}

pub fn image() -> ImageSource {
    ImageSource {
        template_name: "ubuntu-24".into(),
        path: "/pool/ubuntu.qcow2".into(),
        url: "https://images.example/ubuntu.qcow2?a=1&b=<2>".into(),
        format: "qcow2".into(),
        checksum: "abc123".into(),
        checksum_type: "sha256".into(),
        pull: Pull::default(),
        reader: String::new(),
    }
}

pub fn nic() -> NicSpec {
    NicSpec {
        name: "lan".into(),
        network: "VM Network".into(),
        bridge: "br0".into(),
        vlan: 42,
        model: "virtio".into(),
        mac: "52:54:00:12:34:56".into(),
        address: Some(StaticAddress {
            ip: "10.0.0.5".into(),
            prefix: 24,
            gateway: "10.0.0.1".into(),
            dns: vec!["1.1.1.1".into(), "9.9.9.9".into()],
        }),
        pci_slot: Some(192),
        mtu: 9000,
    }
}

pub fn disk() -> DiskSpec {
    DiskSpec {
        name: "data".into(),
        size_gib: 100,
        disk_type: DiskType::EagerZeroedThick,
        expand_policy: ExpandPolicy::Online,
        storage_class: "fast".into(),
        scsi: Some(ScsiSpec {
            controller: 1,
            shared_bus: "virtualSharing".into(),
            controller_type: "pvscsi".into(),
        }),
    }
}

pub fn placement() -> Placement {
    Placement {
        datastore: "ds1".into(),
        storage_pod: "pod1".into(),
        cluster: "cl1".into(),
        folder: "/prod".into(),
        host: "esx-3".into(),
        resource_pool: "gold".into(),
        ..Placement::default()
    }
}

pub fn create() -> CreateVm {
    CreateVm {
        owner: Some(owner()),
        name: "web-1".into(),
        class: class(),
        image: image(),
        networks: vec![
            nic(),
            NicSpec {
                name: "dhcp".into(),
                ..NicSpec::default()
            },
        ],
        disks: vec![
            disk(),
            DiskSpec {
                name: "plain".into(),
                size_gib: 1,
                ..DiskSpec::default()
            },
        ],
        user_data: Some(UserData::Ignition(Bytes::from_static(b"{\"ignition\":{}}"))),
        meta_data: Bytes::from_static(b"instance-id: web-1\n"),
        network_data: Bytes::from_static(b"version: 2\n"),
        placement: Some(placement()),
        tags: vec!["prod".into(), "größe".into()],
    }
}

pub fn clone_vm() -> CloneVm {
    CloneVm {
        owner: Some(owner()),
        source: "vm-7".into(),
        target_name: "web-2".into(),
        mode: CloneMode::Linked,
        class: Some(class()),
        placement: Some(placement()),
        customize_json: r#"{"hostname":"web-2"}"#.into(),
    }
}

pub fn prepare() -> PrepareImage {
    PrepareImage {
        target_name: "ubuntu".into(),
        origin: ImageOrigin::Libvirt {
            path: "/pool/u.qcow2".into(),
            url: "https://images.example/u.qcow2".into(),
            format: "qcow2".into(),
            storage_pool: "default".into(),
        },
        checksum: "abc123".into(),
        checksum_type: "sha256".into(),
        storage_hint: "pool-a".into(),
        pull: Pull::default(),
        identity: None,
    }
}

/// One of each origin, filled.
pub fn origins() -> Vec<(&'static str, ImageOrigin)> {
    vec![
        ("libvirt", prepare().origin),
        (
            "vsphere",
            ImageOrigin::Vsphere {
                template_name: "tpl".into(),
                ova_url: "https://images.example/a.ova".into(),
                content_library: Some(("lib".into(), "item".into(), "3".into())),
            },
        ),
        (
            "proxmox",
            ImageOrigin::Proxmox {
                template_id: Some(9000),
                template_name: "tpl".into(),
                storage: "local-lvm".into(),
                node: "pve1".into(),
                format: "raw".into(),
            },
        ),
        (
            "http",
            ImageOrigin::Http {
                url: "https://images.example/a.img".into(),
                headers: Headers(map(&[("Authorization", "Bearer x")])),
            },
        ),
        (
            "registry",
            ImageOrigin::Registry {
                image: "quay.io/a/b:1".into(),
                format: "qcow2".into(),
                headers: Headers::default(),
            },
        ),
        (
            "registry-secret",
            ImageOrigin::Registry {
                image: "quay.io/a/b:1".into(),
                format: "qcow2".into(),
                headers: Headers(map(&[("Authorization", "Basic x")])),
            },
        ),
        (
            "datavolume",
            ImageOrigin::DataVolume {
                namespace: "images".into(),
                name: "ubuntu".into(),
                reader: String::new(),
            },
        ),
        (
            "datavolume-reader",
            ImageOrigin::DataVolume {
                namespace: String::new(),
                name: "ubuntu".into(),
                reader: "team".into(),
            },
        ),
    ]
}

pub fn staging() -> Staging {
    Staging {
        url: "s3://bucket/vmmigrations/ns/m/export.vmdk".into(),
        backend: "s3".into(),
        transfer_mode: "relay".into(),
        options_json: r#"{"backend":"s3"}"#.into(),
        credentials: map(&[("accessKeyID", "AK"), ("secretAccessKey", "SK")]),
    }
}

pub fn export() -> ExportDisk {
    ExportDisk {
        vm: "vm-7".into(),
        disk: "disk-0".into(),
        snapshot: Some("snap-1".into()),
        staging: staging(),
        format: "qcow2".into(),
        compress: true,
    }
}

pub fn import() -> ImportDisk {
    ImportDisk {
        staging: staging(),
        storage_hint: "pool-a".into(),
        format: "vmdk".into(),
        target_name: "web-migrated".into(),
        expected_checksum: Some("abc123".into()),
    }
}

pub fn disk_info() -> DiskInfo {
    DiskInfo {
        id: "disk-0".into(),
        format: "qcow2".into(),
        virtual_size_bytes: 40 << 30,
        actual_size_bytes: 3 << 30,
        path: "/pool/a.qcow2".into(),
        bootable: true,
        snapshots: vec!["snap-1".into()],
        backing_file: "/pool/base.qcow2".into(),
        metadata: map(&[("cluster_size", "65536")]),
    }
}

pub fn vm_state() -> VmState {
    VmState {
        id: "vm-7".into(),
        name: "web-1".into(),
        owner: Some(owner()),
        revision: 12,
        stage: Stage::Deleting,
        power: PowerState::Suspended,
        ips: vec!["10.0.0.5".into(), "fd00::5".into()],
        console_url: "https://hv/console/7".into(),
        cpu: 4,
        memory_mib: 8192,
        root: Some(DiskState {
            id: "disk-0".into(),
            name: "root".into(),
            path: "/pool/root.qcow2".into(),
            size_gib: 20,
            format: "qcow2".into(),
        }),
        disks: Some(vec![DiskState {
            id: "disk-1".into(),
            name: "data".into(),
            path: "/pool/data.qcow2".into(),
            size_gib: 100,
            format: "qcow2".into(),
        }]),
        nics: Some(vec![NicState {
            name: "lan".into(),
            mac: "52:54:00:12:34:56".into(),
            ip: "10.0.0.5".into(),
        }]),
        host: "hv-1".into(),
        restart_required: vec!["class.cpu".into()],
        last_request: Some("restart-3".into()),
        fault: "Disk nearly full".into(),
        details: map(&[("tools_status", "ok"), ("quoted", "a \"b\" c")]),
        snapshots: Some(vec![SnapshotState {
            id: "snap-1".into(),
            name: "before".into(),
            description: "Before the upgrade".into(),
            taken: 1_700_000_000,
            size_bytes: 3 << 30,
            contents: SnapshotContents::DisksAndMemory,
            guest: GuestDisks::Quiet,
            parent: Some("snap-0".into()),
        }]),
    }
}

pub fn inventory() -> Inventory {
    Inventory {
        hosts: vec![
            Host {
                name: "hv-1".into(),
                zone: "a".into(),
                labels: map(&[("rack", "7")]),
                cpus: 64,
                cpus_used: 12,
                memory_mib: 262_144,
                memory_used_mib: 65_536,
                devices: [("nvidia.com/gpu".to_owned(), 2)].into(),
                health: HostHealth::Cordoned,
            },
            Host {
                name: "hv-2".into(),
                health: HostHealth::Down,
                ..Host::default()
            },
        ],
        datastores: vec![Datastore {
            name: "ds1".into(),
            kind: "nfs".into(),
            capacity_bytes: 1 << 40,
            free_bytes: 1 << 39,
            hosts: vec!["hv-1".into()],
        }],
        networks: vec![NetworkEntry {
            name: "br0".into(),
            kind: "bridge".into(),
        }],
    }
}

pub fn capabilities() -> Capabilities {
    let list = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    Capabilities {
        reconfigure_online: true,
        disk_expansion_online: true,
        snapshots: true,
        memory_snapshots: true,
        linked_clones: true,
        image_import: true,
        disk_types: list(&["thin"]),
        network_types: list(&["bridge", "nat"]),
        disk_export: true,
        disk_import: true,
        export_formats: list(&["qcow2"]),
        import_formats: list(&["raw", "qcow2"]),
        export_compression: true,
        export_backends: list(&["pvc", "s3"]),
        import_backends: list(&["nfs"]),
        transfer_modes: list(&["relay"]),
        clustering: true,
        image_artifact_identity: true,
        honest_reconfigure: true,
    }
}

pub fn features() -> Features {
    Features {
        provider_type: "recorder".into(),
        version: "1.2.3".into(),
        extensions: Extension::ALL.into(),
        honoured_fields: Some(["spec.tags".to_owned(), "class.*".to_owned()].into()),
    }
}

pub fn exec() -> ExecRequest {
    ExecRequest {
        command: vec!["/bin/sh".into(), "-c".into(), "cat".into()],
        stdin: Bytes::from_static(b"\x00\xffin"),
        timeout: Duration::from_millis(1500),
    }
}

pub fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

/// Every wish at once.
pub fn migrate() -> MigrateVm {
    MigrateVm {
        target_host: "host-2".into(),
        mode: MigrationMode::Live,
        compression: true,
        encrypted: true,
        bandwidth: Some(125_000_000),
        auto_converge: true,
        post_copy: true,
        request: RequestId::non_empty("r-7"),
    }
}

pub fn usage() -> Vec<VmUsage> {
    let vm = |id: &str, seconds, memory_bytes| VmUsage {
        id: id.into(),
        cpu_time: Duration::from_secs(seconds),
        memory_bytes,
    };
    vec![vm("vm-7", 90, Some(1 << 30)), vm("vm-8", 0, None)]
}

pub fn progress() -> MigrationProgress {
    MigrationProgress {
        phase: MigrationPhase::Copying,
        source_host: "host-1".into(),
        target_host: "host-2".into(),
        total_bytes: Some(8 << 30),
        remaining_bytes: Some(0),
        bytes_per_second: None,
        downtime: Some(Duration::from_millis(120)),
    }
}

pub fn handover() -> Handover {
    Handover {
        id: "move-3".into(),
        vm: "vm-7".into(),
        source_host: "host-1".into(),
        wish: migrate(),
        secret: MoveSecret(Bytes::from_static(b"0123456789abcdef")),
    }
}

pub fn luggage() -> Luggage {
    Luggage(Bytes::from_static(b"{\"version\": 1}"))
}

pub fn landing() -> Landing {
    Landing {
        address: "10.0.0.2".into(),
        memory_port: 49152,
        disk_port: 49153,
    }
}

pub fn sending() -> Vec<Sending> {
    let part = |released| Sending {
        progress: progress(),
        released,
    };
    vec![part(false), part(true)]
}

pub fn moves() -> Vec<MoveState> {
    let state = |role, sight| MoveState {
        vm: "vm-7".into(),
        id: "move-3".into(),
        role,
        peer: "host-2".into(),
        sight,
    };
    vec![
        state(MoveRole::Leaves, MoveSight::Sends),
        state(MoveRole::Comes, MoveSight::Arrived),
    ]
}

pub fn settle(decision: MoveDecision) -> SettleMove {
    SettleMove {
        vm: "vm-7".into(),
        id: "move-3".into(),
        decision,
    }
}
