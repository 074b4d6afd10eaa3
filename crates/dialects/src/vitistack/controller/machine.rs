//! Machines: one pass over one of them.

use std::sync::Arc;

use polyvirt_api::infra::VirtualMachine;
use polyvirt_api::kubevirt::details;
use polyvirt_api::vitistack::{Machine, MachineStatus, NetworkConfiguration};
use polyvirt_engine::cluster::{About, ClusterError};
use polyvirt_engine::next::Next;
use polyvirt_engine::runtime::key::{Kind, ObjectKey};

use super::Controller;
use super::pass::{Found, Pass};
use crate::shared::wake::keep;
use crate::vitistack::lower::size_name;
use crate::vitistack::metrics::Counted;
use crate::vitistack::network_configuration::is_of;
use crate::vitistack::raise::{self, Facts, STORAGE_READY, Trouble, is_true};
use crate::vitistack::settings::IpSource;

impl Controller {
    /// Brings one Machine, what is made for it, and its status up to date.
    pub(super) async fn reconcile_machine(&self, key: &ObjectKey) -> Next {
        let Some(machine) = self.stores.machines.get(key) else {
            self.metrics.count(key, None);
            return Next::Idle;
        };
        let ends = machine.metadata.deletion_timestamp.is_some();
        let done = match (ends, machine.spec.is_for_kubevirt()) {
            (true, _) => self.take_down(key, &machine).await,
            (false, true) => self.bring_up(key, machine).await,
            (false, false) => Ok(Next::Idle),
        };
        done.unwrap_or_else(|error| {
            tracing::warn!(controller = "Machine", machine = key.name(), namespace = key.namespace(), %error, "cannot go on");
            Next::after_refusal(&error)
        })
    }

    async fn bring_up(&self, key: &ObjectKey, machine: Arc<Machine>) -> Result<Next, ClusterError> {
        let mut pass = Pass::new(self, key, machine);
        let mut found = Found::default();
        let trouble = pass.run(&mut found).await?;
        let machine = pass.machine;
        let vm = found.vm.as_deref();
        self.report(key, &machine, &found, vm, trouble.as_ref())
            .await?;
        Ok(self.look_again(trouble.as_ref()))
    }

    /// Most of what stands in the way wakes us when it goes. What lives elsewhere does not.
    fn look_again(&self, trouble: Option<&Trouble>) -> Next {
        use crate::vitistack::lower::LowerError;
        match trouble {
            Some(Trouble::Assign(error)) if error.may_pass() => Next::After(self.settings.resync),
            Some(Trouble::Lower(LowerError::Missing { .. })) => Next::After(self.settings.resync),
            _ => Next::Idle,
        }
    }

    /// Writes the status if there is news, and tells people.
    pub(super) async fn report(
        &self,
        key: &ObjectKey,
        machine: &Arc<Machine>,
        found: &Found,
        vm: Option<&VirtualMachine>,
        trouble: Option<&Trouble>,
    ) -> Result<(), ClusterError> {
        let old = machine.status.clone().unwrap_or_default();
        let handed_out = self.handed_out(key, machine);
        let new = raise::raise(&Facts {
            machine,
            config: found.config.as_ref(),
            config_name: found.config_name.as_deref(),
            lowered: found.lowered.as_ref(),
            vm,
            trouble,
            handed_out: handed_out.as_deref(),
            now: jiff::Timestamp::now(),
        });
        self.count(key, machine, &new, vm);
        self.count_errors(key, &new, trouble);
        if new == old {
            return Ok(());
        }
        let written: Machine = self.desk.status(key, &new).await?;
        keep(&self.stores.machines, machine, written);
        self.tell(key, machine, &old, &new);
        self.time_storage(found, &old, &new);
        Ok(())
    }

    /// The NetworkConfiguration of the Machine, if addresses are read there.
    fn handed_out(&self, key: &ObjectKey, machine: &Machine) -> Option<Arc<NetworkConfiguration>> {
        let network = self.stores.networks.get(key)?;
        let wanted = self.settings.ip_source == IpSource::NetworkConfiguration;
        (wanted && is_of(&network, machine)).then_some(network)
    }

    fn count(
        &self,
        key: &ObjectKey,
        machine: &Machine,
        status: &MachineStatus,
        vm: Option<&VirtualMachine>,
    ) {
        let there = vm.is_some_and(|vm| vm.status.as_ref().is_some_and(|s| s.id.is_some()));
        let counted = Counted {
            phase: status.phase.clone().unwrap_or_default(),
            template: size_name(&machine.spec).to_owned(),
            vm: status.state.clone().filter(|_| there),
        };
        self.metrics.count(key, Some(counted));
    }

    /// Each pass that found something wrong, and each network of the Machine that cannot be used, once.
    fn count_errors(&self, key: &ObjectKey, new: &MachineStatus, trouble: Option<&Trouble>) {
        if let Some(reason) = &new.failure_reason {
            self.metrics.error("Machine", reason);
        }
        let network = trouble.and_then(Trouble::network);
        self.metrics.network_error(key, network);
    }

    fn tell(
        &self,
        key: &ObjectKey,
        machine: &Arc<Machine>,
        old: &MachineStatus,
        new: &MachineStatus,
    ) {
        let Some(note) = raise::note(old, new) else {
            return;
        };
        let phase = new.phase.as_deref().unwrap_or_default();
        tracing::info!(
            controller = "Machine",
            machine = key.name(),
            namespace = key.namespace(),
            phase,
            "{}",
            note.message
        );
        self.desk.event(&About::of(Kind::Machine, &**machine), note);
    }

    /// From the making of the VirtualMachine to the moment at which its disks are known to be there.
    fn time_storage(&self, found: &Found, old: &MachineStatus, new: &MachineStatus) {
        if is_true(old, STORAGE_READY) || !is_true(new, STORAGE_READY) {
            return;
        }
        let made = found.vm.as_ref();
        let made = made.and_then(|vm| vm.metadata.creation_timestamp.clone());
        let disk = found.lowered.as_ref().and_then(|l| l.disks.first());
        let (Some(made), Some(disk)) = (made, disk) else {
            return;
        };
        let took = jiff::Timestamp::now().duration_since(made.0);
        let told = found.vm.as_ref().and_then(|vm| vm.status.as_ref());
        let told = told.and_then(|status| status.provider.get(details::ROOT_STORAGE_CLASS));
        let named = disk.storage_class.as_ref().or(told);
        let class = named.map_or("default", String::as_str);
        self.metrics
            .storage_ready(class, took.try_into().unwrap_or_default());
    }
}
