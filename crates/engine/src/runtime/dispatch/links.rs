//! What providers tell, and whom it wakes.

use polyvirt_api::infra::VirtualMachine;
use polyvirt_contract::VmId;
use polyvirt_plan::conditions::{is_true, kind};

use super::Dispatcher;
use crate::link::session::Listener;
use crate::link::{Concerns, Link, Standing};
use crate::runtime::key::{Kind, ObjectKey};
use crate::runtime::queue::Urgency;
use crate::runtime::vm_index::Target;

impl Listener for Dispatcher {
    fn standing(&self, link: &Link) {
        self.wake(Kind::Provider, &link.key, Urgency::Event);
        self.wake_snapshots_on(&link.key);
        self.wake_moves();
        match link.view().standing {
            Standing::Connected { .. } => self.provider_answers(link),
            Standing::Unavailable { .. } => self.provider_is_silent(link),
            Standing::Connecting => {}
        }
    }

    fn concerns(&self, link: &Link, concerns: Vec<Concerns>) {
        for concern in concerns {
            match concern {
                Concerns::Everyone => {
                    self.wake_users(&Target::Provider(link.key.clone()), Urgency::Background);
                    self.wake_snapshots_on(&link.key);
                    self.wake_moves();
                    self.wake_later(Kind::Provider, &link.key);
                }
                Concerns::Object(key) => {
                    self.wake_vm(&key, Urgency::Event);
                    if self.stores.images.get(&key).is_some() {
                        self.wake(Kind::VMImage, &key, Urgency::Event);
                    }
                    if self.stores.snapshots.get(&key).is_some() {
                        self.wake_snapshot(&key, Urgency::Event);
                    }
                    if self.stores.migrations.get(&key).is_some() {
                        self.wake_move(&key, Urgency::Event);
                    }
                }
                Concerns::Vm(id, identity) => {
                    self.wake_users(&Target::Vm(link.key.clone(), id), Urgency::Event);
                    if let Some(identity) = identity {
                        self.wake_owners(link, &Target::Identity(identity));
                    }
                }
            }
        }
    }

    fn known(&self, link: &Link) -> Vec<VmId> {
        let users = self.stores.index.users(&Target::Provider(link.key.clone()));
        let vms = users.iter().filter_map(|key| self.stores.vms.get(key));
        vms.filter_map(|vm| VmId::non_empty(vm.status.as_ref()?.id.clone()?))
            .collect()
    }
}

impl Dispatcher {
    /// VMs that wait for something say what for. Those that are as declared stay as they are: that their provider does not
    /// answer is told once, by the Provider, and not by a write for each of its VMs.
    fn provider_is_silent(&self, link: &Link) {
        for key in self.stores.index.users(&Target::Provider(link.key.clone())) {
            if self.stores.vms.get(&key).is_some_and(|vm| !is_settled(&vm)) {
                self.wake_vm(&key, Urgency::Background);
            }
        }
        self.wake_networks_near(link);
    }

    /// The networks of the provider's namespace say whether its VMs can be connected.
    fn wake_networks_near(&self, link: &Link) {
        let keys = self.stores.networks.keys().into_iter();
        for key in keys.filter(|key| key.namespace() == link.key.namespace()) {
            self.wake_later(Kind::VMNetworkAttachment, &key);
        }
    }

    /// What waited for the provider goes on: its images now, its VMs when they have all been told; and the classes and
    /// networks of its namespace can say what it makes of them.
    fn provider_answers(&self, link: &Link) {
        for key in self.stores.images.keys() {
            self.wake(Kind::VMImage, &key, Urgency::Event);
        }
        let near = |key: &ObjectKey| key.namespace() == link.key.namespace();
        for key in self.stores.classes.keys().into_iter().filter(near) {
            self.wake_later(Kind::VMClass, &key);
        }
        self.wake_networks_near(link);
    }
}

/// Whether the VM was as declared when it was last looked at, and nothing was declared since.
fn is_settled(vm: &VirtualMachine) -> bool {
    let Some(status) = &vm.status else {
        return false;
    };
    vm.metadata.deletion_timestamp.is_none()
        && status.observed_generation == vm.metadata.generation
        && is_true(&status.conditions, kind::READY)
}
