//! Changes of a domain that is there. Each touches the elements that it names, and leaves all else as it was written.

use polyvirt_contract::model::ClassSpec;
use polyvirt_provider_kit::check::MOST_CPUS;

use super::disk::{self, Place};
use super::nic::NicPart;
use super::tuning::DiskTuning;
use crate::xml::Element;

/// Places for memory that is plugged in.
pub(crate) const DIMM_SLOTS: u32 = 16;

/// How far a machine can grow while it runs: CPUs, and memory in MiB.
pub(crate) fn limits(class: &ClassSpec) -> (u32, u64) {
    let performance = class.performance.clone().unwrap_or_default();
    let cpus = if performance.cpu_hot_add {
        (class.cpu * 4).clamp(8, MOST_CPUS).max(class.cpu)
    } else {
        class.cpu
    };
    let memory = if performance.memory_hot_add {
        (class.memory_mib * 4).max(class.memory_mib + 2048)
    } else {
        class.memory_mib
    };
    (cpus, memory)
}

/// Sets CPUs and memory, and the room to grow.
pub(crate) fn size(domain: &mut Element, class: &ClassSpec) {
    let (most_cpus, most_memory) = limits(class);
    domain.edit("vcpu", |vcpu| {
        vcpu.set_text(most_cpus);
        if most_cpus > class.cpu {
            vcpu.set("current", class.cpu);
        } else {
            vcpu.unset("current");
        }
    });
    set_memory(domain, "memory", class.memory_mib);
    if domain.at("currentMemory").is_some() {
        set_memory(domain, "currentMemory", class.memory_mib);
    }
    domain.edit("devices", |devices| devices.remove(|e| e.name == "memory"));
    room_for_memory(domain, class.memory_mib, most_memory, most_cpus);
}

fn set_memory(domain: &mut Element, name: &str, mib: u64) {
    domain.edit(name, |element| {
        if super::machine::mib(element) != mib {
            element.set("unit", "MiB");
            element.set_text(mib);
        }
    });
}

/// Memory can only be plugged into a machine with a NUMA node.
fn room_for_memory(domain: &mut Element, mib: u64, most: u64, cpus: u32) {
    if most <= mib {
        domain.remove(|e| e.name == "maxMemory");
        domain.edit("cpu", |cpu| cpu.remove(|e| e.name == "numa"));
        return;
    }
    domain.edit("maxMemory", |element| {
        element.set("slots", DIMM_SLOTS);
        element.set("unit", "MiB");
        element.set_text(most);
    });
    let cell = Element::new("cell")
        .with("id", 0)
        .with("cpus", format!("0-{}", cpus - 1))
        .with("memory", mib)
        .with("unit", "MiB");
    domain.edit("cpu", |cpu| cpu.replace(Element::new("numa").holding(cell)));
}

/// Adds a disk, or replaces the one in its place.
pub(crate) fn put_disk(domain: &mut Element, target: &str, place: &Place, tuning: &DiskTuning) {
    take_disk(domain, target);
    let disk = disk::element(target, place, tuning);
    domain.edit("devices", |devices| {
        devices.push(disk);
    });
}

/// Takes the disk in that place away.
pub(crate) fn take_disk(domain: &mut Element, target: &str) {
    domain.edit("devices", |devices| {
        devices.remove(|e| e.name == "disk" && e.attr_at("target", "dev") == target);
    });
}

/// Gives a disk another file or volume of the same kind.
pub(crate) fn move_disk(domain: &mut Element, target: &str, path: &str) {
    domain.edit("devices", |devices| {
        for node in &mut devices.children {
            if let crate::xml::Node::Element(e) = node
                && e.name == "disk"
                && e.attr_at("target", "dev") == target
            {
                e.edit("source", |source| source.set(disk::named_by(source), path));
            }
        }
    });
}

/// Adds a card.
pub(crate) fn put_nic(domain: &mut Element, nic: &NicPart) {
    domain.edit("devices", |devices| {
        devices.push(nic.element());
    });
}

/// Takes the card of that address away.
pub(crate) fn take_nic(domain: &mut Element, mac: &str) {
    domain.edit("devices", |devices| {
        devices.remove(|e| e.name == "interface" && NicPart::of(e).mac == mac);
    });
}

/// The element of a device that is there, as libvirt must be told to take it away.
pub(crate) fn find_device(domain: &Element, meant: impl Fn(&Element) -> bool) -> Option<String> {
    let devices = domain.at("devices")?;
    devices
        .elements()
        .find(|e| meant(e))
        .map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use polyvirt_contract::model::PerformanceProfile;
    use proptest::prelude::*;

    use super::*;
    use crate::domain::Machine;
    use crate::xml::parse;

    const TEXT: &str = "<domain type='kvm'>
  <!-- mine -->
  <memory unit='KiB'>262144</memory>
  <vcpu placement='static'>1</vcpu>
  <cpu mode='host-model'/>
  <devices>
    <disk type='file' device='disk'><source file='/r'/><target dev='vda' bus='virtio'/></disk>
    <interface type='user'><mac address='02:00:00:00:00:01'/><model type='virtio'/></interface>
    <sound model='ich9'/>
  </devices>
  <qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'/>
</domain>";

    fn class(cpu: u32, memory_mib: u64, hot: bool) -> ClassSpec {
        ClassSpec {
            cpu,
            memory_mib,
            performance: Some(PerformanceProfile {
                cpu_hot_add: hot,
                memory_hot_add: hot,
                ..PerformanceProfile::default()
            }),
            ..ClassSpec::default()
        }
    }

    fn edited(change: impl FnOnce(&mut Element)) -> (Machine, String) {
        let mut document = parse(TEXT).expect("sound");
        change(&mut document.root);
        (Machine::of(&document.root), document.to_string())
    }

    #[test]
    fn the_same_size_changes_nothing() {
        let (_, text) = edited(|domain| size(domain, &class(1, 256, false)));
        assert_eq!(text, TEXT);
    }

    #[test]
    fn another_size_changes_two_elements() {
        let (machine, text) = edited(|domain| size(domain, &class(3, 512, false)));
        assert_eq!((machine.cpu, machine.memory_mib), (3, 512));
        let expected = TEXT
            .replace("<memory unit='KiB'>262144", "<memory unit='MiB'>512")
            .replace("'static'>1<", "'static'>3<");
        assert_eq!(text, expected);
    }

    #[test]
    fn room_to_grow_comes_and_goes() {
        let (machine, _) = edited(|domain| size(domain, &class(1, 256, true)));
        assert_eq!((machine.most_cpus, machine.most_memory_mib), (8, 2304));
        let (_, text) = edited(|domain| {
            size(domain, &class(1, 256, true));
            size(domain, &class(1, 256, false));
        });
        assert_eq!(text.replace("></cpu>", "/>"), TEXT);
    }

    proptest! {
        #[test]
        fn a_disk_or_card_that_comes_and_goes_leaves_no_trace(letter in "[b-y]", mac in "02(:[0-9a-f]{2}){5}") {
            prop_assume!(mac != "02:00:00:00:00:01");
            let nic = NicPart { mac: mac.clone(), model: "virtio".to_owned(), ..NicPart::default() };
            let target = format!("vd{letter}");
            let (_, text) = edited(|domain| {
                put_disk(domain, &target, &Place::File("/x".to_owned()), &DiskTuning::default());
                put_nic(domain, &nic);
                take_nic(domain, &mac);
                take_disk(domain, &target);
            });
            prop_assert_eq!(text, TEXT);
        }
    }
}
