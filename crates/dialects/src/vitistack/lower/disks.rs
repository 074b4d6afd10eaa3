//! The disks of a Machine: the template's and its own, by name.

use polyvirt_api::infra::DiskSpec;
use polyvirt_api::kubevirt::{DiskOption, KubevirtOptions};
use polyvirt_api::vitistack::{Machine, MachineDisk, MachineSpec};

use super::error::LowerError;
use super::size::{Size, binary_quantity, bytes};
use super::{Presence, Surroundings};
use crate::shared::names::label;
use crate::vitistack::settings::Settings;

const GIB: u64 = 1 << 30;
const ROOT: &str = "root";
const DEFAULT_SIZE: u64 = 10 * GIB;
/// The first, and as many as a VirtualMachine has beside it.
const MOST_DISKS: usize = 21;
/// The most that a VirtualMachine may ask for.
const LARGEST: u64 = 65_536 * GIB;

/// A disk of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoweredDisk {
    /// Its name in the VM.
    pub name: String,
    /// Its claim in the cluster.
    pub claim: String,
    /// Size in bytes.
    pub bytes: u64,
    /// How it is attached; `None` for virtio.
    pub bus: Option<String>,
    /// StorageClass, access mode and volume mode.
    pub storage_class: Option<String>,
    /// Who may use the claim.
    pub access_mode: Option<String>,
    /// What the claim holds.
    pub volume_mode: Option<String>,
    /// Both, for a disk of which neither the Machine nor the StorageProfile says it.
    pub unsaid: (Option<String>, Option<String>),
}

impl LoweredDisk {
    fn option(&self) -> DiskOption {
        DiskOption {
            name: None,
            claim: Some(self.claim.clone()),
            storage_class: self.storage_class.clone(),
            access_mode: self.access_mode.clone(),
            volume_mode: self.volume_mode.clone(),
            unsaid_access_mode: self.unsaid.0.clone(),
            unsaid_volume_mode: self.unsaid.1.clone(),
            bus: self.bus.clone(),
            size_bytes: (!self.bytes.is_multiple_of(GIB)).then_some(self.bytes),
        }
    }

    pub(super) fn as_root(&self) -> DiskOption {
        DiskOption {
            name: Some(self.name.clone()),
            // The first disk has no entry of its own in a VirtualMachine that would show that it is to grow.
            size_bytes: Some(self.bytes),
            ..self.option()
        }
    }

    pub(super) fn as_further(&self) -> (String, DiskOption) {
        (self.name.clone(), self.option())
    }

    pub(super) fn as_spec(&self) -> Result<DiskSpec, LowerError> {
        let size = i32::try_from(self.bytes.div_ceil(GIB));
        Ok(DiskSpec {
            name: self.name.clone(),
            size_gib: size.map_err(|_| too_large(&self.name, self.bytes))?,
            ..DiskSpec::default()
        })
    }
}

/// A disk that is not named yet.
struct Draft {
    field: String,
    place: usize,
    name: Option<String>,
    wish: MachineDisk,
    bytes: Option<u64>,
}

/// The disks, the one that the VM boots from first.
pub fn resolve(
    machine: &Machine,
    size: &Size,
    around: &Surroundings<'_>,
) -> Result<Vec<LoweredDisk>, LowerError> {
    let mut drafts = merged(&machine.spec, size, around)?;
    if drafts.len() > MOST_DISKS {
        let message = format!("A VM has {MOST_DISKS} disks at most");
        return Err(LowerError::invalid("spec.disks", message));
    }
    let boot = boot_disk(&mut drafts, around);
    drafts[..=boot].rotate_right(1);
    check_growth(&drafts, around)?;
    let naming = Naming::of(machine, around.before);
    let disks: Vec<_> = drafts
        .into_iter()
        .enumerate()
        .map(|(index, draft)| finish(&draft, Rank::at(index), &naming, around.settings))
        .collect::<Result<_, _>>()?;
    check_names(&disks)?;
    Ok(disks)
}

/// The template's disk, changed by the one of its name, and all others; at least one.
fn merged(
    spec: &MachineSpec,
    size: &Size,
    around: &Surroundings<'_>,
) -> Result<Vec<Draft>, LowerError> {
    let mut drafts = Vec::new();
    let there = around
        .root_bytes
        .filter(|_| boots_from(around) == Some(ROOT));
    // A smaller template makes the VM smaller, and no disk: nobody has asked for that.
    let root = size
        .root_disk
        .max(there.filter(|_| size.root_disk.is_some()));
    drafts.extend(root.map(|bytes| template_root(ROOT, Some(bytes))));
    for (place, wish) in spec.disks.iter().enumerate() {
        let draft = draft(place, wish)?;
        let same = |known: &&mut Draft| known.field.is_empty() && known.name == draft.name;
        match drafts.iter_mut().find(same) {
            Some(known) => {
                let bytes = draft.bytes.or(known.bytes);
                *known = Draft { bytes, ..draft };
            }
            None => drafts.push(draft),
        }
    }
    if drafts.is_empty() {
        drafts.push(template_root(ROOT, there));
    }
    Ok(drafts)
}

/// The disk that the VM boots from, as it was named before.
fn boots_from<'a>(around: &Surroundings<'a>) -> Option<&'a str> {
    around.before?.root_disk.as_ref()?.name.as_deref()
}

/// A disk of which the Machine itself says nothing.
fn template_root(name: &str, bytes: Option<u64>) -> Draft {
    Draft {
        field: String::new(),
        place: 0,
        name: Some(name.to_owned()),
        wish: MachineDisk::default(),
        bytes,
    }
}

fn draft(place: usize, wish: &MachineDisk) -> Result<Draft, LowerError> {
    let field = format!("spec.disks[{place}]");
    let exact = wish.size.as_ref();
    let exact = exact
        .map(|size| bytes(&format!("{field}.size"), size))
        .transpose()?;
    let gib = wish.size_gb.and_then(|gib| u64::try_from(gib).ok());
    let bytes = exact.or(gib.map(|gib| gib.saturating_mul(GIB)));
    let given = wish.name.as_deref().map(label);
    Ok(Draft {
        name: given.filter(|name| !name.is_empty()),
        wish: wish.clone(),
        place,
        bytes,
        field,
    })
}

/// The one that it booted from before, the one that says so, the one named root, the first. One that it booted from before and that
/// the Machine no longer has, because a template brought it, say, stays: nobody loses a system by an edit.
fn boot_disk(drafts: &mut Vec<Draft>, around: &Surroundings<'_>) -> usize {
    let before = boots_from(around);
    let named = |d: &Draft, name: Option<&str>| name.is_some() && d.name.as_deref() == name;
    let says_so = |d: &Draft| d.wish.boot == Some(true);
    let place = |fits: &dyn Fn(&Draft) -> bool| drafts.iter().position(fits);
    if let Some(place) = place(&|d| named(d, before)) {
        return place;
    }
    let usual = place(&says_so).or_else(|| place(&|d| named(d, Some(ROOT))));
    let usual = usual.unwrap_or(0);
    let unnamed = drafts.get(usual).is_some_and(|draft| draft.name.is_none());
    match before {
        Some(name) if !(unnamed && name == ROOT) => {
            drafts.insert(0, template_root(name, around.root_bytes));
            0
        }
        _ => usual,
    }
}

/// The engine would refuse a disk that shrinks, by the name of a field that a Machine does not have.
fn check_growth(drafts: &[Draft], around: &Surroundings<'_>) -> Result<(), LowerError> {
    let there = around
        .root_bytes
        .filter(|_| around.presence == Presence::There);
    let (Some(there), Some(draft)) = (there, drafts.first()) else {
        return Ok(());
    };
    let Some(wanted) = draft.bytes.filter(|wanted| *wanted < there) else {
        return Ok(());
    };
    let message = format!(
        "A disk cannot shrink, and this one has {}, not {}. Write {0} or more; or give the Machine another disk",
        binary_quantity(there),
        binary_quantity(wanted)
    );
    Err(LowerError::invalid(
        format!("{}.size", draft.field),
        message,
    ))
}

/// Whether the VM boots from a disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rank {
    Boot,
    Further,
}

impl Rank {
    const fn at(index: usize) -> Self {
        match index {
            0 => Self::Boot,
            _ => Self::Further,
        }
    }
}

/// How claims are called.
struct Naming<'a> {
    machine: &'a str,
    form: Form,
    before: Option<&'a KubevirtOptions>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Machine and disk, for every disk.
    Template,
    /// The machine's name alone for the disk that it boots from.
    Class,
}

impl<'a> Naming<'a> {
    fn of(machine: &'a Machine, before: Option<&'a KubevirtOptions>) -> Self {
        Self {
            machine: machine.metadata.name.as_deref().unwrap_or_default(),
            form: form(&machine.spec),
            before,
        }
    }

    /// A disk that was there before keeps its claim, whatever the Machine looks like now.
    fn claim(&self, name: &str, draft: &Draft, rank: Rank) -> String {
        let root = self.before.and_then(|b| b.root_disk.as_ref());
        let root = root.filter(|disk| disk.name.as_deref() == Some(name));
        let known = root.or_else(|| self.before?.disks.get(name));
        if let Some(claim) = known.and_then(|disk| disk.claim.clone()) {
            return claim;
        }
        match (self.form, rank, &draft.name) {
            (Form::Class, Rank::Boot, _) => self.machine.to_owned(),
            (Form::Class, Rank::Further, None) => format!("{}-disk{}", self.machine, draft.place),
            _ => format!("{}-{name}", self.machine),
        }
    }
}

fn form(spec: &MachineSpec) -> Form {
    let sized = |disk: &MachineDisk| {
        disk.size.is_some() || disk.storage_class.is_some() || disk.access_mode.is_some()
    };
    let by_template = spec.template.is_some()
        || spec.instance_type.is_some()
        || spec.resources.is_some()
        || !spec.networks.is_empty()
        || spec.disks.iter().any(sized);
    if by_template && spec.machine_class.is_none() {
        Form::Template
    } else {
        Form::Class
    }
}

fn finish(
    draft: &Draft,
    rank: Rank,
    naming: &Naming<'_>,
    settings: &Settings,
) -> Result<LoweredDisk, LowerError> {
    let unnamed = || match rank {
        Rank::Boot => ROOT.to_owned(),
        Rank::Further => format!("disk{}", draft.place),
    };
    let name = draft.name.clone().unwrap_or_else(unnamed);
    let bytes = draft.bytes.unwrap_or(DEFAULT_SIZE);
    if bytes == 0 || bytes > LARGEST {
        return Err(too_large(&name, bytes));
    }
    let wish = &draft.wish;
    let access = wish.access_mode.map(|mode| mode.as_str().to_owned());
    let volume = wish.volume_mode.map(|mode| mode.as_str().to_owned());
    let class = wish.storage_class.clone().filter(|c| !c.is_empty());
    Ok(LoweredDisk {
        claim: naming.claim(&name, draft, rank),
        name,
        bytes,
        bus: bus(wish.type_.as_deref()),
        storage_class: class.or_else(|| settings.storage_class.clone()),
        unsaid: (
            settings.access_mode.clone().filter(|_| access.is_none()),
            settings.volume_mode.clone().filter(|_| volume.is_none()),
        ),
        access_mode: access,
        volume_mode: volume,
    })
}

fn too_large(name: &str, bytes: u64) -> LowerError {
    let message = format!(
        "Disk {name} would have {}. Write a size from 1 byte to 64Ti, such as 20Gi",
        binary_quantity(bytes)
    );
    LowerError::invalid("spec.disks", message)
}

/// NVMe is what people write for "fast"; KubeVirt has virtio for it.
fn bus(word: Option<&str>) -> Option<String> {
    match word {
        Some(word @ ("sata" | "scsi" | "usb")) => Some(word.to_owned()),
        _ => None,
    }
}

fn check_names(disks: &[LoweredDisk]) -> Result<(), LowerError> {
    for (index, disk) in disks.iter().enumerate() {
        let earlier = &disks[..index];
        if earlier.iter().any(|other| other.name == disk.name) {
            let message = format!("Two disks are named {}. Give each its own name", disk.name);
            return Err(LowerError::invalid("spec.disks", message));
        }
        if earlier.iter().any(|other| other.claim == disk.claim) {
            let message = format!("Two disks would share the claim {}", disk.claim);
            return Err(LowerError::invalid("spec.disks", message));
        }
        if disk.name.len() > 63 {
            let message = "A disk has a name of 63 characters at most";
            return Err(LowerError::invalid("spec.disks", message));
        }
    }
    Ok(())
}
