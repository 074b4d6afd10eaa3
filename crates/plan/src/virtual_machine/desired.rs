//! From manifests to one request: what the VM should be, or which field stands in the way. Pure.
//!
//! User data is not part of it: it may need Secrets, and is needed only when something is sent.

mod networks;

use std::time::Duration;

use polyvirt_api::infra::{
    self as api, Provider, VMClass, VMClassSpec, VMImage, VMNetworkAttachment, VirtualMachine,
    VirtualMachineSpec,
};
use polyvirt_contract::model::{
    ClassSpec, CreateVm, DiskDefaults, DiskSpec, DiskType, ExpandPolicy, Firmware, ImageSource,
    Owner, PerformanceProfile, Placement, ResourceLimits, ScsiSpec, SecurityProfile,
};
use polyvirt_contract::{Capabilities, Identity};

use crate::image;
use crate::problem::Problem;
use crate::quantity;
use crate::reason::Reason;
use crate::virtual_machine::facts::{
    Desired, DesiredPower, ImageReadiness, OnDrift, RestartPolicy,
};

use crate::virtual_machine::hooks;

use networks::networks;

/// All that a VirtualMachine refers to, as far as it exists.
#[derive(Clone, Copy, Debug)]
pub struct References<'a> {
    /// Its Provider.
    pub provider: Option<&'a Provider>,
    /// Its class, if it names one.
    pub class: Option<&'a VMClass>,
    /// Its image, if it names one.
    pub image: Option<&'a VMImage>,
    /// Its networks, in the order of `spec.networks`; `None` for one that names no attachment or does not exist.
    pub networks: &'a [Option<&'a VMNetworkAttachment>],
    /// What the provider can do; the default while it is not connected.
    pub capabilities: &'a Capabilities,
    /// Whom the VM belongs to.
    pub identity: &'a Identity,
}

/// What the VM should be.
pub fn resolve(vm: &VirtualMachine, refs: &References<'_>) -> Result<Desired, Problem> {
    let spec = &vm.spec;
    let namespace = vm.metadata.namespace.as_deref().unwrap_or_default();
    let name = vm.metadata.name.as_deref().unwrap_or_default();
    let (image, readiness) = image(vm, namespace, refs)?;
    let request = CreateVm {
        owner: Some(Owner {
            identity: refs.identity.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }),
        name: hypervisor_name(namespace, name, &spec.provider_ref),
        class: class(spec, refs)?,
        image,
        networks: networks(spec, refs)?,
        disks: spec.disks.iter().map(disk).collect(),
        placement: placement(spec, refs.provider),
        tags: spec.tags.clone(),
        ..CreateVm::default()
    };
    Ok(Desired {
        vm: request,
        power: power(spec.power_state.unwrap_or_default()),
        graceful_timeout: graceful_timeout(spec)?,
        image: readiness,
        hooks: hooks::declared(vm),
        ..policies(spec)
    })
}

/// The name on the hypervisor: the object's, with its namespace before it if the Provider lives in another one.
///
/// A namespace has no dot, so two objects in two namespaces never get the same name this way.
pub fn hypervisor_name(namespace: &str, name: &str, provider: &api::ObjectRef) -> String {
    if provider.namespace_or(namespace) == namespace {
        name.to_owned()
    } else {
        format!("{namespace}.{name}")
    }
}

fn policies(spec: &VirtualMachineSpec) -> Desired {
    let drift = spec.drift_policy.clone().unwrap_or_default();
    let restart = spec
        .reconfigure_policy
        .as_ref()
        .and_then(|p| p.restart)
        .unwrap_or_default();
    Desired {
        on_power_drift: on_drift(drift.power),
        on_size_drift: on_drift(drift.size),
        on_deletion: match drift.deletion.unwrap_or_default() {
            api::DriftDeletion::Report => OnDrift::Report,
            api::DriftDeletion::Recreate => OnDrift::Correct,
        },
        restart: match restart {
            api::RestartPolicy::Never => RestartPolicy::Never,
            api::RestartPolicy::WhenNeeded => RestartPolicy::WhenNeeded,
        },
        ..Desired::default()
    }
}

fn on_drift(action: Option<api::DriftAction>) -> OnDrift {
    match action.unwrap_or_default() {
        api::DriftAction::Report => OnDrift::Report,
        api::DriftAction::Correct => OnDrift::Correct,
    }
}

/// The user's word for power, in the planner's type.
pub const fn power(state: api::PowerState) -> DesiredPower {
    match state {
        // Neither of the last two can be declared: the schema refuses them.
        api::PowerState::On | api::PowerState::Suspended | api::PowerState::Unknown => {
            DesiredPower::On
        }
        api::PowerState::Off => DesiredPower::Off,
        api::PowerState::OffGraceful => DesiredPower::OffGraceful,
        api::PowerState::Paused => DesiredPower::Paused,
    }
}

fn graceful_timeout(spec: &VirtualMachineSpec) -> Result<Duration, Problem> {
    let Some(lifecycle) = &spec.lifecycle else {
        return Ok(Duration::from_secs(60));
    };
    lifecycle.graceful_shutdown_timeout.parse().map_err(|e| {
        Problem::new(
            Reason::InvalidSpec,
            "spec.lifecycle.gracefulShutdownTimeout",
            e.to_string(),
        )
    })
}

fn class(spec: &VirtualMachineSpec, refs: &References<'_>) -> Result<ClassSpec, Problem> {
    let declared = class_spec(spec, refs)?;
    let mut class = class_from(declared)?;
    if let Some(own) = &spec.resources {
        class.cpu = own
            .cpu
            .map_or(class.cpu, |cpu| u32::try_from(cpu).unwrap_or(class.cpu));
        let memory = own.memory_mib.and_then(|m| u64::try_from(m).ok());
        class.memory_mib = memory.unwrap_or(class.memory_mib);
    }
    Ok(class)
}

fn class_spec<'a>(
    spec: &'a VirtualMachineSpec,
    refs: &References<'a>,
) -> Result<&'a VMClassSpec, Problem> {
    if let Some(inline) = &spec.class {
        return Ok(inline);
    }
    let Some(wanted) = &spec.class_ref else {
        return Err(Problem::new(
            Reason::InvalidSpec,
            "spec.classRef",
            "No size is given. Set spec.classRef or spec.class",
        ));
    };
    refs.class
        .map(|c| &c.spec)
        .ok_or_else(|| missing("spec.classRef.name", "VMClass", wanted))
}

fn missing(field: &str, kind: &str, wanted: &api::ObjectRef) -> Problem {
    let name = wanted
        .namespace
        .as_ref()
        .map_or_else(|| wanted.name.clone(), |ns| format!("{ns}/{}", wanted.name));
    Problem::new(
        Reason::WaitingForDependencies,
        field,
        format!("{kind} {name} does not exist. Create it, or correct the name"),
    )
}

/// Size and hardware from a class alone.
pub fn class_from(spec: &VMClassSpec) -> Result<ClassSpec, Problem> {
    Ok(ClassSpec {
        cpu: u32::try_from(spec.cpu).unwrap_or(1).max(1),
        memory_mib: mebibytes("class.memory", &spec.memory)?,
        firmware: firmware(spec),
        disk_defaults: spec.disk_defaults.as_ref().map(disk_defaults).transpose()?,
        guest_tools_policy: word(&spec.guest_tools_policy),
        extra_config: spec.extra_config.clone(),
        performance: spec.performance_profile.as_ref().map(performance),
        security: spec.security_profile.as_ref().map(security),
        limits: spec.resource_limits.as_ref().map(limits).transpose()?,
    })
}

fn mebibytes(
    field: &str,
    quantity: &k8s_openapi::apimachinery::pkg::api::resource::Quantity,
) -> Result<u64, Problem> {
    quantity::mebibytes(quantity)
        .map_err(|e| Problem::new(Reason::InvalidSpec, field, e.to_string()))
}

fn firmware(spec: &VMClassSpec) -> Firmware {
    let secure = spec
        .security_profile
        .as_ref()
        .is_some_and(|s| s.secure_boot);
    let word = word(&spec.firmware).to_ascii_uppercase();
    if secure || word.contains("EFI") {
        Firmware::Uefi
    } else {
        Firmware::Bios
    }
}

fn disk_defaults(spec: &api::DiskDefaults) -> Result<DiskDefaults, Problem> {
    let size = quantity::gibibytes_ceil(&spec.size).map_err(|e| {
        Problem::new(
            Reason::InvalidSpec,
            "class.diskDefaults.size",
            e.to_string(),
        )
    })?;
    Ok(DiskDefaults {
        disk_type: word(&spec.type_),
        size_gib: u32::try_from(size).unwrap_or(u32::MAX),
    })
}

fn performance(spec: &api::PerformanceProfile) -> PerformanceProfile {
    PerformanceProfile {
        latency_sensitivity: word(&spec.latency_sensitivity),
        cpu_hot_add: spec.cpu_hot_add_enabled,
        memory_hot_add: spec.memory_hot_add_enabled,
        virtualization_based_security: spec.virtualization_based_security,
        nested_virtualization: spec.nested_virtualization,
        hyper_threading_policy: word(&spec.hyper_threading_policy),
    }
}

fn security(spec: &api::SecurityProfile) -> SecurityProfile {
    let encryption = spec.encryption_policy.clone().unwrap_or_default();
    SecurityProfile {
        secure_boot: spec.secure_boot,
        tpm: spec.tpm_enabled,
        tpm_version: spec.tpm_version.as_ref().map(word).unwrap_or_default(),
        vtd: spec.vtd_enabled,
        encryption: encryption.enabled,
        key_provider: encryption
            .key_provider
            .as_ref()
            .map(word)
            .unwrap_or_default(),
        require_encryption: encryption.require_encryption,
    }
}

fn limits(spec: &api::ResourceLimits) -> Result<ResourceLimits, Problem> {
    let mib = |field: &str, q: &Option<_>| {
        q.as_ref()
            .map(|q| mebibytes(field, q))
            .transpose()
            .map(|m| m.and_then(|m| i64::try_from(m).ok()))
    };
    Ok(ResourceLimits {
        cpu_limit: spec.cpu_limit,
        cpu_reservation: spec.cpu_reservation,
        cpu_shares: spec.cpu_shares,
        memory_limit_mib: mib("class.resourceLimits.memoryLimit", &spec.memory_limit)?,
        memory_reservation_mib: mib(
            "class.resourceLimits.memoryReservation",
            &spec.memory_reservation,
        )?,
    })
}

/// The word that an enum is written as.
fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn image(
    vm: &VirtualMachine,
    namespace: &str,
    refs: &References<'_>,
) -> Result<(ImageSource, ImageReadiness), Problem> {
    let spec = &vm.spec;
    if let Some(disk) = &spec.imported_disk {
        return Ok((image::imported_disk(disk), ImageReadiness::Ready));
    }
    if let Some(inline) = &spec.image {
        let meant = image::source_on(inline, kind(refs));
        let source = ImageSource {
            pull: image::pull(spec.image_pull_policy.unwrap_or_default()),
            ..image::source_for_create(&meant, None)
        };
        return Ok((source, ImageReadiness::Ready));
    }
    let Some(wanted) = &spec.image_ref else {
        return Err(Problem::new(
            Reason::InvalidSpec,
            "spec.imageRef",
            "Nothing to boot from. Set one of spec.imageRef, spec.image and spec.importedDisk",
        ));
    };
    let found = refs
        .image
        .ok_or_else(|| missing("spec.imageRef.name", "VMImage", wanted))?;
    Ok(referenced_image(vm, namespace, found, refs))
}

fn kind(refs: &References<'_>) -> Option<api::ProviderType> {
    refs.provider.map(|provider| provider.spec.type_)
}

fn referenced_image(
    vm: &VirtualMachine,
    namespace: &str,
    image: &VMImage,
    refs: &References<'_>,
) -> (ImageSource, ImageReadiness) {
    let spec = &vm.spec;
    let image_namespace = image.metadata.namespace.as_deref().unwrap_or_default();
    let provider_namespace = spec.provider_ref.namespace_or(namespace);
    let provider = (provider_namespace, spec.provider_ref.name.as_str());
    // For people: the namespace goes without saying where it is the image's own.
    let key = if provider_namespace == image_namespace {
        provider.1.to_owned()
    } else {
        image::provider_key(provider.0, provider.1)
    };
    let status = image.status.as_ref();
    let on = status.and_then(|s| image::on_provider(s, image_namespace, provider));
    let name = image.metadata.name.as_deref().unwrap_or_default();
    let meant = image::spec_on(&image.spec, kind(refs));
    (
        ImageSource {
            reader: image::reader(&meant.source, image_namespace),
            ..image::source_for_create(&meant.source, on)
        },
        image::readiness(name, &meant, (&key, on), refs.capabilities, image::wish(vm)),
    )
}

fn disk(spec: &api::DiskSpec) -> DiskSpec {
    DiskSpec {
        name: spec.name.clone(),
        size_gib: u32::try_from(spec.size_gib).unwrap_or(1),
        disk_type: disk_type(spec.type_),
        expand_policy: match spec.expand_policy {
            api::ExpandPolicy::Online => ExpandPolicy::Online,
            api::ExpandPolicy::Offline => ExpandPolicy::Offline,
        },
        storage_class: spec.storage_class.clone().unwrap_or_default(),
        scsi: spec.scsi.as_ref().map(|s| ScsiSpec {
            controller: s.controller.unwrap_or(0),
            shared_bus: word(&s.shared_bus),
            controller_type: word(&s.controller_type),
        }),
    }
}

fn disk_type(kind: api::DiskType) -> DiskType {
    match word(&kind).as_str() {
        "thick" => DiskType::Thick,
        "eagerzeroedthick" => DiskType::EagerZeroedThick,
        "ssd" | "nvme" => DiskType::Ssd,
        "hdd" => DiskType::Hdd,
        _ => DiskType::Thin,
    }
}

/// The VM's own wishes over the Provider's defaults.
fn placement(spec: &VirtualMachineSpec, provider: Option<&Provider>) -> Option<Placement> {
    let own = spec.placement.clone().unwrap_or_default();
    let defaults = provider
        .and_then(|p| p.spec.defaults.clone())
        .unwrap_or_default();
    let pick = |a: Option<String>, b: Option<String>| a.or(b).unwrap_or_default();
    let placement = Placement {
        datastore: pick(own.datastore, defaults.datastore),
        storage_pod: pick(own.storage_pod, defaults.storage_pod),
        cluster: pick(own.cluster, defaults.cluster),
        folder: pick(own.folder, defaults.folder),
        host: own.host.unwrap_or_default(),
        resource_pool: pick(own.resource_pool, defaults.resource_pool),
        ..Placement::default()
    };
    (placement != Placement::default()).then_some(placement)
}
