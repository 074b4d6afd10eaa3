//! The end of a Machine: its VirtualMachine goes first, and that is proved by its own finalizer.

use std::sync::Arc;

use polyvirt_api::infra::{DeletionPolicy, VirtualMachine};
use polyvirt_api::names;
use polyvirt_api::vitistack::{
    FORCE_DELETE_ANNOTATION, MACHINE_FINALIZER, Machine, NetworkConfiguration,
    OLD_MACHINE_FINALIZER, ORPHAN_ANNOTATION,
};
use polyvirt_engine::cluster::{About, ClusterError};
use polyvirt_engine::next::Next;
use polyvirt_engine::runtime::key::{Kind, ObjectKey};
use polyvirt_plan::{Note, Reason};
use serde_json::json;

use super::Controller;
use super::pass::Found;
use crate::shared::made;
use crate::vitistack::lower::is_owned;
use crate::vitistack::network_configuration::is_of;

impl Controller {
    /// A step towards the end. The VirtualMachine wakes us when it is gone.
    pub(super) async fn take_down(
        &self,
        key: &ObjectKey,
        machine: &Arc<Machine>,
    ) -> Result<Next, ClusterError> {
        let list = machine.metadata.finalizers.clone().unwrap_or_default();
        let marks = marks(machine);
        let ours = |f: &String| marks.contains(&f.as_str());
        if !list.iter().any(ours) {
            return Ok(Next::Idle);
        }
        if let Some(vm) = self.remaining_vm(key, machine).await? {
            self.pass_wishes_on(key, machine, &vm).await?;
            made::delete(&self.desk, key, &*vm).await?;
            let found = Found::default();
            self.report(key, machine, &found, Some(&vm), None).await?;
            return Ok(Next::Idle);
        }
        self.delete_network(key, machine).await?;
        self.release(
            key,
            machine,
            list.into_iter().filter(|f| !ours(f)).collect(),
        )
        .await?;
        Ok(Next::Idle)
    }

    /// The cache may lag behind in both directions, so that there is nothing left is asked of the API server.
    async fn remaining_vm(
        &self,
        key: &ObjectKey,
        machine: &Machine,
    ) -> Result<Option<Arc<VirtualMachine>>, ClusterError> {
        let cached = self.engine.stores.vms.get(key);
        let vm = match cached.filter(|vm| is_owned(&**vm, machine)) {
            Some(vm) => Some(vm),
            None => self.desk.get(key).await?.map(Arc::new),
        };
        Ok(vm.filter(|vm| is_owned(&**vm, machine)))
    }

    /// Force and orphan are annotations of the Machine; the VirtualMachine has its own words for them.
    async fn pass_wishes_on(
        &self,
        key: &ObjectKey,
        machine: &Machine,
        vm: &VirtualMachine,
    ) -> Result<(), ClusterError> {
        let mut body = json!({});
        let force = is_forced(machine);
        let forced = says_yes(
            vm.metadata.annotations.as_ref(),
            names::FORCE_DELETE_ANNOTATION,
        );
        if force && !forced {
            let annotation = json!({names::FORCE_DELETE_ANNOTATION: "true"});
            body["metadata"] = json!({ "annotations": annotation });
        }
        let orphan = says_yes(machine.metadata.annotations.as_ref(), ORPHAN_ANNOTATION);
        if orphan && vm.spec.deletion_policy != Some(DeletionPolicy::Retain) {
            body["spec"] = json!({"deletionPolicy": DeletionPolicy::Retain});
        }
        if body == json!({}) {
            return Ok(());
        }
        self.desk.merge_if_there::<VirtualMachine>(key, &body).await
    }

    async fn delete_network(&self, key: &ObjectKey, machine: &Machine) -> Result<(), ClusterError> {
        let mut network = self.stores.networks.get(key);
        if network.is_none() {
            network = self.desk.get(key).await?.map(Arc::new);
        }
        let ours = network.filter(|network| is_of(network, machine));
        match ours.and_then(|network| network.metadata.uid.clone()) {
            Some(uid) => self.desk.delete::<NetworkConfiguration>(key, &uid).await,
            None => Ok(()),
        }
    }

    async fn release(
        &self,
        key: &ObjectKey,
        machine: &Machine,
        finalizers: Vec<String>,
    ) -> Result<(), ClusterError> {
        let left = left_behind(machine);
        tracing::info!(
            controller = "Machine",
            machine = key.name(),
            namespace = key.namespace(),
            phase = "Terminated",
            "{}",
            left.as_deref().unwrap_or("The VM is gone")
        );
        made::release(&self.desk, key, machine, finalizers).await?;
        if let Some(text) = left {
            let about = About::of(Kind::Machine, machine);
            let note = Note::warning(Reason::ForceDeleted, text);
            self.desk.event(&about, note);
        }
        Ok(())
    }
}

/// The finalizers that are ours to take off. That of the operator before us is on Machines of other providers too, whose operators
/// are at work; ours is on one of them if it was for KubeVirt once, and then what was made for it goes.
fn marks(machine: &Machine) -> &'static [&'static str] {
    if machine.spec.is_for_kubevirt() {
        &[MACHINE_FINALIZER, OLD_MACHINE_FINALIZER]
    } else {
        &[MACHINE_FINALIZER]
    }
}

fn is_forced(machine: &Machine) -> bool {
    let wishes = [FORCE_DELETE_ANNOTATION, names::FORCE_DELETE_ANNOTATION];
    let annotations = machine.metadata.annotations.as_ref();
    wishes.iter().any(|wish| says_yes(annotations, wish))
}

/// What may be left in a cluster that was not asked, and how to look for it there. `None` if it was asked, or has nothing.
fn left_behind(machine: &Machine) -> Option<String> {
    let status = machine.status.as_ref().filter(|_| is_forced(machine))?;
    let vm = status.vm_name.as_deref()?;
    let cluster = status.kubevirt_config_ref.as_deref()?;
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    let name = machine.metadata.name.as_deref().unwrap_or_default();
    Some(format!(
        "Deleted by force: VirtualMachine {vm}, its claims, Secret and networks may remain in the cluster of KubevirtConfig {cluster}. Look there: kubectl -n {namespace} get vm,vmi,pvc,secret -l vitistack.io/machine={name}"
    ))
}

fn says_yes(annotations: Option<&std::collections::BTreeMap<String, String>>, name: &str) -> bool {
    annotations.is_some_and(|all| all.get(name).is_some_and(|word| word == "true"))
}
