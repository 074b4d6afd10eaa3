//! From a record to QEMU's arguments. Pure: no file is touched, and nothing secret is in the result.
//!
//! QEMU runs in the VM's own folder, so all names are relative and short. Disks and cards sit in PCI Express ports that the
//! record names; the same builders make the arguments of a start and of a hot plug, so that a machine which went back to
//! a snapshot is the machine that the snapshot was taken of.

mod devices;
#[cfg(test)]
pub(crate) mod tests;

use std::ffi::OsString;
use std::path::PathBuf;

use polyvirt_provider_kit::check::MOST_CPUS;
use serde_json::{Value, json};

use crate::accel::Accel;
use crate::state::{FirmwareKind, Record, SeedKind};

pub(crate) use devices::{
    PORTS, cpu_device, dimm_backend, dimm_device, disk_device, disk_id, disk_node, file_node,
    nic_device, nic_id, nic_netdev, root_node,
};

/// Sockets in the working folder.
pub(crate) const QMP_SOCKET: &str = "qmp.sock";
pub(crate) const SERIAL_SOCKET: &str = "serial.sock";
pub(crate) const AGENT_SOCKET: &str = "agent.sock";
pub(crate) const VNC_SOCKET: &str = "vnc.sock";
pub(crate) const SOCKETS: [&str; 4] = [QMP_SOCKET, SERIAL_SOCKET, AGENT_SOCKET, VNC_SOCKET];
/// The port of the guest agent, as QEMU's events name it.
pub(crate) const AGENT_PORT: &str = "agent0";
/// Nobody may gain rights, start programs or change priorities from inside QEMU.
const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";
/// Room for growth while the machine runs.
const MEMORY_SLOTS: u64 = 16;
const HEADROOM: u64 = 4;
const FEWEST_CPUS: u32 = 8;

/// What the arguments depend on beside the record.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) accel: Accel,
    /// The read-only part of the UEFI firmware; `None` for BIOS.
    pub(crate) firmware: Option<PathBuf>,
    /// The names of the network devices of the cards on bridges, by port.
    pub(crate) taps: std::collections::BTreeMap<u8, String>,
}

/// The arguments to start the VM, stopped before its first instruction.
pub(crate) fn arguments(record: &Record, context: &Context) -> Vec<OsString> {
    let mut arguments = Arguments::default();
    base(&mut arguments, record, context);
    size(&mut arguments, record);
    firmware(&mut arguments, record, context);
    ports(&mut arguments);
    channels(&mut arguments);
    disks(&mut arguments, record);
    seed(&mut arguments, record);
    for nic in &record.hardware.nics {
        let tap = context.taps.get(&nic.port).map(String::as_str);
        arguments.json("-netdev", &nic_netdev(nic, tap));
        arguments.json("-device", &nic_device(nic));
    }
    lent(&mut arguments, record);
    plugged(&mut arguments, record);
    arguments.0
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn flag(&mut self, flag: &str) {
        self.0.push(flag.into());
    }

    fn pair(&mut self, flag: &str, value: impl Into<OsString>) {
        self.0.push(flag.into());
        self.0.push(value.into());
    }

    fn json(&mut self, flag: &str, value: &Value) {
        self.pair(flag, value.to_string());
    }
}

fn base(arguments: &mut Arguments, record: &Record, context: &Context) {
    // A comma ends a value in QEMU's own notation; two of them are one.
    arguments.pair("-name", format!("guest={}", record.name.replace(',', ",,")));
    arguments.pair("-uuid", record.uuid.to_string());
    for flag in ["-nodefaults", "-no-user-config", "-S"] {
        arguments.flag(flag);
    }
    arguments.pair("-sandbox", SANDBOX);
    arguments.pair("-pidfile", "qemu.pid");
    arguments.pair("-accel", context.accel.word());
    arguments.pair("-cpu", context.accel.cpu());
    arguments.pair("-rtc", "base=utc");
    arguments.pair("-boot", "strict=on");
    arguments.pair("-display", "none");
}

/// How many CPUs and how much memory the machine can grow to while it runs.
pub(crate) fn limits(cpu: u32, memory_mib: u64) -> (u32, u64) {
    let cpus = (cpu * 4).max(FEWEST_CPUS).min(MOST_CPUS.max(cpu));
    (cpus, memory_mib * HEADROOM)
}

fn size(arguments: &mut Arguments, record: &Record) {
    let hardware = &record.hardware;
    let added = u32::try_from(record.plugged.cpus.len()).unwrap_or(0);
    let cpus = hardware.cpu.saturating_sub(added).max(1);
    let memory = hardware.memory_mib - record.plugged.dimms.iter().sum::<u64>();
    let (most_cpus, most_memory) = limits(cpus, memory);
    if hardware.hot_add.cpu {
        let smp = format!("cpus={cpus},maxcpus={most_cpus},sockets={most_cpus},cores=1,threads=1");
        arguments.pair("-smp", smp);
    } else {
        arguments.pair(
            "-smp",
            format!("cpus={cpus},sockets=1,cores={cpus},threads=1"),
        );
    }
    if hardware.hot_add.memory {
        let m = format!("size={memory}M,slots={MEMORY_SLOTS},maxmem={most_memory}M");
        arguments.pair("-m", m);
    } else {
        arguments.pair("-m", format!("size={memory}M"));
    }
}

fn firmware(arguments: &mut Arguments, record: &Record, context: &Context) {
    let Some(code) = &context.firmware else {
        arguments.pair("-machine", record.machine.clone());
        return;
    };
    let secure = record.firmware == FirmwareKind::SecureUefi;
    let smm = if secure { ",smm=on" } else { "" };
    let machine = format!("{},pflash0=code,pflash1=vars{smm}", record.machine);
    arguments.pair("-machine", machine);
    if secure {
        arguments.pair("-global", "driver=cfi.pflash01,property=secure,value=on");
        arguments.pair("-global", "ICH9-LPC.disable_s3=1");
    }
    let code = code.to_string_lossy();
    let code = json!({
        "node-name": "code", "driver": "raw", "read-only": true,
        "file": {"driver": "file", "filename": code, "read-only": true},
    });
    arguments.json("-blockdev", &code);
    arguments.json("-blockdev", &file_node("vars", Record::VARS));
}

fn ports(arguments: &mut Arguments) {
    for port in 0..=devices::SEED_PORT {
        arguments.json("-device", &devices::port_device(port));
    }
}

/// Monitor, console, screen and agent.
fn channels(arguments: &mut Arguments) {
    let socket = |id: &str, path: &str| format!("socket,id={id},path={path},server=on,wait=off");
    arguments.pair("-chardev", socket("monitor0", QMP_SOCKET));
    arguments.pair("-mon", "chardev=monitor0,mode=control");
    arguments.pair("-chardev", socket("serial0", SERIAL_SOCKET));
    arguments.pair("-serial", "chardev:serial0");
    arguments.pair("-chardev", socket(AGENT_PORT, AGENT_SOCKET));
    arguments.json(
        "-device",
        &json!({"driver": "virtio-serial-pci", "id": "channels"}),
    );
    arguments.json(
        "-device",
        &json!({
            "driver": "virtserialport", "id": AGENT_PORT, "bus": "channels.0",
            "chardev": AGENT_PORT, "name": "org.qemu.guest_agent.0",
        }),
    );
    arguments.json(
        "-object",
        &json!({"qom-type": "rng-random", "id": "rng", "filename": "/dev/urandom"}),
    );
    arguments.json(
        "-device",
        &json!({"driver": "virtio-rng-pci", "rng": "rng"}),
    );
    arguments.json("-device", &json!({"driver": "VGA", "id": "screen"}));
    arguments.pair("-vnc", format!("unix:{VNC_SOCKET}"));
}

fn disks(arguments: &mut Arguments, record: &Record) {
    arguments.json("-blockdev", &root_node());
    arguments.json("-device", &devices::root_device());
    for disk in &record.hardware.disks {
        arguments.json("-blockdev", &disk_node(disk));
        arguments.json("-device", &disk_device(disk));
    }
}

fn seed(arguments: &mut Arguments, record: &Record) {
    match record.seed {
        None => {}
        Some(SeedKind::NoCloud) => {
            let node = json!({
                "node-name": "seed", "driver": "raw", "read-only": true,
                "file": {"driver": "file", "filename": Record::SEED, "read-only": true},
            });
            arguments.json("-blockdev", &node);
            let bus = devices::port_id(devices::SEED_PORT);
            let device =
                json!({"driver": "virtio-blk-pci", "id": "seed", "drive": "seed", "bus": bus});
            arguments.json("-device", &device);
        }
        Some(SeedKind::Ignition) => {
            let file = format!("name=opt/com.coreos/config,file={}", Record::IGNITION);
            arguments.pair("-fw_cfg", file);
        }
    }
}

/// Devices of the host, each in a port of its own.
fn lent(arguments: &mut Arguments, record: &Record) {
    for (place, device) in record.devices.iter().enumerate() {
        arguments.json("-device", &devices::lent_port(place));
        arguments.json("-device", &devices::lent_device(place, device));
    }
}

/// What had been added to the machine when its snapshot was taken.
fn plugged(arguments: &mut Arguments, record: &Record) {
    for (place, cpu) in record.plugged.cpus.iter().enumerate() {
        arguments.json("-device", &cpu_device(place, cpu));
    }
    for (place, mib) in record.plugged.dimms.iter().enumerate() {
        arguments.json("-object", &dimm_backend(place, *mib));
        arguments.json("-device", &dimm_device(place));
    }
}
