//! From a VM of NovaCron to what is made for it. Pure.
//!
//! What must not change once the VM exists (its image, what its cards are plugged into) is taken from what was written before.

mod address;
mod affinity;
mod devices;
mod error;
mod host;
mod image;
mod lifecycle;
mod migration;
mod network_data;
mod networks;
mod policies;
mod size;
mod template;
#[cfg(test)]
mod tests;
mod volumes;

use polyvirt_api::infra::{
    self, CloudInit, DiskImagePull, DriftAction, DriftPolicy, Ignition, ObjectRef, Placement,
    PowerState, ProviderType, UserData, VMMigration, VMNetworkAttachment, VMSnapshot,
    VirtualMachineSpec,
};
use polyvirt_api::kubevirt::{KubevirtOptions, NetworkOption, OPTIONS_KEY};
use polyvirt_api::names;
use polyvirt_api::novacron::{IMAGE_SOURCE_ANNOTATION, VirtualMachine, VmSpec};
use polyvirt_engine::runtime::key::ObjectKey;

use crate::shared::owner::owner_reference;
use crate::shared::same::marked;

pub use error::LowerError;
pub use host::exists;
pub use image::{ImageSource, Offer};
pub use migration::{Live, MigrationTerms, migration_name, refusal, wanted_node};
pub use polyvirt_plan::bandwidth::bytes_per_second;

pub use template::reserved;

use networks::{Card, NetworkKind};
use template::allowed;

/// Wishes that go on to the VirtualMachine.
const PASSED_ON: [&str; 2] = [names::REBOOT_ANNOTATION, names::PAUSED_ANNOTATION];

/// All that a VM refers to, as far as it exists.
pub struct Surroundings<'a> {
    /// The name of the VM.
    pub name: &'a str,
    /// The Provider that runs it.
    pub provider: &'a ObjectKey,
    /// What kind of Provider that is, if it is there.
    pub provider_type: Option<ProviderType>,
    /// What a name of the marketplace stands for.
    pub marketplace: &'a (dyn Fn(&str) -> Option<Offer> + Sync),
    /// Where the marketplace is, for people.
    pub catalogue: &'a ObjectKey,
    /// Whether somebody has made a VMNetworkAttachment of that name in the namespace of the VM.
    pub has_network: &'a (dyn Fn(&str) -> bool + Sync),
    /// What was written for it before.
    pub before: Option<&'a infra::VirtualMachine>,
}

/// What a VM becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct Lowered {
    /// The VM.
    pub vm: infra::VirtualMachine,
    /// Networks that only it uses.
    pub networks: Vec<VMNetworkAttachment>,
    /// When its snapshots are taken.
    pub snapshot: Option<VMSnapshot>,
    /// How it may move.
    pub migration: MigrationTerms,
    /// The move that is asked for.
    pub move_to: Option<VMMigration>,
    /// Paths of fields that are set and do nothing.
    pub ignored: Vec<String>,
}

/// The parts of a VM that nothing but its own words decide on.
struct Parts {
    class: infra::VMClassSpec,
    cards: Vec<Card>,
    volumes: Vec<volumes::Lowered>,
    devices: devices::Lowered,
    lifecycle: Option<Box<infra::VMLifecycle>>,
    update: Option<infra::ReconfigurePolicy>,
    migration: MigrationTerms,
    snapshot: Option<VMSnapshot>,
    ignored: Vec<String>,
}

/// All that is wrong with a VM, whatever else there is in the cluster.
pub fn problems(vm: &VirtualMachine) -> Vec<LowerError> {
    let (spec, inner) = (&vm.spec, &*vm.spec.template.spec);
    let mut idle = Vec::new();
    let found = [
        size::class(&inner.resources).err(),
        ImageSource::parse(&inner.image.source).err(),
        pull_policy(inner).err(),
        networks::cards(&inner.networks).err(),
        volumes::resolve(&inner.volumes).err(),
        devices::resolve(&inner.devices).err(),
        affinity::check(inner.affinity.as_deref()).err(),
        lifecycle::resolve(inner.lifecycle.as_deref(), &mut idle).err(),
        migration::terms(spec.migration_policy.as_ref()).err(),
        policies::snapshot("", spec.snapshot_policy.as_ref()).err(),
        policies::update(spec.update_strategy.as_ref()).err(),
    ];
    found.into_iter().flatten().collect()
}

/// What is made for a VM, or what stands in the way.
pub fn lower(vm: &VirtualMachine, around: &Surroundings<'_>) -> Result<Lowered, LowerError> {
    let mut parts = parts(vm, around.name)?;
    let inner = &*vm.spec.template.spec;
    let image = image(inner, around)?;
    let functions = host::take_functions(&mut parts, around);
    told_by_type(&mut parts, around.provider_type);
    let resources = host::resources(&mut parts, &functions, around)?;
    let uid = vm.metadata.uid.as_deref().unwrap_or_default();
    let described = network_data::is_needed(&parts.cards);
    let mut made = Vec::new();
    let mut cards = Vec::new();
    for card in &parts.cards {
        let plugged = networks::plug(card, around)?;
        made.extend(plugged.made);
        let mac = described.then(|| network_data::mac(uid, &card.name));
        cards.push(networks::spec(card, plugged.network_ref, mac));
    }
    add_options(&mut parts, inner, around.provider_type);
    let spec = VirtualMachineSpec {
        provider_ref: provider_ref(vm, around.provider),
        class: Some(Box::new(parts.class)),
        image_ref: image.image_ref,
        image: image.image,
        image_pull_policy: pull_policy(inner)?,
        power_state: Some(power(vm)),
        resources,
        disks: parts.volumes.into_iter().map(|v| v.disk).collect(),
        networks: cards,
        user_data: user_data(inner),
        network_data: described.then(|| Box::new(network_data::document(&parts.cards, uid))),
        placement: placement(inner, around.provider_type),
        lifecycle: parts.lifecycle,
        drift_policy: Some(DriftPolicy {
            power: Some(DriftAction::Correct),
            ..DriftPolicy::default()
        }),
        reconfigure_policy: parts.update,
        ..VirtualMachineSpec::default()
    };
    let move_to = migration::lower(vm, around.name, around.provider, &parts.migration);
    Ok(Lowered {
        vm: object(vm, spec),
        networks: made.into_iter().map(|n| marked(owned(n, vm))).collect(),
        snapshot: parts.snapshot.map(|s| marked(owned(s, vm))),
        migration: parts.migration,
        move_to: move_to.map(|m| owned(m, vm)),
        ignored: parts.ignored,
    })
}

/// The name of the VMSnapshot that holds the schedule of a VM.
pub fn schedule_name(vm: &str) -> String {
    policies::schedule_name(vm)
}

/// The schedule of a VM that is to have none any more. What it took stays, and so it rests.
pub fn schedule_at_rest(there: &VMSnapshot, vm: &VirtualMachine) -> VMSnapshot {
    marked(owned(policies::at_rest(there), vm))
}

fn parts(vm: &VirtualMachine, name: &str) -> Result<Parts, LowerError> {
    let (spec, inner) = (&vm.spec, &*vm.spec.template.spec);
    let mut ignored: Vec<_> = policies::idle(spec.snapshot_policy.as_ref())
        .into_iter()
        .chain(reserved(vm))
        .collect();
    affinity::check(inner.affinity.as_deref())?;
    Ok(Parts {
        class: size::class(&inner.resources)?,
        cards: networks::cards(&inner.networks)?,
        volumes: volumes::resolve(&inner.volumes)?,
        devices: devices::resolve(&inner.devices)?,
        lifecycle: lifecycle::resolve(inner.lifecycle.as_deref(), &mut ignored)?,
        update: policies::update(spec.update_strategy.as_ref())?,
        migration: migration::terms(spec.migration_policy.as_ref())?,
        snapshot: policies::snapshot(name, spec.snapshot_policy.as_ref())?,
        ignored,
    })
}

/// When the image is fetched; what is the default is not written.
fn pull_policy(inner: &VmSpec) -> Result<Option<DiskImagePull>, LowerError> {
    let field = "spec.template.spec.image.pullPolicy";
    match inner.image.pull_policy.as_deref().unwrap_or_default() {
        "" | "IfNotPresent" => Ok(None),
        "Always" => Ok(Some(DiskImagePull::Always)),
        "Never" => Ok(Some(DiskImagePull::Never)),
        other => {
            let message =
                format!("There is no policy {other:?}. Write IfNotPresent, Always or Never");
            Err(LowerError::invalid(field, message))
        }
    }
}

/// A disk is made once: another entry in the catalogue does not change the VMs that were made from the one before. One that
/// could not be made takes the entry as it is now.
fn image(inner: &VmSpec, around: &Surroundings<'_>) -> Result<image::Lowered, LowerError> {
    let made_from = |vm: &infra::VirtualMachine| {
        let annotations = vm.metadata.annotations.as_ref()?;
        annotations.get(IMAGE_SOURCE_ANNOTATION).cloned()
    };
    let same = |vm: &&infra::VirtualMachine| made_from(vm).as_deref() == Some(&inner.image.source);
    match host::made(around).filter(same) {
        Some(before) => Ok(image::Lowered {
            image_ref: before.spec.image_ref.clone(),
            image: before.spec.image.clone(),
        }),
        None => image::resolve(&inner.image, around),
    }
}

/// What this kind of Provider leaves undone.
fn told_by_type(parts: &mut Parts, kind: Option<ProviderType>) {
    if kind == Some(ProviderType::Kubevirt) {
        return;
    }
    for card in &parts.cards {
        if card.kind != NetworkKind::Bridge {
            parts.ignored.push(networks::field(card.index, "type"));
        }
    }
    for (index, volume) in parts.volumes.iter().enumerate() {
        if volume.is_shared() {
            parts.ignored.push(volumes::field(index, "accessMode"));
        }
    }
}

/// What only KubeVirt has a word for.
fn add_options(parts: &mut Parts, inner: &VmSpec, kind: Option<ProviderType>) {
    if kind != Some(ProviderType::Kubevirt) {
        return;
    }
    let sriov = parts.cards.iter().filter(|c| c.kind == NetworkKind::SrIov);
    let binding = || NetworkOption {
        binding: Some("sriov".to_owned()),
        ..NetworkOption::default()
    };
    let affinity = inner.affinity.as_ref();
    let options = KubevirtOptions {
        disks: parts
            .volumes
            .iter()
            .filter_map(volumes::Lowered::option)
            .collect(),
        networks: sriov.map(|c| (c.name.clone(), binding())).collect(),
        node_selector: inner.node_selector.clone(),
        affinity: affinity.and_then(|a| serde_json::to_value(a).ok()),
        gpus: parts.devices.gpus.clone(),
        host_devices: parts.devices.others.clone(),
        ..KubevirtOptions::default()
    };
    if options != KubevirtOptions::default() {
        let entry = (OPTIONS_KEY.to_owned(), options.to_text());
        parts.class.extra_config.extend([entry]);
    }
}

/// KubeVirt has its own words for it, which the cluster of the VM keeps.
fn placement(inner: &VmSpec, kind: Option<ProviderType>) -> Option<Placement> {
    let placement = Placement {
        node_selector: inner.node_selector.clone(),
        affinity: inner.affinity.clone(),
        ..Placement::default()
    };
    let says = placement != Placement::default() && kind != Some(ProviderType::Kubevirt);
    says.then_some(placement)
}

/// One that is not to run is made, and stays off. One that runs is asked to shut down.
const fn power(vm: &VirtualMachine) -> PowerState {
    if vm.spec.running {
        PowerState::On
    } else {
        PowerState::OffGraceful
    }
}

/// Ignition is JSON, cloud-init is not.
fn user_data(inner: &VmSpec) -> Option<Box<UserData>> {
    let text = inner.user_data.clone().filter(|t| !t.trim().is_empty())?;
    let ignition = text.trim_start().starts_with('{') && text.contains("\"ignition\"");
    let data = if ignition {
        UserData {
            cloud_init: None,
            ignition: Some(Ignition {
                inline: Some(text),
                secret_ref: None,
            }),
        }
    } else {
        UserData {
            cloud_init: Some(CloudInit {
                inline: Some(text),
                ..CloudInit::default()
            }),
            ignition: None,
        }
    };
    Some(Box::new(data))
}

fn provider_ref(vm: &VirtualMachine, provider: &ObjectKey) -> ObjectRef {
    let own = vm.metadata.namespace.as_deref().unwrap_or_default();
    let elsewhere = provider.namespace() != own;
    ObjectRef {
        name: provider.name().to_owned(),
        namespace: elsewhere.then(|| provider.namespace().to_owned()),
    }
}

fn object(vm: &VirtualMachine, spec: VirtualMachineSpec) -> infra::VirtualMachine {
    let name = vm.metadata.name.as_deref().unwrap_or_default();
    let mut made = owned(infra::VirtualMachine::new(name, spec), vm);
    let template = vm.spec.template.metadata.clone().unwrap_or_default();
    let mut notes = allowed(template.annotations);
    let own = vm.metadata.annotations.clone().unwrap_or_default();
    notes.extend(
        own.into_iter()
            .filter(|(k, _)| PASSED_ON.contains(&k.as_str())),
    );
    let source = vm.spec.template.spec.image.source.clone();
    notes.insert(IMAGE_SOURCE_ANNOTATION.to_owned(), source);
    let labels = allowed(template.labels);
    made.metadata.labels = (!labels.is_empty()).then_some(labels);
    made.metadata.annotations = Some(notes);
    marked(made)
}

fn owned<K: kube::Resource<DynamicType = ()>>(mut object: K, vm: &VirtualMachine) -> K {
    let meta = object.meta_mut();
    meta.namespace.clone_from(&vm.metadata.namespace);
    meta.owner_references = Some(vec![owner_reference(vm)]);
    object
}
