//! What no QEMU can run, whoever drives it: refused with the field that is at fault.

use std::collections::BTreeSet;
use std::net::IpAddr;

use polyvirt_contract::model::{ClassSpec, CreateVm, DiskSpec, NicSpec};
use polyvirt_contract::{ErrorKind, ProviderError, Result};

/// The longest name of a VM, a disk or a card.
const LONGEST_NAME: usize = 253;
/// QEMU's own limits, which its messages do not explain.
pub const MOST_CPUS: u32 = 240;
const LEAST_MEMORY_MIB: u64 = 16;
/// The field that memory comes from, unless spec.resources overrules it.
const MEMORY: &str = "class.memory";
/// The longest name of a network device.
const LONGEST_BRIDGE: usize = 15;

/// Whether names, sizes and addresses make sense by themselves.
pub fn request(request: &CreateVm) -> Result<()> {
    name("metadata.name", &request.name)?;
    size(&request.class)?;
    let mut names = BTreeSet::new();
    for (place, disk) in request.disks.iter().enumerate() {
        check_disk(place, disk)?;
        unique(&mut names, &disk.name, &format!("spec.disks[{place}].name"))?;
    }
    let mut names = BTreeSet::new();
    for (place, nic) in request.networks.iter().enumerate() {
        check_nic(place, nic)?;
        let field = format!("spec.networks[{place}].name");
        unique(&mut names, &nic.name, &field)?;
    }
    macs_differ(request)
}

/// Whether the host has as much memory as the VM is to have. Overcommitment lets VMs share memory; it does not give one VM more
/// than its host has.
pub fn fits_host(memory_mib: u64, host: &str, host_mib: u64) -> Result<()> {
    // A host that does not say how much it has is not judged.
    if host_mib == 0 || memory_mib <= host_mib {
        return Ok(());
    }
    Err(too_large(&format!(
        "The VM needs {memory_mib} MiB of memory, and the host {host} has {host_mib} MiB"
    )))
}

/// The host has too little memory for the VM; `state` says what was found.
pub fn too_large(state: &str) -> ProviderError {
    let remedy = "Set a smaller memory in the VMClass of spec.classRef, in spec.class or in spec.resources.memoryMiB, or choose a Provider with a larger host";
    ProviderError::new(ErrorKind::Exhausted, format!("{state}. {remedy}")).at(MEMORY)
}

fn name(field: &str, name: &str) -> Result<()> {
    let fits = !name.is_empty() && name.len() <= LONGEST_NAME;
    if fits && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let message = "A name has from 1 to 253 characters that can be printed";
    Err(ProviderError::invalid(field, message))
}

fn size(class: &ClassSpec) -> Result<()> {
    if class.cpu == 0 || class.cpu > MOST_CPUS {
        let message = format!("A VM needs from 1 to {MOST_CPUS} CPUs");
        return Err(ProviderError::invalid("spec.resources.cpu", message));
    }
    if class.memory_mib < LEAST_MEMORY_MIB {
        let message = format!("A VM needs at least {LEAST_MEMORY_MIB} MiB of memory");
        return Err(ProviderError::invalid("spec.resources.memoryMiB", message));
    }
    let security = class.security.clone().unwrap_or_default();
    if security.require_encryption {
        let message = "Disks are not encrypted by this provider; take the demand away, or use another provider";
        let field = "class.securityProfile.encryptionPolicy.requireEncryption";
        return Err(ProviderError::invalid(field, message));
    }
    Ok(())
}

fn check_disk(place: usize, disk: &DiskSpec) -> Result<()> {
    name(&format!("spec.disks[{place}].name"), &disk.name)?;
    if disk.size_gib == 0 {
        let field = format!("spec.disks[{place}].sizeGiB");
        let message = "A disk needs a size of at least 1 GiB";
        return Err(ProviderError::invalid(field, message));
    }
    Ok(())
}

fn check_nic(place: usize, nic: &NicSpec) -> Result<()> {
    let field = |name: &str| format!("spec.networks[{place}].{name}");
    name(&field("name"), &nic.name)?;
    if !nic.mac.is_empty() && !is_mac(&nic.mac) {
        let message = format!(
            "{:?} is no MAC address of a card; write six pairs of hex digits, the first an even number",
            nic.mac
        );
        return Err(ProviderError::invalid(field("macAddress"), message));
    }
    if let Some(address) = &nic.address
        && address.ip.parse::<IpAddr>().is_err()
    {
        let message = format!("{:?} is no IP address", address.ip);
        return Err(ProviderError::invalid(field("ipAddress"), message));
    }
    if !nic.bridge.is_empty() && !is_bridge(&nic.bridge) {
        let message = format!("{:?} can be no bridge of this host", nic.bridge);
        return Err(ProviderError::invalid(field("networkRef"), message));
    }
    Ok(())
}

fn is_bridge(name: &str) -> bool {
    let odd = |c: char| matches!(c, '/' | '\0') || c.is_whitespace();
    name.len() <= LONGEST_BRIDGE && !name.contains(odd) && !name.starts_with(['-', '.'])
}

/// The refusal of a model of card that QEMU does not have.
pub fn no_such_card(model: &str) -> ProviderError {
    let message =
        format!("There is no card {model:?}; use virtio, e1000, e1000e, rtl8139 or vmxnet3");
    ProviderError::invalid("network.libvirt.model", message)
}

fn is_mac(text: &str) -> bool {
    let pairs: Vec<&str> = text.split([':', '-']).collect();
    let hex = |pair: &&str| pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit());
    let unicast = u8::from_str_radix(pairs.first().unwrap_or(&""), 16).is_ok_and(|b| b & 1 == 0);
    pairs.len() == 6 && pairs.iter().all(hex) && unicast
}

/// A MAC address in the one form that is compared and told.
pub fn normal_mac(text: &str) -> String {
    text.to_ascii_lowercase().replace('-', ":")
}

fn macs_differ(request: &CreateVm) -> Result<()> {
    let mut seen = BTreeSet::new();
    for (place, nic) in request.networks.iter().enumerate() {
        if !nic.mac.is_empty() && !seen.insert(normal_mac(&nic.mac)) {
            let field = format!("spec.networks[{place}].macAddress");
            let message = format!("Two cards of this VM have the MAC address {}", nic.mac);
            return Err(ProviderError::invalid(field, message));
        }
    }
    Ok(())
}

fn unique<'a>(seen: &mut BTreeSet<&'a str>, name: &'a str, field: &str) -> Result<()> {
    if seen.insert(name) {
        return Ok(());
    }
    Err(ProviderError::invalid(
        field,
        format!("The name {name} is used twice"),
    ))
}

#[cfg(test)]
mod tests {
    use polyvirt_contract::model::StaticAddress;

    use super::*;

    fn sound() -> CreateVm {
        let class = ClassSpec {
            cpu: 1,
            memory_mib: 256,
            ..ClassSpec::default()
        };
        let nic = NicSpec {
            name: "eth0".to_owned(),
            ..NicSpec::default()
        };
        CreateVm {
            name: "web".to_owned(),
            class,
            networks: vec![nic],
            ..CreateVm::default()
        }
    }

    fn field_of(change: impl FnOnce(&mut CreateVm)) -> String {
        let mut vm = sound();
        change(&mut vm);
        let error = request(&vm).expect_err("refused");
        error.field.expect("a field")
    }

    #[test]
    fn what_can_never_work_names_its_field() {
        assert_eq!(request(&sound()), Ok(()));
        assert_eq!(field_of(|vm| vm.name.clear()), "metadata.name");
        assert_eq!(field_of(|vm| vm.class.cpu = 0), "spec.resources.cpu");
        assert_eq!(
            field_of(|vm| vm.class.memory_mib = 1),
            "spec.resources.memoryMiB"
        );
        let mac = |text: &'static str| field_of(move |vm| vm.networks[0].mac = text.to_owned());
        assert_eq!(mac("01:00:00:00:00:00"), "spec.networks[0].macAddress");
        assert_eq!(mac("02:00:00:00:00"), "spec.networks[0].macAddress");
        let bridge =
            |text: &'static str| field_of(move |vm| vm.networks[0].bridge = text.to_owned());
        assert_eq!(bridge("../../x"), "spec.networks[0].networkRef");
        assert_eq!(bridge("-x"), "spec.networks[0].networkRef");
        let address = StaticAddress {
            ip: "10.0.0".into(),
            ..StaticAddress::default()
        };
        let with = |vm: &mut CreateVm| vm.networks[0].address = Some(address);
        assert_eq!(field_of(with), "spec.networks[0].ipAddress");
    }

    #[test]
    fn a_vm_is_not_larger_than_its_host() {
        assert_eq!(fits_host(24105, "a", 24105), Ok(()));
        assert_eq!(fits_host(40960, "a", 0), Ok(()));
        let error = fits_host(40960, "a", 24105).expect_err("refused");
        assert_eq!(error.kind, ErrorKind::Exhausted);
        assert_eq!(error.field.as_deref(), Some("class.memory"));
        assert!(error.message.contains("24105 MiB"), "{error}");
        assert!(error.blames_host());
    }

    #[test]
    fn two_cards_have_two_addresses_and_names() {
        let twice = |vm: &mut CreateVm| {
            vm.networks[0].mac = "02:00:00:00:00:0A".into();
            let mut other = vm.networks[0].clone();
            other.name = "eth1".into();
            other.mac = "02-00-00-00-00-0a".into();
            vm.networks.push(other);
        };
        assert_eq!(field_of(twice), "spec.networks[1].macAddress");
        let same = |vm: &mut CreateVm| vm.networks.push(vm.networks[0].clone());
        assert_eq!(field_of(same), "spec.networks[1].name");
    }
}
