//! Who is to be looked at when something changes.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Resource as _;
use polyvirt_api::infra::VirtualMachine;
use polyvirt_api::vitistack::{
    KubevirtConfig, Machine, MachineClass, NetworkConfiguration, NetworkNamespace,
};
use polyvirt_contract::VmId;
use polyvirt_engine::cluster::ClusterError;
use polyvirt_engine::runtime::dispatch::{Follower, Source};
use polyvirt_engine::runtime::key::{Key, Kind, ObjectKey};
use polyvirt_engine::runtime::queue::{Lane, Urgency};
use polyvirt_engine::runtime::store::Change;
use polyvirt_plan::Reason;

use super::Controller;
use crate::shared::wake::{changes_spec, is_edited, urgency};
use crate::vitistack::assign::{Assignment, assign};
use crate::vitistack::settings::IpSource;

impl Controller {
    pub(super) fn wake(&self, kind: Kind, key: &ObjectKey, urgency: Urgency) {
        let key = Key::new(kind, key.clone());
        self.line.wake_in(self.lane(&key), key, urgency);
    }

    /// A Machine for which clusters have to be asked waits for the slowest of them, and takes the time of its like alone.
    pub(super) fn lane(&self, key: &Key) -> Lane {
        let machine = (key.kind == Kind::Machine).then(|| self.stores.machines.get(&key.object));
        let default = self.settings.default_config.as_deref();
        let asks = |machine: &Machine| {
            let answer = assign(machine, default, &self.configs(), None);
            matches!(answer, Ok(Assignment::Search(_)))
        };
        if machine.flatten().is_some_and(|machine| asks(&machine)) {
            Lane::Search
        } else {
            Lane::Control
        }
    }

    fn wake_machines(&self, keys: Vec<ObjectKey>, source: Source) {
        for key in keys {
            self.wake(Kind::Machine, &key, urgency(source));
        }
    }

    pub(super) fn machine_changed(&self, change: &Change<Machine>, source: Source) {
        let key = match change {
            Change::Updated { old, new } if !is_edited(&**old, &**new) => return,
            Change::Added(any) | Change::Updated { new: any, .. } | Change::Removed(any) => {
                ObjectKey::of(&**any)
            }
        };
        self.wake(Kind::Machine, &key, urgency(source));
    }

    /// What waits for a way to a cluster may have one now, or two.
    pub(super) fn config_changed(&self, change: &Change<KubevirtConfig>, source: Source) {
        let key = match change {
            Change::Updated { old, new } if !is_edited(&**old, &**new) => return,
            Change::Updated { new, .. } => {
                let key = ObjectKey::of(&**new);
                return self.wake(Kind::KubevirtConfig, &key, urgency(source));
            }
            Change::Added(any) => ObjectKey::of(&**any),
            Change::Removed(any) => {
                let key = ObjectKey::of(&**any);
                self.wake_machines(self.stores.of_config(&key), source);
                key
            }
        };
        self.wake(Kind::KubevirtConfig, &key, urgency(source));
        if source != Source::FirstList {
            self.wake_unplaced(source);
        }
    }

    fn wake_unplaced(&self, source: Source) {
        let waits = |machine: &Machine| {
            let status = machine.status.as_ref();
            let why = status.and_then(|s| s.failure_reason.as_deref());
            why == Some(Reason::KubevirtConfigNotFound.as_str())
        };
        self.wake_machines(self.stores.machines_that(waits), source);
    }

    /// The interfaces of a Machine concern that Machine alone.
    pub(super) fn network_changed(&self, change: &Change<NetworkConfiguration>, source: Source) {
        let (Change::Added(any) | Change::Updated { new: any, .. } | Change::Removed(any)) = change;
        let key = ObjectKey::of(&**any);
        if source == Source::FirstList || !self.is_news(change) {
            return;
        }
        let owners = any.metadata.owner_references.iter().flatten();
        let mut owners = owners.filter(|o| o.kind == Machine::kind(&()));
        match owners.next() {
            Some(owner) => {
                let machine = ObjectKey::new(key.namespace(), &owner.name);
                self.wake(Kind::Machine, &machine, urgency(source));
            }
            None => self.wake_machines(self.stores.on_network(&key), source),
        }
    }

    /// Where addresses are read there, those who hand them out write into the status.
    fn is_news(&self, change: &Change<NetworkConfiguration>) -> bool {
        let told = |network: &NetworkConfiguration| network.status.clone();
        let read = self.settings.ip_source == IpSource::NetworkConfiguration;
        match change {
            Change::Updated { old, new } if read && told(old) != told(new) => true,
            change => changes_spec(change),
        }
    }

    /// Its status matters, too: there its VLAN stands.
    pub(super) fn space_changed(&self, change: &Change<NetworkNamespace>, source: Source) {
        let (Change::Added(any) | Change::Updated { new: any, .. } | Change::Removed(any)) = change;
        if source != Source::FirstList {
            let key = ObjectKey::of(&**any);
            self.wake_machines(self.stores.in_space(&key), source);
        }
    }

    pub(super) fn class_changed(&self, change: &Change<MachineClass>, source: Source) {
        let (Change::Added(any) | Change::Updated { new: any, .. } | Change::Removed(any)) = change;
        if source != Source::FirstList && changes_spec(change) {
            self.wake_machines(self.stores.of_class(any), source);
        }
    }
}

impl Follower for Controller {
    fn vm_changed(&self, vm: &ObjectKey) {
        if self.stores.machines.get(vm).is_some() {
            self.wake(Kind::Machine, vm, Urgency::Event);
        }
    }

    fn vm_leaves<'a>(
        &'a self,
        vm: &'a VirtualMachine,
        id: &'a VmId,
    ) -> BoxFuture<'a, Result<(), ClusterError>> {
        self.record_loss(vm, id).boxed()
    }

    /// Of one that was made of a KubevirtConfig, that is; or whose name one has.
    fn provider_changed(&self, provider: &ObjectKey) {
        let made = self.engine.stores.providers.get(provider);
        let made = made.is_some_and(|p| crate::vitistack::config::made_of(&p).is_some());
        if made || self.stores.configs.get(provider).is_some() {
            self.wake(Kind::KubevirtConfig, provider, Urgency::Event);
        }
    }
}
