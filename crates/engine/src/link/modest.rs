//! Bounds on what a provider can make us keep, log and show. It is not trusted beyond its own VMs: what it says ends in a status that
//! has a limit of its own, in events, in logs and in the memory of all.
//!
//! The one place for this: every answer and every message of every provider passes the guard, and the guard passes it through here.
//! - A VM, task or snapshot whose id is too long or not printable cannot be kept; an answer that consists of one is an error.
//! - Texts are cut, and control characters in them become spaces.
//! - Addresses that are none and console links that a browser or viewer must not open are dropped.

#[cfg(test)]
mod tests;
mod texts;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use polyvirt_contract::model::{
    Cloned, ConsoleSession, Created, DiskExported, DiskImported, DiskInfo, ExecOutput, Inventory,
    Landing, Luggage, MigrationProgress, MoveState, PreparedImage, Sending, SnapshotCreated,
    VmState, VmUsage,
};
use polyvirt_contract::provider::Result;
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{
    Capabilities, ErrorKind, Features, ImageId, ProviderError, SnapshotId, TaskId, VmId,
};

use texts::{FEW, MANY, NAME, TEXT, plain, plain_all, plain_map};

/// No hypervisor has longer ids. KubeVirt's are a namespace and a name, at most 317 bytes.
const LONGEST_ID: usize = 512;

/// Schemes of a console link that a browser or a viewer opens without running anything.
const CONSOLE_SCHEMES: [&str; 6] = ["http", "https", "vnc", "spice", "ws", "wss"];

/// So many complaints about one connection are logged: a provider that is wrong once is wrong with every VM.
const MOST_COMPLAINTS: u32 = 20;

/// Logs what was dropped.
#[derive(Clone, Debug)]
pub struct Complaints {
    provider: Arc<str>,
    told: Arc<AtomicU32>,
}

impl Complaints {
    /// About this provider.
    pub fn new(provider: &str) -> Self {
        Self {
            provider: provider.into(),
            told: Arc::default(),
        }
    }

    fn log(&self, what: &str, why: &str) {
        if self.told.fetch_add(1, Ordering::Relaxed) < MOST_COMPLAINTS {
            tracing::warn!(provider = %self.provider, dropped = what, "{why}");
        }
    }
}

/// What a provider answers.
pub trait Modest: Sized {
    /// The same within bounds; an error if nothing usable is left of it.
    fn modest(self, complaints: &Complaints) -> Result<Self>;
}

/// The error with a text that can be shown.
pub fn modest_error(mut error: ProviderError) -> ProviderError {
    plain(&mut error.message, TEXT);
    if let Some(field) = &mut error.field {
        plain(field, NAME);
    }
    error
}

/// Whether an id can be kept, logged and shown.
fn is_usable(id: &str) -> bool {
    id.len() <= LONGEST_ID && !id.chars().any(char::is_control)
}

/// `Err` for an id that cannot be kept. The kind is one that leaves nothing open: what has no name cannot be waited for.
fn usable(id: &str, what: &str) -> Result<()> {
    if is_usable(id) {
        return Ok(());
    }
    let text = format!(
        "The provider answered with an unusable {what} id ({} bytes; at most {LONGEST_ID} printable ones). Update the provider",
        id.len()
    );
    Err(ProviderError::new(ErrorKind::IdentityConflict, text))
}

fn usable_task(task: Option<&TaskId>) -> Result<()> {
    task.map_or(Ok(()), |task| usable(task.as_str(), "task"))
}

/// Answers without a text of the provider's.
macro_rules! as_it_is {
    ($($name:ty),+) => {
        $(impl Modest for $name {
            fn modest(self, _: &Complaints) -> Result<Self> {
                Ok(self)
            }
        })+
    };
}

// A guest's own output is handed to the caller as bytes, and bounded where it is read.
// The hosts of a fleet hand VMs over to each other; nothing of that is kept or shown here.
as_it_is!(
    (),
    ExecOutput,
    ConsoleSession,
    Luggage,
    Landing,
    Vec<MoveState>,
    BoxStream<'static, Result<Sending>>
);

impl Modest for Created {
    fn modest(self, _: &Complaints) -> Result<Self> {
        usable(self.id.as_str(), "VM")?;
        usable_task(self.task.as_ref())?;
        Ok(self)
    }
}

impl Modest for Cloned {
    fn modest(self, _: &Complaints) -> Result<Self> {
        usable(self.id.as_str(), "VM")?;
        usable_task(self.task.as_ref())?;
        Ok(self)
    }
}

impl Modest for SnapshotCreated {
    fn modest(self, _: &Complaints) -> Result<Self> {
        usable(self.id.as_str(), "snapshot")?;
        usable_task(self.task.as_ref())?;
        Ok(self)
    }
}

impl Modest for Option<TaskId> {
    fn modest(self, _: &Complaints) -> Result<Self> {
        usable_task(self.as_ref())?;
        Ok(self)
    }
}

impl Modest for PreparedImage {
    fn modest(mut self, _: &Complaints) -> Result<Self> {
        usable(ImageId::as_str(&self.id), "image")?;
        usable_task(self.task.as_ref())?;
        plain(&mut self.path, TEXT);
        Ok(self)
    }
}

impl Modest for TaskState {
    fn modest(self, _: &Complaints) -> Result<Self> {
        Ok(match self {
            Self::Failed(error) => Self::Failed(modest_error(error)),
            other => other,
        })
    }
}

/// A VM whose id cannot be kept is as good as absent: it can be neither asked for nor changed.
impl Modest for Option<VmState> {
    fn modest(self, complaints: &Complaints) -> Result<Self> {
        Ok(self.and_then(|vm| modest_vm(vm, complaints)))
    }
}

impl Modest for Vec<VmState> {
    fn modest(self, complaints: &Complaints) -> Result<Self> {
        let vms = self.into_iter();
        Ok(vms.filter_map(|vm| modest_vm(vm, complaints)).collect())
    }
}

impl Modest for Vec<VmUsage> {
    fn modest(mut self, _: &Complaints) -> Result<Self> {
        self.retain(|usage| is_usable(usage.id.as_str()));
        Ok(self)
    }
}

impl Modest for DiskExported {
    fn modest(mut self, _: &Complaints) -> Result<Self> {
        usable_task(self.task.as_ref())?;
        for text in [&mut self.id, &mut self.checksum] {
            plain(text, NAME);
        }
        Ok(self)
    }
}

impl Modest for DiskImported {
    fn modest(mut self, _: &Complaints) -> Result<Self> {
        usable_task(self.task.as_ref())?;
        for text in [&mut self.id, &mut self.path, &mut self.checksum] {
            plain(text, TEXT);
        }
        Ok(self)
    }
}

impl Modest for DiskInfo {
    fn modest(mut self, _: &Complaints) -> Result<Self> {
        let texts = [
            &mut self.id,
            &mut self.format,
            &mut self.path,
            &mut self.backing_file,
        ];
        for text in texts {
            plain(text, TEXT);
        }
        plain_all(&mut self.snapshots, MANY);
        plain_map(&mut self.metadata, FEW);
        Ok(self)
    }
}

impl Modest for MigrationProgress {
    fn modest(mut self, _: &Complaints) -> Result<Self> {
        for host in [&mut self.source_host, &mut self.target_host] {
            plain(host, NAME);
        }
        Ok(self)
    }
}

impl Modest for Features {
    fn modest(mut self, _: &Complaints) -> Result<Self> {
        for text in [&mut self.provider_type, &mut self.version] {
            plain(text, NAME);
        }
        if let Some(fields) = &mut self.honoured_fields {
            fields.retain(|field| field.len() <= NAME);
        }
        Ok(self)
    }
}

impl Modest for Capabilities {
    fn modest(mut self, _: &Complaints) -> Result<Self> {
        let lists = [
            &mut self.disk_types,
            &mut self.network_types,
            &mut self.export_formats,
            &mut self.import_formats,
            &mut self.export_backends,
            &mut self.import_backends,
            &mut self.transfer_modes,
        ];
        for list in lists {
            plain_all(list, FEW);
        }
        Ok(self)
    }
}

impl Modest for Inventory {
    fn modest(mut self, _: &Complaints) -> Result<Self> {
        for host in &mut self.hosts {
            plain(&mut host.name, NAME);
            plain(&mut host.zone, NAME);
            plain_map(&mut host.labels, MANY);
        }
        for store in &mut self.datastores {
            plain(&mut store.name, NAME);
            plain(&mut store.kind, NAME);
            plain_all(&mut store.hosts, usize::MAX);
        }
        for network in &mut self.networks {
            plain(&mut network.name, NAME);
            plain(&mut network.kind, NAME);
        }
        Ok(self)
    }
}

impl Modest for BoxStream<'static, Result<VmEvent>> {
    fn modest(self, complaints: &Complaints) -> Result<Self> {
        let complaints = complaints.clone();
        let modest = self.filter_map(move |event| {
            let event = match event {
                Ok(event) => modest_event(event, &complaints).map(Ok),
                Err(error) => Some(Err(modest_error(error))),
            };
            std::future::ready(event)
        });
        Ok(modest.boxed())
    }
}

fn modest_event(event: VmEvent, complaints: &Complaints) -> Option<VmEvent> {
    match event {
        VmEvent::State(vm) => modest_vm(vm, complaints).map(VmEvent::State),
        VmEvent::Gone { ref id, .. } if !is_usable(id.as_str()) => None,
        VmEvent::Task { ref id, .. } if !is_usable(id.as_str()) => None,
        VmEvent::Task { id, state } => {
            let state = state.modest(complaints).ok()?;
            Some(VmEvent::Task { id, state })
        }
        other => Some(other),
    }
}

/// The VM with no text longer and no list longer than any hypervisor has a use for. `None` if its id cannot be kept.
fn modest_vm(mut vm: VmState, complaints: &Complaints) -> Option<VmState> {
    if !is_usable(VmId::as_str(&vm.id)) {
        complaints.log("VM", "Ignored a VM whose id is too long or not printable");
        return None;
    }
    for name in [&mut vm.name, &mut vm.host] {
        plain(name, NAME);
    }
    plain(&mut vm.fault, TEXT);
    plain_all(&mut vm.restart_required, FEW);
    if let Some(owner) = &mut vm.owner {
        plain(&mut owner.namespace, NAME);
        plain(&mut owner.name, NAME);
    }
    modest_console(&mut vm, complaints);
    modest_addresses(&mut vm, complaints);
    modest_parts(&mut vm);
    plain_map(&mut vm.details, FEW);
    Some(vm)
}

fn modest_console(vm: &mut VmState, complaints: &Complaints) {
    plain(&mut vm.console_url, TEXT);
    let scheme = vm.console_url.split_once("://").map(|(scheme, _)| scheme);
    let known = |scheme: &str| {
        CONSOLE_SCHEMES
            .iter()
            .any(|k| k.eq_ignore_ascii_case(scheme))
    };
    if !vm.console_url.is_empty() && !scheme.is_some_and(known) {
        complaints.log(
            "console URL",
            "Ignored a console URL whose scheme is not allowed",
        );
        vm.console_url.clear();
    }
}

fn modest_addresses(vm: &mut VmState, complaints: &Complaints) {
    let before = vm.ips.len();
    vm.ips.truncate(FEW);
    vm.ips.retain(|ip| is_address(ip));
    for nic in vm.nics.iter_mut().flatten() {
        if !nic.ip.is_empty() && !is_address(&nic.ip) {
            nic.ip.clear();
            complaints.log(
                "address",
                "Ignored the address of a NIC that is no IP address",
            );
        }
    }
    if vm.ips.len() < before {
        complaints.log(
            "address",
            "Ignored guest addresses that are no IP addresses",
        );
    }
}

/// An address, perhaps with the interface that it is valid on (`fe80::1%eth0`) or its prefix (`10.0.0.1/24`).
fn is_address(text: &str) -> bool {
    let (address, rest) = text.split_at(text.find(['%', '/']).unwrap_or(text.len()));
    address.parse::<IpAddr>().is_ok() && rest.len() <= 32 && !rest.chars().any(char::is_control)
}

fn modest_parts(vm: &mut VmState) {
    vm.disks.iter_mut().for_each(|disks| disks.truncate(MANY));
    vm.nics.iter_mut().for_each(|nics| nics.truncate(MANY));
    for disk in vm.disks.iter_mut().flatten().chain(&mut vm.root) {
        for text in [
            &mut disk.id,
            &mut disk.name,
            &mut disk.path,
            &mut disk.format,
        ] {
            plain(text, TEXT);
        }
    }
    for nic in vm.nics.iter_mut().flatten() {
        for text in [&mut nic.name, &mut nic.mac] {
            plain(text, NAME);
        }
    }
    if let Some(snapshots) = &mut vm.snapshots {
        snapshots.retain(|snapshot| is_usable(SnapshotId::as_str(&snapshot.id)));
        snapshots.truncate(MANY);
    }
    for snapshot in vm.snapshots.iter_mut().flatten() {
        plain(&mut snapshot.name, NAME);
        plain(&mut snapshot.description, TEXT);
    }
}
