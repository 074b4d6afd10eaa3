//! What a VM takes of its host: devices, and the virtual functions that are its SR-IOV cards.

use polyvirt_api::infra::{self, DeviceRequest, DeviceType, ProviderType, VMResources};

use super::address::Method;
use super::devices::MOST_KINDS;
use super::error::LowerError;
use super::networks::{self, Card, NetworkKind};
use super::{Parts, Surroundings, devices};
use crate::shared::names::shortened;

/// Takes those out of the cards that are functions of the host's own: they are no cards of the hypervisor's. They get their
/// addresses from the network, for nobody can tell the guest which of its cards such a one is.
pub(super) fn take_functions(parts: &mut Parts, around: &Surroundings<'_>) -> Vec<Card> {
    let is_function = |card: &Card| is_function(card, around);
    let (functions, cards): (Vec<_>, Vec<_>) = parts.cards.drain(..).partition(is_function);
    parts.cards = cards;
    for card in &functions {
        let families = [("ipv4", &card.addresses.v4), ("ipv6", &card.addresses.v6)];
        let said = families.iter().filter(|(_, method)| is_for_guest(method));
        let fields = said.map(|(family, _)| networks::field(card.index, family));
        parts.ignored.extend(fields);
    }
    functions
}

const fn is_for_guest(method: &Method) -> bool {
    matches!(method, Method::Fixed(_) | Method::Auto)
}

/// Where Polyvirt passes devices on, and nobody has said otherwise, by an object of the network's name or by a card that is
/// plugged in already.
fn is_function(card: &Card, around: &Surroundings<'_>) -> bool {
    let passes = match around.provider_type {
        Some(kind) => matches!(
            kind,
            ProviderType::Libvirt | ProviderType::Qemu | ProviderType::Mock
        ),
        None => true,
    };
    let plugged = networks::plugged_before(card, around).is_some();
    card.kind == NetworkKind::SrIov && passes && !plugged && !(around.has_network)(&card.network)
}

/// The virtual function that is the card.
fn function(card: &Card) -> DeviceRequest {
    DeviceRequest {
        name: shortened(&format!("nic-{}", card.name), 63),
        type_: Some(DeviceType::Sriov),
        vendor: None,
        model: Some(card.network.clone()),
        count: 1,
    }
}

/// What is asked for of the host; KubeVirt gives devices by name. A VM keeps what it was made with: devices come with a VM, and
/// what comes later does nothing, which is told.
pub(super) fn resources(
    parts: &mut Parts,
    functions: &[Card],
    around: &Surroundings<'_>,
) -> Result<Option<VMResources>, LowerError> {
    if around.provider_type == Some(ProviderType::Kubevirt) {
        return Ok(None);
    }
    let wanted = wanted(parts, functions);
    if let Some(made) = made(around) {
        let late = wanted.iter().filter(|(_, request)| !has(made, request));
        parts.ignored.extend(late.map(|(field, _)| field.clone()));
        return Ok(made.spec.resources.clone());
    }
    if wanted.len() > MOST_KINDS {
        let message = format!(
            "A VM has {MOST_KINDS} kinds of devices at most, and each SR-IOV network is one of them"
        );
        return Err(LowerError::invalid(devices::FIELD, message));
    }
    let devices: Vec<_> = wanted.into_iter().map(|(_, request)| request).collect();
    Ok((!devices.is_empty()).then(|| VMResources {
        devices,
        ..VMResources::default()
    }))
}

/// All requests, each with the field that says it.
fn wanted(parts: &Parts, functions: &[Card]) -> Vec<(String, DeviceRequest)> {
    let devices = parts.devices.requests.iter().cloned().enumerate();
    let devices = devices.map(|(index, request)| (format!("{}[{index}]", devices::FIELD), request));
    let cards = functions.iter();
    let cards = cards.map(|card| (networks::field(card.index, "type"), function(card)));
    devices.chain(cards).collect()
}

fn has(vm: &infra::VirtualMachine, wanted: &DeviceRequest) -> bool {
    let own = vm.spec.resources.iter().flat_map(|r| &r.devices);
    own.into_iter().any(|device| device == wanted)
}

/// The VM, if it exists on the hypervisor.
pub(super) fn made<'a>(around: &Surroundings<'a>) -> Option<&'a infra::VirtualMachine> {
    around.before.filter(|vm| exists(vm))
}

/// Whether it exists on the hypervisor.
pub fn exists(vm: &infra::VirtualMachine) -> bool {
    let id = vm.status.as_ref().and_then(|s| s.id.as_deref());
    id.is_some_and(|id| !id.is_empty())
}
