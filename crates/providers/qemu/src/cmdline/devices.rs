//! Devices and back ends, in the form that both the command line and the monitor take.

use polyvirt_provider_kit::devices::DeviceAddress;
use serde_json::{Value, json};

use crate::state::{CpuPlace, Disk, Nic, Record};

/// PCI Express ports for disks and cards; those that nothing sits in are for what is added later.
pub(crate) const PORTS: u8 = 16;
/// The port of the first-boot disk, behind all others so that guests count it last.
pub(super) const SEED_PORT: u8 = PORTS;
/// Ports that share a slot of the root complex.
const PER_SLOT: u8 = 8;
const FIRST_SLOT: u8 = 0x10;

pub(super) fn port_device(port: u8) -> Value {
    let slot = FIRST_SLOT + port / PER_SLOT;
    json!({
        "driver": "pcie-root-port", "id": port_id(port), "bus": "pcie.0",
        "chassis": port + 1, "port": port, "addr": format!("{slot:#x}.{:#x}", port % PER_SLOT),
        "multifunction": true,
    })
}

/// Behind all other ports, at a place that QEMU finds.
pub(super) fn lent_port(place: usize) -> Value {
    let chassis = usize::from(SEED_PORT) + 2 + place;
    json!({
        "driver": "pcie-root-port", "id": format!("lent-port{place}"), "bus": "pcie.0", "chassis": chassis,
    })
}

pub(super) fn lent_device(place: usize, device: &DeviceAddress) -> Value {
    let (id, bus) = (format!("lent{place}"), format!("lent-port{place}"));
    match device {
        DeviceAddress::Pci { .. } => {
            json!({"driver": "vfio-pci", "id": id, "bus": bus, "host": device.to_string()})
        }
        DeviceAddress::Mediated(uuid) => json!({
            "driver": "vfio-pci", "id": id, "bus": bus, "sysfsdev": format!("/sys/bus/mdev/devices/{uuid}"),
        }),
    }
}

pub(super) fn port_id(port: u8) -> String {
    format!("port{port}")
}

/// A qcow2 file of the working folder, as a block node.
pub(crate) fn file_node(node: &str, file: &str) -> Value {
    json!({
        "node-name": node, "driver": "qcow2", "discard": "unmap",
        "file": {"driver": "file", "filename": file, "discard": "unmap"},
    })
}

pub(crate) fn root_node() -> Value {
    file_node("root", Record::ROOT)
}

pub(super) fn root_device() -> Value {
    json!({
        "driver": "virtio-blk-pci", "id": "root", "drive": "root", "bus": port_id(0),
        "bootindex": 0, "serial": "root", "werror": "enospc", "rerror": "report",
    })
}

/// The node and the device of a disk have the name of its file without the ending.
pub(crate) fn disk_id(disk: &Disk) -> &str {
    disk.file.strip_suffix(".qcow2").unwrap_or(&disk.file)
}

pub(crate) fn disk_node(disk: &Disk) -> Value {
    file_node(disk_id(disk), &disk.file)
}

pub(crate) fn disk_device(disk: &Disk) -> Value {
    // virtio has room for twenty characters.
    let serial: String = disk.name.chars().filter(char::is_ascii).take(20).collect();
    json!({
        "driver": "virtio-blk-pci", "id": disk_id(disk), "drive": disk_id(disk),
        "bus": port_id(disk.port), "serial": serial, "werror": "enospc", "rerror": "report",
    })
}

pub(crate) fn nic_id(nic: &Nic) -> String {
    format!("nic{}", nic.port)
}

pub(crate) fn nic_netdev(nic: &Nic, tap: Option<&str>) -> Value {
    let id = nic_id(nic);
    match tap {
        Some(tap) => {
            json!({"type": "tap", "id": id, "ifname": tap, "script": "no", "downscript": "no"})
        }
        None => json!({
            "type": "user", "id": id, "ipv6": false,
            "net": format!("10.0.{}.0/24", u16::from(nic.subnet) + 2),
        }),
    }
}

pub(crate) fn nic_device(nic: &Nic) -> Value {
    let id = nic_id(nic);
    let mut device = json!({
        "driver": nic.device, "id": id, "netdev": id, "mac": nic.mac,
        "bus": port_id(nic.port), "romfile": "",
    });
    if nic.mtu != 0 && nic.device == "virtio-net-pci" {
        device["host_mtu"] = json!(nic.mtu);
    }
    device
}

pub(crate) fn cpu_device(place: usize, cpu: &CpuPlace) -> Value {
    let mut device = json!({"driver": cpu.driver, "id": format!("cpu{place}")});
    for (key, value) in &cpu.props {
        device[key] = json!(value);
    }
    device
}

pub(crate) fn dimm_backend(place: usize, mib: u64) -> Value {
    json!({"qom-type": "memory-backend-ram", "id": format!("mem{place}"), "size": mib << 20})
}

pub(crate) fn dimm_device(place: usize) -> Value {
    json!({"driver": "pc-dimm", "id": format!("dimm{place}"), "memdev": format!("mem{place}")})
}
