//! The addresses of a Machine: which there are, and which card has which.

use polyvirt_api::infra::VirtualMachineStatus;
use polyvirt_api::kubevirt::details;
use polyvirt_api::vitistack::{
    ConfiguredInterface, MachineInterfaceStatus, MachineStatus, NetworkConfiguration,
};

use super::Facts;
use crate::vitistack::lower::LoweredNic;

/// From where the administrator says: the running VM, or what was handed out.
pub(super) fn fill(
    status: &mut MachineStatus,
    facts: &Facts<'_>,
    vm: Option<&VirtualMachineStatus>,
) {
    let all = match (facts.handed_out, vm) {
        (Some(network), _) => handed_out(network),
        (None, Some(vm)) => vm.ips.clone(),
        (None, None) => status.ip_addresses.clone(),
    };
    status.ipv6_addresses = v6(&all);
    status.public_ip_addresses.clone_from(&all);
    status.ip_addresses = all;
    let Some(lowered) = facts.lowered else { return };
    let cards = lowered.nics.as_slice();
    let of = |nic: &LoweredNic| match facts.handed_out {
        Some(network) => of_interface(network, nic),
        None => of_card(vm, nic, cards.len(), &status.ip_addresses),
    };
    status.network_interfaces = cards.iter().map(|nic| interface(nic, of(nic))).collect();
}

fn v6(ips: &[String]) -> Vec<String> {
    ips.iter().filter(|ip| ip.contains(':')).cloned().collect()
}

fn told(network: &NetworkConfiguration) -> &[ConfiguredInterface] {
    let status = network.status.as_ref();
    status.map_or(&[], |status| status.network_interfaces.as_slice())
}

fn both(interface: &ConfiguredInterface) -> impl Iterator<Item = String> {
    let four = interface.ipv4_addresses.iter();
    four.chain(&interface.ipv6_addresses).cloned()
}

fn handed_out(network: &NetworkConfiguration) -> Vec<String> {
    told(network).iter().flat_map(both).collect()
}

/// By hardware address, which is one card's alone; a name will do for one that tells none.
fn of_interface(network: &NetworkConfiguration, nic: &LoweredNic) -> Vec<String> {
    let fits = |i: &&ConfiguredInterface| match &i.mac_address {
        Some(mac) => mac.eq_ignore_ascii_case(&nic.mac),
        None => i.name.as_deref() == Some(nic.name.as_str()),
    };
    let found = told(network).iter().filter(fits);
    found.flat_map(both).collect()
}

/// What the provider tells of the card; of a VM with one card all addresses are that card's.
fn of_card(
    vm: Option<&VirtualMachineStatus>,
    nic: &LoweredNic,
    cards: usize,
    all: &[String],
) -> Vec<String> {
    let key = format!("{}{}", details::IPS_OF_CARD, nic.name);
    let told = vm.and_then(|vm| vm.provider.get(&key));
    match told {
        Some(told) => told.split(',').map(str::to_owned).collect(),
        None if cards == 1 => all.to_vec(),
        None => Vec::new(),
    }
}

fn interface(nic: &LoweredNic, ips: Vec<String>) -> MachineInterfaceStatus {
    let (six, four) = ips.into_iter().partition(|ip| ip.contains(':'));
    MachineInterfaceStatus {
        name: Some(nic.name.clone()),
        mac_address: Some(nic.mac.clone()),
        ip_addresses: four,
        ipv6_addresses: six,
        type_: Some(nic.model.clone().unwrap_or_else(|| "virtio".to_owned())),
        ..MachineInterfaceStatus::default()
    }
}
