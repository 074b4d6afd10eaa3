//! The caches of this dialect.

use std::sync::Arc;

use polyvirt_api::vitistack::{
    KubevirtConfig, Machine, MachineClass, NetworkConfiguration, NetworkNamespace,
};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::runtime::store::Store;

use crate::vitistack::lower::size_name;

/// The caches of this dialect.
#[derive(Default)]
pub struct Stores {
    /// Machines.
    pub machines: Store<Machine>,
    /// Ways to clusters.
    pub configs: Store<KubevirtConfig>,
    /// Networks, and the interfaces of Machines.
    pub networks: Store<NetworkConfiguration>,
    /// Networks of groups.
    pub spaces: Store<NetworkNamespace>,
    /// Sizes.
    pub classes: Store<MachineClass>,
}

impl Stores {
    /// Machines of which something is true. For rare changes of what many share.
    pub fn machines_that(&self, fits: impl Fn(&Machine) -> bool) -> Vec<ObjectKey> {
        let all = self.machines.list();
        let fitting = all.iter().filter(|machine| fits(machine));
        fitting.map(|machine| ObjectKey::of(&**machine)).collect()
    }

    /// Machines of that size, or of the default one.
    pub fn of_class(&self, class: &MachineClass) -> Vec<ObjectKey> {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        self.machines_that(|machine| ["", name].contains(&size_name(&machine.spec)))
    }

    /// Machines that belong to that KubevirtConfig.
    pub fn of_config(&self, config: &ObjectKey) -> Vec<ObjectKey> {
        let names = [config.name().to_owned(), config.to_string()];
        self.machines_that(|machine| {
            let status = machine.status.as_ref();
            let told = status.and_then(|s| s.kubevirt_config_ref.as_ref());
            told.is_some_and(|name| names.contains(name))
        })
    }

    /// Machines that name that NetworkConfiguration.
    pub fn on_network(&self, network: &ObjectKey) -> Vec<ObjectKey> {
        self.machines_that(|machine| {
            let near = machine.metadata.namespace.as_deref() == Some(network.namespace());
            let mut names = machine.spec.networks.iter().map(|n| &n.network_name);
            near && names.any(|name| name.as_deref() == Some(network.name()))
        })
    }

    /// Machines that name that NetworkNamespace.
    pub fn in_space(&self, space: &ObjectKey) -> Vec<ObjectKey> {
        self.machines_that(|machine| {
            let near = machine.metadata.namespace.as_deref() == Some(space.namespace());
            let named = machine.spec.network.as_ref();
            let named = named.and_then(|n| n.network_namespace_name.as_deref());
            near && named == Some(space.name())
        })
    }

    /// Whether an interface of somebody else has that hardware address.
    pub fn has_mac(&self, mac: &str, but: &ObjectKey) -> bool {
        let all = self.networks.list();
        let mut others = all.iter().filter(|n| ObjectKey::of(&***n) != *but);
        others.any(|network| {
            let mut each = network.spec.network_interfaces.iter();
            each.any(|i| {
                let own = i.mac_address.as_deref();
                own.is_some_and(|own| own.eq_ignore_ascii_case(mac))
            })
        })
    }

    /// All classes.
    pub fn all_classes(&self) -> Vec<Arc<MachineClass>> {
        self.classes.list()
    }
}
