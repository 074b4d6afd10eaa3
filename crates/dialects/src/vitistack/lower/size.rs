//! CPU and memory of a Machine, field by field: its own, then those of the class or template, then 2 CPUs and 2 GiB.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use polyvirt_api::kubevirt::Device;
use polyvirt_api::vitistack::{MachineClass, MachineClassSpec, MachineSpec};
use polyvirt_plan::quantity;

use super::error::LowerError;
pub(super) use crate::shared::size::binary_quantity;

const GIB: u64 = 1 << 30;
/// The least that a VirtualMachine may have.
const LEAST_MEMORY: u64 = 1 << 20;
/// The most that a VirtualMachine may have.
const MOST_CPUS: u64 = 128;

/// CPU and memory, and the system disk that comes with a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// Sockets.
    pub sockets: u32,
    /// Cores of a socket.
    pub cores: u32,
    /// Threads of a core.
    pub threads: u32,
    /// Memory in bytes.
    pub memory: u64,
    /// Size in bytes of the disk named root.
    pub root_disk: Option<u64>,
    /// GPUs.
    pub gpus: Vec<Device>,
    /// GPUs of the class that no node offers by that name.
    pub unnamed_gpu: bool,
}

impl Size {
    /// All CPUs that the guest sees.
    pub fn cpus(&self) -> u64 {
        u64::from(self.sockets) * u64::from(self.cores) * u64::from(self.threads)
    }

    const fn of(cores: u32, memory_gib: u64, root_gib: Option<u64>) -> Self {
        Self {
            sockets: 1,
            cores,
            threads: 1,
            memory: memory_gib * GIB,
            root_disk: match root_gib {
                Some(gib) => Some(gib * GIB),
                None => None,
            },
            gpus: Vec::new(),
            unnamed_gpu: false,
        }
    }
}

/// The templates that everybody has.
pub const TEMPLATES: [(&str, Size); 3] = [
    ("small", Size::of(1, 2, Some(20))),
    ("medium", Size::of(2, 4, Some(40))),
    ("large", Size::of(4, 8, Some(80))),
];

/// The size of a Machine for which nobody says anything.
const FALLBACK: Size = Size::of(2, 2, None);

fn template(name: &str) -> Option<Size> {
    let found = TEMPLATES.into_iter().find(|(own, _)| *own == name);
    found.map(|(_, size)| size)
}

/// What a Machine calls its size; empty if it has no name.
pub fn size_name(spec: &MachineSpec) -> &str {
    let names = [&spec.machine_class, &spec.instance_type, &spec.template];
    let mut given = names.into_iter().flatten().filter(|name| !name.is_empty());
    given.next().map_or("", String::as_str)
}

/// The size of a Machine.
pub fn resolve(spec: &MachineSpec, classes: &[Arc<MachineClass>]) -> Result<Size, LowerError> {
    let (base, limits) = base(spec, classes)?;
    let mut size = with_cpu(spec, base);
    if let Some((field, memory)) = own_memory(spec)? {
        check_limits(field, memory, limits)?;
        size.memory = memory;
    }
    check(&size)?;
    Ok(size)
}

type Found<'a> = (Size, Option<&'a MachineClassSpec>);

fn base<'a>(spec: &MachineSpec, classes: &'a [Arc<MachineClass>]) -> Result<Found<'a>, LowerError> {
    let given = |name: &Option<String>| name.clone().filter(|n| !n.is_empty());
    if let Some(name) = given(&spec.machine_class) {
        return by_class(&name, classes);
    }
    if let Some(name) = given(&spec.instance_type) {
        return by_template("spec.instanceType", name, classes);
    }
    if let Some(name) = given(&spec.template) {
        return by_template("spec.template", name, classes);
    }
    let usable = |class: &&&Arc<MachineClass>| class.spec.default && refusal(&class.spec).is_none();
    let mut defaults: Vec<_> = classes.iter().filter(|c| usable(&c)).collect();
    defaults.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    defaults.first().map_or(Ok((FALLBACK, None)), |class| {
        from_class("MachineClass default", &class.spec)
    })
}

fn by_class<'a>(name: &str, classes: &'a [Arc<MachineClass>]) -> Result<Found<'a>, LowerError> {
    let field = "spec.machineClass";
    let Some(class) = find(name, classes) else {
        let message = format!("There is no MachineClass {name}. Create it, or correct the name");
        return Err(LowerError::MachineClass { field, message });
    };
    usable(field, name, class)
}

/// A class goes before a template of the same name; the system disk is the template's all the same.
fn by_template<'a>(
    field: &'static str,
    name: String,
    classes: &'a [Arc<MachineClass>],
) -> Result<Found<'a>, LowerError> {
    let own = template(&name);
    if let Some(class) = find(&name, classes) {
        let (mut size, limits) = usable(field, &name, class)?;
        size.root_disk = own.and_then(|t| t.root_disk);
        return Ok((size, limits));
    }
    let missing = LowerError::TemplateNotFound { field, name };
    own.map(|size| (size, None)).ok_or(missing)
}

fn find<'a>(name: &str, classes: &'a [Arc<MachineClass>]) -> Option<&'a MachineClassSpec> {
    let named = |class: &&Arc<MachineClass>| class.metadata.name.as_deref() == Some(name);
    classes.iter().find(named).map(|class| &class.spec)
}

fn usable<'a>(
    field: &'static str,
    name: &str,
    class: &'a MachineClassSpec,
) -> Result<Found<'a>, LowerError> {
    if let Some(why) = refusal(class) {
        let message = format!("MachineClass {name} {why}");
        return Err(LowerError::MachineClass { field, message });
    }
    from_class(field, class)
}

fn refusal(class: &MachineClassSpec) -> Option<&'static str> {
    let ours = |provider: &String| provider.is_empty() || provider.contains("kubevirt");
    let offered = class.machine_providers.is_empty() || class.machine_providers.iter().any(ours);
    match (class.enabled, offered) {
        (false, _) => Some("is not enabled. Set its spec.enabled, or choose another one"),
        (true, false) => Some("is not for kubevirt. Choose one whose machineProviders has it"),
        (true, true) => None,
    }
}

fn from_class<'a>(
    field: &'static str,
    class: &'a MachineClassSpec,
) -> Result<Found<'a>, LowerError> {
    let number = |n: Option<i64>| n.and_then(|n| u32::try_from(n).ok()).unwrap_or(1).max(1);
    let (gpus, unnamed_gpu) = gpus(class);
    let size = Size {
        sockets: number(class.cpu.sockets),
        cores: number(Some(class.cpu.cores)),
        threads: number(class.cpu.threads),
        memory: bytes(field, &class.memory.quantity)?,
        root_disk: None,
        gpus,
        unnamed_gpu,
    };
    Ok((size, Some(class)))
}

/// A device plugin offers GPUs as vendor/device.
fn gpus(class: &MachineClassSpec) -> (Vec<Device>, bool) {
    let Some(gpu) = class.gpu.as_ref().filter(|gpu| gpu.cores > 0) else {
        return (Vec::new(), false);
    };
    let device = gpu.manufacturer.clone().unwrap_or_default();
    if !device.contains('/') {
        return (Vec::new(), true);
    }
    let one = |number: i64| Device {
        name: format!("gpu{number}"),
        device_name: device.clone(),
    };
    ((0..gpu.cores.min(16)).map(one).collect(), false)
}

/// `resources.cpu` before `cpu` before the class.
fn with_cpu(spec: &MachineSpec, mut size: Size) -> Size {
    let first = spec.resources.as_ref().and_then(|r| r.cpu.clone());
    let (first, second) = (
        first.unwrap_or_default(),
        spec.cpu.clone().unwrap_or_default(),
    );
    let pick = |a: Option<i32>, b: Option<i32>, class: u32| {
        let given = a.or(b).and_then(|n| u32::try_from(n).ok());
        given.filter(|n| *n > 0).unwrap_or(class)
    };
    size.cores = pick(first.cores, second.cores, size.cores);
    size.sockets = pick(first.sockets, second.sockets, size.sockets);
    size.threads = pick(first.threads, second.threads_per_core, size.threads);
    size
}

fn own_memory(spec: &MachineSpec) -> Result<Option<(&'static str, u64)>, LowerError> {
    let resources = spec.resources.as_ref().and_then(|r| r.memory.as_ref());
    if let Some(size) = resources.and_then(|m| m.size.as_ref()) {
        let field = "spec.resources.memory.size";
        return Ok(Some((field, bytes(field, size)?)));
    }
    let given = spec.memory.and_then(|m| u64::try_from(m).ok());
    Ok(given.filter(|m| *m > 0).map(|m| ("spec.memory", m)))
}

fn check_limits(
    field: &'static str,
    memory: u64,
    class: Option<&MachineClassSpec>,
) -> Result<(), LowerError> {
    let Some(limits) = class.map(|class| &class.memory) else {
        return Ok(());
    };
    let limit = |q: &Option<Quantity>| q.as_ref().map(|q| bytes(field, q)).transpose();
    let (least, most) = (limit(&limits.min_quantity)?, limit(&limits.max_quantity)?);
    let text = binary_quantity;
    let message = match (least, most) {
        (Some(least), _) if memory < least => format!("The class allows {} or more", text(least)),
        (_, Some(most)) if memory > most => format!("The class allows {} or less", text(most)),
        _ => return Ok(()),
    };
    Err(LowerError::MachineClass { field, message })
}

fn check(size: &Size) -> Result<(), LowerError> {
    if size.cpus() > MOST_CPUS {
        let message = format!(
            "This makes {} CPUs, and a VM has {MOST_CPUS} at most",
            size.cpus()
        );
        return Err(LowerError::invalid("spec.resources.cpu", message));
    }
    if size.memory < LEAST_MEMORY {
        let message = "A VM has 1Mi of memory at least. Write the unit, such as 4Gi";
        return Err(LowerError::invalid("spec.resources.memory.size", message));
    }
    Ok(())
}

pub(super) fn bytes(field: &str, size: &Quantity) -> Result<u64, LowerError> {
    quantity::bytes_ceil(size).map_err(|error| LowerError::invalid(field, error.to_string()))
}
