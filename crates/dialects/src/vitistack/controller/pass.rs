//! From a Machine to what is made for it, one write after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use polyvirt_api::infra::VirtualMachine;
use polyvirt_api::kubevirt::KubevirtOptions;
use polyvirt_api::vitistack::{
    KUBEVIRT_CONFIG_ANNOTATION, MACHINE_FINALIZER, Machine, NetworkConfiguration,
};
use polyvirt_engine::cluster::{About, ClusterError};
use polyvirt_engine::runtime::key::{Kind, ObjectKey};
use polyvirt_engine::runtime::trim;
use polyvirt_engine::runtime::vm_index::provider_of;
use polyvirt_plan::{Note, Reason, quantity};
use serde_json::json;

use super::Controller;
use super::media::Size;
use crate::shared::desk::Claim;
use crate::shared::made;
use crate::vitistack::assign::{AssignError, Assignment, Chosen, Sighting, assign};
use crate::vitistack::lower::{
    ConfigMaps, Lowered, Presence, Surroundings, config_maps, is_owned, lower, medium,
};
use crate::vitistack::network_configuration::{desired, is_of, known_macs, says_the_same};
use crate::vitistack::raise::Trouble;

/// What a pass has found out.
#[derive(Default)]
pub(super) struct Found {
    /// The KubevirtConfig that the Machine belongs to.
    pub config: Option<ObjectKey>,
    /// How the Machine calls it.
    pub config_name: Option<String>,
    /// What the Machine becomes.
    pub lowered: Option<Lowered>,
    /// The VirtualMachine that is there.
    pub vm: Option<Arc<VirtualMachine>>,
}

/// One pass over one Machine.
pub(super) struct Pass<'a> {
    pub(super) controller: &'a Controller,
    pub(super) key: &'a ObjectKey,
    /// The Machine, as it was written last.
    pub machine: Arc<Machine>,
}

impl<'a> Pass<'a> {
    pub fn new(controller: &'a Controller, key: &'a ObjectKey, machine: Arc<Machine>) -> Self {
        Self {
            controller,
            key,
            machine,
        }
    }

    /// Goes as far as it gets. `Some` if something other than Kubernetes stands in the way.
    pub async fn run(&mut self, found: &mut Found) -> Result<Option<Trouble>, ClusterError> {
        match self.steps(found).await {
            Ok(()) | Err(Stop::Later) => Ok(None),
            Err(Stop::Trouble(trouble)) => Ok(Some(trouble)),
            Err(Stop::Cluster(error)) => Err(error),
        }
    }

    async fn steps(&mut self, found: &mut Found) -> Result<(), Stop> {
        found.vm = self.virtual_machine().await?;
        self.is_not_lost(found.vm.as_deref())?;
        let (config, chosen) = self.place().await?;
        self.stays(&config, found.vm.as_deref()).await?;
        let name = self.name_of(&config);
        (found.config, found.config_name) = (Some(config.clone()), Some(name.clone()));
        let lowered = self.lower(&config, found.vm.as_deref()).await?;
        let lowered = found.lowered.insert(lowered);
        self.mark(&name, chosen).await?;
        self.keep_network(lowered).await?;
        found.vm = Some(self.keep_vm(lowered, found.vm.take()).await?);
        Ok(self.close_request().await?)
    }

    /// The VirtualMachine of the Machine's name, if it is the Machine's.
    async fn virtual_machine(&self) -> Result<Option<Arc<VirtualMachine>>, Stop> {
        let controller = self.controller;
        let found = made::find(&controller.engine.stores, &controller.desk, self.key).await?;
        match found {
            Some(vm) if !is_owned(&*vm, &*self.machine) => {
                Err(Trouble::NameConflict(self.key.name().to_owned()).into())
            }
            other => Ok(other),
        }
    }

    async fn place(&self) -> Result<(ObjectKey, Chosen), Stop> {
        let controller = self.controller;
        let default = controller.settings.default_config.as_deref();
        let configs = self.controller.configs();
        let question = |seen: Option<&[_]>| assign(&self.machine, default, &configs, seen);
        let mut answer = question(None).map_err(Trouble::from)?;
        if let Assignment::Search(whom) = &answer {
            let seen = controller.search(self.key, whom).await;
            answer = question(Some(&seen)).map_err(Trouble::from)?;
        }
        match answer {
            Assignment::Use(config, chosen) => Ok((config, chosen)),
            Assignment::Search(_) => {
                let name = self.key.name().to_owned();
                let error = AssignError::Undecided(name, configs.len());
                Err(Trouble::from(error).into())
            }
        }
    }

    /// A VM does not move because somebody writes another name. One that was never made may go elsewhere, once its cluster has said
    /// that it does not have it.
    async fn stays(&self, config: &ObjectKey, vm: Option<&VirtualMachine>) -> Result<(), Stop> {
        let Some(vm) = vm else { return Ok(()) };
        let here = provider_of(vm);
        if here == *config || self.was_never_made(vm, &here).await {
            return Ok(());
        }
        let error = AssignError::Elsewhere {
            machine: self.key.name().to_owned(),
            here: self.name_of(&here),
            wanted: self.name_of(config),
        };
        Err(Trouble::from(error).into())
    }

    async fn was_never_made(&self, vm: &VirtualMachine, cluster: &ObjectKey) -> bool {
        if vm.status.as_ref().is_some_and(|status| status.id.is_some()) {
            return false;
        }
        let asked = [cluster.clone()];
        let seen = self.controller.search(self.key, &asked).await;
        seen.iter()
            .all(|(_, sighting)| *sighting == Sighting::Absent)
    }

    /// Its name says it all, unless two have it.
    fn name_of(&self, config: &ObjectKey) -> String {
        let configs = self.controller.configs();
        let same = configs.iter().filter(|key| key.name() == config.name());
        if same.count() > 1 {
            config.to_string()
        } else {
            config.name().to_owned()
        }
    }

    async fn lower(
        &self,
        config: &ObjectKey,
        vm: Option<&VirtualMachine>,
    ) -> Result<Lowered, Stop> {
        let stores = &self.controller.stores;
        let maps = self.config_maps().await?;
        let before = vm.and_then(options_of);
        let own = stores.networks.get(self.key);
        let own = own.filter(|network| is_of(network, &self.machine));
        let space = self.network_namespace();
        let around = Surroundings {
            settings: &self.controller.settings,
            classes: &stores.all_classes(),
            networks: &self.networks(),
            network_namespace: space.as_deref(),
            known_macs: &macs_of(vm, own.as_deref()),
            is_taken: &|mac| stores.has_mac(mac, self.key),
            config_maps: &maps,
            config,
            cluster: self.controller.cluster.get().and_then(|c| c.as_deref()),
            before: before.as_ref(),
            root_bytes: vm.and_then(root_bytes),
            presence: presence(vm),
            medium: self.medium(before.as_ref())?,
        };
        Ok(lower(&self.machine, &around).map_err(Trouble::from)?)
    }

    /// How big the installation medium is. One that was made before is as big as it was made.
    fn medium(&self, before: Option<&KubevirtOptions>) -> Result<Option<u64>, Stop> {
        let known = before.and_then(|b| b.cdrom.as_ref()).map(|c| &c.url);
        let url = medium(&self.machine).filter(|url| Some(url) != known);
        let Some(url) = url.filter(|url| url.starts_with("http")) else {
            return Ok(None);
        };
        match self.controller.media.look(&url, self.key) {
            Size::Known(size) => Ok(size),
            Size::Asked => Err(Stop::Later),
        }
    }

    async fn config_maps(&self) -> Result<ConfigMaps, ClusterError> {
        let mut maps = ConfigMaps::new();
        for name in config_maps(&self.machine.spec) {
            let key = ObjectKey::new(self.key.namespace(), &name);
            maps.insert(name, self.controller.desk.config_map(&key).await?);
        }
        Ok(maps)
    }

    fn networks(&self) -> BTreeMap<String, Arc<NetworkConfiguration>> {
        let names = self.machine.spec.networks.iter();
        let names = names.filter_map(|n| n.network_name.clone());
        let store = &self.controller.stores.networks;
        let found = names.filter_map(|name| {
            let key = ObjectKey::new(self.key.namespace(), &name);
            Some((name, store.get(&key)?))
        });
        found.collect()
    }

    fn network_namespace(&self) -> Option<Arc<polyvirt_api::vitistack::NetworkNamespace>> {
        let network = self.machine.spec.network.as_ref()?;
        let name = network.network_namespace_name.as_deref()?;
        let key = ObjectKey::new(self.key.namespace(), name);
        self.controller.stores.spaces.get(&key)
    }

    /// Before anything is made, the Machine is marked, so that it cannot go without what was made; and where it belongs is
    /// written down, so that it stays there.
    async fn mark(&mut self, config: &str, chosen: Chosen) -> Result<(), ClusterError> {
        let meta = &self.machine.metadata;
        let mut finalizers = meta.finalizers.clone().unwrap_or_default();
        let marked = finalizers.iter().any(|f| f == MACHINE_FINALIZER);
        let annotations = meta.annotations.as_ref();
        let named = annotations.is_some_and(|a| a.contains_key(KUBEVIRT_CONFIG_ANNOTATION));
        if marked && named {
            return Ok(());
        }
        if !marked {
            finalizers.push(MACHINE_FINALIZER.to_owned());
        }
        let mut body = json!({"metadata": {
            "resourceVersion": meta.resource_version,
            "finalizers": finalizers,
        }});
        if !named {
            body["metadata"]["annotations"] = json!({ KUBEVIRT_CONFIG_ANNOTATION: config });
        }
        let written: Machine = self.controller.desk.merge(self.key, &body).await?;
        let written = trim::metadata(written);
        self.controller.stores.machines.written(written.clone());
        self.machine = Arc::new(written);
        if !named {
            self.tell_assignment(config, chosen);
        }
        Ok(())
    }

    fn tell_assignment(&self, config: &str, chosen: Chosen) {
        if chosen == Chosen::Named {
            return;
        }
        tracing::info!(
            controller = "Machine",
            machine = self.key.name(),
            namespace = self.key.namespace(),
            kubevirtConfig = config,
            "Automatically assigned KubevirtConfig to machine"
        );
        let text = format!("Automatically assigned KubevirtConfig {config}");
        let about = About::of(Kind::Machine, &*self.machine);
        let note = Note::normal(Reason::KubevirtConfigAssigned, text);
        self.controller.desk.event(&about, note);
    }

    /// One of that name that is somebody else's is left alone: addresses are the same without it.
    async fn keep_network(&self, lowered: &Lowered) -> Result<(), ClusterError> {
        let desk = &self.controller.desk;
        let mut wanted = desired(&self.machine, &lowered.nics, &self.controller.settings);
        let mut there = self.controller.stores.networks.get(self.key);
        if there.is_none() {
            there = desk.get(self.key).await?.map(Arc::new);
        }
        let claim = match &there {
            None => Claim::New,
            Some(there) if !is_of(there, &self.machine) => return Ok(()),
            Some(there) if says_the_same(there, &wanted) => return Ok(()),
            Some(there) => {
                wanted.metadata.uid.clone_from(&there.metadata.uid);
                Claim::Ours
            }
        };
        desk.apply(&wanted, claim).await.map(drop)
    }

    async fn keep_vm(
        &self,
        lowered: &Lowered,
        there: Option<Arc<VirtualMachine>>,
    ) -> Result<Arc<VirtualMachine>, Stop> {
        let late = late_data(there.as_deref(), &lowered.vm);
        match made::apply(&self.controller.desk, &lowered.vm, there).await {
            Ok(vm) => {
                if let Some(note) = late {
                    let about = About::of(Kind::Machine, &*self.machine);
                    self.controller.desk.event(&about, note);
                }
                Ok(vm)
            }
            Err(ClusterError::Invalid(why)) => Err(Trouble::Refused(why).into()),
            Err(error) => Err(error.into()),
        }
    }
}

/// What to say of an edit that the guest does not read any more.
fn late_data(there: Option<&VirtualMachine>, wanted: &VirtualMachine) -> Option<Note> {
    let there = there.filter(|vm| presence(Some(vm)) == Presence::There)?;
    let same = there.spec.user_data == wanted.spec.user_data
        && there.spec.network_data == wanted.spec.network_data;
    let text = "spec.cloudInit has changed. A guest reads it at its first boot only, so this one keeps what it has; delete the Machine and make it anew to have it read";
    (!same).then(|| Note::warning(Reason::FieldsIgnored, text))
}

/// What was written before for KubeVirt.
fn options_of(vm: &VirtualMachine) -> Option<KubevirtOptions> {
    let class = vm.spec.class.as_ref()?;
    KubevirtOptions::of(&class.extra_config).ok()
}

/// Whether the hypervisor has the VM.
fn presence(vm: Option<&VirtualMachine>) -> Presence {
    let status = vm.and_then(|vm| vm.status.as_ref());
    match status.and_then(|status| status.id.as_ref()) {
        Some(_) => Presence::There,
        None => Presence::Absent,
    }
}

/// How big the disk is that the VM boots from, as it was written before.
fn root_bytes(vm: &VirtualMachine) -> Option<u64> {
    let disk = vm.spec.class.as_ref()?.disk_defaults.as_ref()?;
    quantity::bytes_ceil(&disk.size).ok()
}

/// Addresses that were given out: the VirtualMachine has them, and so has the NetworkConfiguration, which wins.
fn macs_of(
    vm: Option<&VirtualMachine>,
    network: Option<&NetworkConfiguration>,
) -> BTreeMap<String, String> {
    let cards = vm.into_iter().flat_map(|vm| &vm.spec.networks);
    let given = cards.filter_map(|card| Some((card.name.clone(), card.mac_address.clone()?)));
    let mut macs: BTreeMap<_, _> = given.collect();
    macs.extend(network.map(known_macs).unwrap_or_default());
    macs
}

/// Why a pass ends early.
pub(super) enum Stop {
    /// The Machine is woken when it can go on.
    Later,
    /// Something that people have to know.
    Trouble(Trouble),
    /// Kubernetes.
    Cluster(ClusterError),
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<ClusterError> for Stop {
    fn from(error: ClusterError) -> Self {
        Self::Cluster(error)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_edit_that_no_guest_reads_is_told() {
        let vm = |data: &str, id: Option<&str>| -> VirtualMachine {
            let data = json!({"cloudInit": {"inline": data}});
            serde_json::from_value(json!({
                "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine", "metadata": {},
                "spec": {"providerRef": {"name": "p"}, "userData": data}, "status": {"id": id},
            }))
            .expect("a VM")
        };
        let wanted = vm("b", None);
        for (there, told) in [
            (None, false),
            (Some(vm("a", None)), false),
            (Some(vm("a", Some("team/web"))), true),
            (Some(vm("b", Some("team/web"))), false),
        ] {
            let note = late_data(there.as_ref(), &wanted);
            assert_eq!(note.is_some(), told, "{there:?}");
        }
    }
}
