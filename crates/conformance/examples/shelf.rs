//! A whole provider: VMs are slips on a shelf. What a hypervisor would do stands in `Shelf`; all else is the contract.
//!
//! ```console
//! $ cargo run --package polyvirt-conformance --example shelf -- 127.0.0.1:9443
//! $ polyvirt conformance 127.0.0.1:9443
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use polyvirt_contract::grpc::{Listen, ServeOptions, serve};
use polyvirt_contract::model::{
    CreateVm, Created, PowerOp, PowerRequest, PowerState, VmRef, VmState,
};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{
    Capabilities, ErrorKind, Extension, Features, Identity, Provider, ProviderError, Result,
    TaskId, VmId,
};

/// All slips, and how many changes there were.
#[derive(Default)]
struct Slips {
    vms: BTreeMap<VmId, VmState>,
    changes: u64,
}

/// The hypervisor.
#[derive(Default)]
pub struct Shelf(Mutex<Slips>);

impl Shelf {
    fn slips(&self) -> MutexGuard<'_, Slips> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a VM that the caller may change. Whoever changes nothing makes no new revision.
    fn change(&self, vm: &VmRef, edit: impl FnOnce(&mut VmState)) -> Result<Option<TaskId>> {
        let mut slips = self.slips();
        let next = slips.changes + 1;
        let slip = slips.vms.get_mut(&vm.id).ok_or_else(|| missing(&vm.id))?;
        check_owner(slip, vm)?;
        let before = slip.clone();
        edit(slip);
        if *slip != before {
            slip.revision = next;
            slips.changes = next;
        }
        Ok(None)
    }
}

fn missing(vm: &VmId) -> ProviderError {
    ProviderError::not_found(format!("The VM {vm}"))
}

/// A VM that is somebody else's is never touched.
fn check_owner(slip: &VmState, vm: &VmRef) -> Result<()> {
    let theirs = slip.owner.as_ref().map(|o| &o.identity);
    let asked = vm.owner.as_ref().map(|o| &o.identity);
    if asked.is_none() || theirs == asked {
        return Ok(());
    }
    let text = format!("The VM {} belongs to another object", vm.id);
    Err(ProviderError::new(ErrorKind::IdentityConflict, text))
}

/// Brings a slip to what is desired.
fn write(slip: &mut VmState, desired: &CreateVm) {
    slip.cpu = desired.class.cpu;
    slip.memory_mib = desired.class.memory_mib;
}

/// What cannot be is refused with the field to change, before anything is done.
fn check_size(desired: &CreateVm) -> Result<()> {
    match (desired.class.cpu, desired.class.memory_mib) {
        (0, _) => Err(ProviderError::invalid("class.cpu", "A VM needs a CPU")),
        (_, 0) => Err(ProviderError::invalid("class.memory", "A VM needs memory")),
        _ => Ok(()),
    }
}

#[async_trait]
impl Provider for Shelf {
    async fn validate(&self) -> Result<()> {
        Ok(())
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        Ok(Capabilities {
            reconfigure_online: true,
            ..Capabilities::default()
        })
    }

    async fn features(&self) -> Result<Features> {
        Ok(Features {
            provider_type: "shelf".to_owned(),
            version: "1".to_owned(),
            extensions: [Extension::Identity].into(),
            honoured_fields: Some(["class.cpu", "class.memory"].map(str::to_owned).into()),
        })
    }

    /// Find or create: a request that is sent twice makes one VM.
    async fn create(&self, request: CreateVm) -> Result<Created> {
        check_size(&request)?;
        let mut slips = self.slips();
        let identity = request.owner.as_ref().map(|o| o.identity.clone());
        for slip in slips.vms.values() {
            let same =
                identity.is_some() && slip.owner.as_ref().map(|o| &o.identity) == identity.as_ref();
            if same {
                let id = slip.id.clone();
                return Ok(Created { id, task: None });
            }
            if slip.name == request.name {
                let text = format!("The name {} is taken by the VM {}", slip.name, slip.id);
                return Err(ProviderError::new(ErrorKind::NameConflict, text).at("metadata.name"));
            }
        }
        slips.changes += 1;
        let id = VmId::from(format!("slip-{}", slips.changes));
        let mut slip = VmState {
            id: id.clone(),
            name: request.name.clone(),
            owner: request.owner.clone(),
            revision: slips.changes,
            power: PowerState::Off,
            ..VmState::default()
        };
        write(&mut slip, &request);
        slips.vms.insert(id.clone(), slip);
        Ok(Created { id, task: None })
    }

    async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>> {
        self.change(vm, |_| ())?;
        self.slips().vms.remove(&vm.id);
        Ok(None)
    }

    async fn power(&self, vm: &VmRef, request: PowerRequest) -> Result<Option<TaskId>> {
        let power = match request.op {
            PowerOp::On | PowerOp::Reboot => PowerState::On,
            PowerOp::Off | PowerOp::ShutdownGraceful { .. } => PowerState::Off,
            PowerOp::Pause => return Err(ProviderError::unsupported("pauses")),
        };
        self.change(vm, |slip| {
            slip.power = power;
            // A request that must happen once is known again by this.
            slip.last_request = request.request.clone().or(slip.last_request.take());
        })
    }

    async fn reconfigure(&self, vm: &VmRef, desired: CreateVm) -> Result<Option<TaskId>> {
        check_size(&desired)?;
        self.change(vm, |slip| write(slip, &desired))
    }

    async fn describe(&self, vm: &VmId) -> Result<Option<VmState>> {
        Ok(self.slips().vms.get(vm).cloned())
    }

    async fn find(&self, identity: &Identity) -> Result<Option<VmState>> {
        let slips = self.slips();
        let mut all = slips.vms.values();
        let carries =
            |slip: &&VmState| slip.owner.as_ref().is_some_and(|o| o.identity == *identity);
        Ok(all.find(carries).cloned())
    }

    async fn list_vms(&self) -> Result<Vec<VmState>> {
        Ok(self.slips().vms.values().cloned().collect())
    }

    /// Everything here is done at once, so there are no tasks.
    async fn task_status(&self, task: &TaskId) -> Result<TaskState> {
        Err(ProviderError::not_found(format!("The task {task}")))
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let address: SocketAddr = std::env::args().nth(1).unwrap_or_default().parse()?;
    let stop = async { drop(tokio::signal::ctrl_c().await) };
    let options = ServeOptions::new(Listen::Address(address));
    serve(Arc::new(Shelf::default()), options, stop).await?;
    Ok(())
}
