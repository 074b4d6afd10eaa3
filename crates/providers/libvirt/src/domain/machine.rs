//! What a domain is, read from its XML.

use polyvirt_provider_kit::devices::DeviceAddress;
use polyvirt_provider_kit::uuid::Uuid;

use super::disk::DiskPart;
use super::hostdev;
use super::marks::Marks;
use super::nic::NicPart;
use crate::transport::Beside;
use crate::xml::{Element, XmlError, parse};

/// The channel on which the guest's agent listens.
pub(crate) const AGENT: &str = "org.qemu.guest_agent.0";

/// A domain as one of its two descriptions has it: as it runs, or as it will start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) uuid: Uuid,
    pub(crate) name: String,
    pub(crate) cpu: u32,
    pub(crate) most_cpus: u32,
    pub(crate) memory_mib: u64,
    pub(crate) most_memory_mib: u64,
    /// Memory that was plugged in, in MiB.
    pub(crate) dimms: Vec<u64>,
    pub(crate) disks: Vec<DiskPart>,
    pub(crate) nics: Vec<NicPart>,
    /// Devices of the host.
    pub(crate) hostdevs: Vec<DeviceAddress>,
    pub(crate) marks: Option<Marks>,
    /// Whether the guest's agent listens; `None` if the domain has no channel for one.
    pub(crate) agent: Option<bool>,
    /// Where the screen is.
    pub(crate) screen: Option<Beside>,
    /// Kind, machine type and firmware, for people.
    pub(crate) facts: Facts,
}

/// What is told for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) accelerator: String,
    pub(crate) machine: String,
    pub(crate) firmware: String,
}

impl Machine {
    /// Reads a domain's XML.
    pub(crate) fn read(text: &str) -> Result<Self, XmlError> {
        Ok(Self::of(&parse(text)?.root))
    }

    pub(crate) fn of(domain: &Element) -> Self {
        let most_cpus = domain.text_at("vcpu").parse().unwrap_or(1);
        let cpu = domain.attr_at("vcpu", "current").parse();
        let memory_mib = domain.at("memory").map_or(0, mib);
        let devices = domain.at("devices");
        let marks = Marks::of_domain(domain);
        Self {
            uuid: Uuid::parse(&domain.text_at("uuid")).unwrap_or(Uuid::from_bytes([0; 16])),
            name: domain.text_at("name"),
            cpu: cpu.unwrap_or(most_cpus),
            most_cpus,
            memory_mib,
            most_memory_mib: domain.at("maxMemory").map_or(memory_mib, mib),
            dimms: devices.into_iter().flat_map(dimms).collect(),
            disks: devices
                .into_iter()
                .flat_map(|d| d.all("disk"))
                .map(DiskPart::of)
                .collect(),
            nics: devices
                .into_iter()
                .flat_map(|d| d.all("interface"))
                .map(NicPart::of)
                .collect(),
            hostdevs: devices
                .into_iter()
                .flat_map(|d| d.all("hostdev"))
                .filter_map(hostdev::address)
                .collect(),
            agent: devices.and_then(agent),
            screen: devices.and_then(screen),
            facts: facts(domain),
            marks,
        }
    }

    /// Room to grow while it runs.
    pub(crate) const fn has_room(&self) -> (bool, bool) {
        (
            self.most_cpus > self.cpu,
            self.most_memory_mib > self.memory_mib,
        )
    }

    /// The file of a disk.
    pub(crate) fn disk(&self, target: &str) -> Option<&DiskPart> {
        self.disks.iter().find(|disk| disk.target == target)
    }
}

fn dimms(devices: &Element) -> impl Iterator<Item = u64> {
    devices
        .all("memory")
        .filter_map(|m| m.at("target/size"))
        .map(mib)
}

/// A size with its unit, in MiB.
pub(crate) fn mib(element: &Element) -> u64 {
    let number: u64 = element.text().parse().unwrap_or(0);
    match element.get("unit").as_deref() {
        Some("b" | "bytes") => number >> 20,
        Some("MiB" | "M") => number,
        Some("GiB" | "G") => number << 10,
        Some("TiB" | "T") => number << 20,
        _ => number >> 10,
    }
}

fn agent(devices: &Element) -> Option<bool> {
    let target = |channel: &Element| channel.at("target").cloned();
    let mut targets = devices.all("channel").filter_map(target);
    let found = targets.find(|target| target.get("name").as_deref() == Some(AGENT))?;
    Some(found.get("state").as_deref() == Some("connected"))
}

fn screen(devices: &Element) -> Option<Beside> {
    let vnc = |g: &&Element| g.get("type").as_deref() == Some("vnc");
    let graphics = devices.all("graphics").find(vnc)?;
    let socket = graphics.get("socket").or_else(|| {
        graphics
            .at("listen")
            .and_then(|listen| listen.get("socket"))
    });
    if let Some(path) = socket {
        return Some(Beside::Unix(path));
    }
    let port = graphics.get("port")?.parse().ok()?;
    let listen = graphics.get("listen").filter(|host| host != "0.0.0.0");
    Some(Beside::Port(crate::config::Address {
        host: listen.unwrap_or_else(|| "127.0.0.1".to_owned()),
        port,
    }))
}

fn facts(domain: &Element) -> Facts {
    let loader = domain.at("os/loader").is_some();
    let efi = domain.attr_at("os", "firmware") == "efi" || loader;
    Facts {
        accelerator: match domain.get("type").as_deref() {
            Some("qemu") => "tcg".to_owned(),
            other => other.unwrap_or_default().to_owned(),
        },
        machine: domain.attr_at("os/type", "machine"),
        firmware: if efi { "UEFI" } else { "BIOS" }.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_domain_is_read_with_all_its_units() {
        let text = "<domain type='kvm'><name>db</name><uuid>0a1b2c3d-0000-4000-8000-00000000000f</uuid>
            <memory unit='KiB'>1048576</memory><vcpu placement='static' current='2'>4</vcpu>
            <os><type machine='pc-q35-10.0'>hvm</type><loader type='pflash'>x</loader></os>
            <devices><disk type='file' device='disk'><driver type='qcow2'/><source file='/a'/><target dev='vda'/></disk>
            <interface type='bridge'><mac address='52:54:00:AA:00:01'/><source bridge='br0'/><model type='virtio'/></interface>
            <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0' state='connected'/></channel>
            <graphics type='vnc' port='5901' listen='0.0.0.0'/>
            <memory model='dimm'><target><size unit='MiB'>128</size></target></memory></devices></domain>";
        let machine = Machine::read(text).expect("sound");
        assert_eq!(
            (machine.cpu, machine.most_cpus, machine.memory_mib),
            (2, 4, 1024)
        );
        assert_eq!(
            (machine.agent, machine.dimms.as_slice()),
            (Some(true), &[128][..])
        );
        assert_eq!(machine.nics[0].mac, "52:54:00:aa:00:01");
        assert_eq!(machine.facts.firmware, "UEFI");
        assert_eq!(machine.marks, None);
        assert!(matches!(machine.screen, Some(Beside::Port(at)) if at.host == "127.0.0.1"));
    }
}
