//! The end of a VM: its VirtualMachine goes first, and that is proved by its own finalizer.

use std::collections::BTreeMap;
use std::sync::Arc;

use polyvirt_api::infra::{self, VMSnapshot};
use polyvirt_api::names;
use polyvirt_api::novacron::{FINALIZER, FORCE_DELETE_ANNOTATION, VirtualMachine};
use polyvirt_engine::cluster::ClusterError;
use polyvirt_engine::next::Next;
use polyvirt_engine::runtime::key::ObjectKey;
use serde_json::json;

use super::Controller;
use super::pass::Found;
use crate::novacron::lower::schedule_name;
use crate::shared::made;
use crate::shared::owner::is_owned;

impl Controller {
    /// A step towards the end. The VirtualMachine wakes us when it is gone.
    pub(super) async fn take_down(
        &self,
        key: &ObjectKey,
        vm: &Arc<VirtualMachine>,
    ) -> Result<Next, ClusterError> {
        let mut finalizers = vm.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|f| f == FINALIZER) {
            return Ok(Next::Idle);
        }
        self.end_schedule(key, vm).await?;
        self.end_migration(key, vm).await?;
        if let Some(made) = self.remaining(key, vm).await? {
            self.pass_force_on(key, vm, &made).await?;
            made::delete(&self.desk, key, &*made).await?;
            let found = Found {
                vm: Some(made),
                lowered: None,
                migration: None,
            };
            self.report(key, vm, &found, None).await?;
            return Ok(Next::Idle);
        }
        for (network, object) in self.own_networks(key, vm) {
            made::delete(&self.desk, &network, &*object).await?;
        }
        finalizers.retain(|f| f != FINALIZER);
        made::release(&self.desk, key, &**vm, finalizers).await?;
        tracing::info!(
            controller = "novacron.io",
            vm = key.name(),
            namespace = key.namespace(),
            "The VM is gone"
        );
        Ok(Next::Idle)
    }

    /// No snapshot is begun of a VM that goes.
    async fn end_schedule(&self, key: &ObjectKey, vm: &VirtualMachine) -> Result<(), ClusterError> {
        let schedule = ObjectKey::new(key.namespace(), &schedule_name(key.name()));
        let found = self.engine.stores.snapshots.get(&schedule);
        match found.filter(|s| is_owned(&**s, vm)) {
            Some(found) => made::delete::<VMSnapshot>(&self.desk, &schedule, &found).await,
            None => Ok(()),
        }
    }

    /// The cache may lag behind in both directions, so that there is nothing left is asked of the API server.
    async fn remaining(
        &self,
        key: &ObjectKey,
        vm: &VirtualMachine,
    ) -> Result<Option<Arc<infra::VirtualMachine>>, ClusterError> {
        let cached = self.engine.stores.vms.get(key);
        let made = match cached.filter(|made| is_owned(&**made, vm)) {
            Some(made) => Some(made),
            None => self.desk.get(key).await?.map(Arc::new),
        };
        Ok(made.filter(|made| is_owned(&**made, vm)))
    }

    /// The VirtualMachine has its own word for it.
    async fn pass_force_on(
        &self,
        key: &ObjectKey,
        vm: &VirtualMachine,
        made: &infra::VirtualMachine,
    ) -> Result<(), ClusterError> {
        let own = vm.metadata.annotations.as_ref();
        let wanted =
            says_yes(own, FORCE_DELETE_ANNOTATION) || says_yes(own, names::FORCE_DELETE_ANNOTATION);
        let there = made.metadata.annotations.as_ref();
        if !wanted || says_yes(there, names::FORCE_DELETE_ANNOTATION) {
            return Ok(());
        }
        let body = json!({"metadata": {"annotations": {names::FORCE_DELETE_ANNOTATION: "true"}}});
        self.desk
            .merge_if_there::<infra::VirtualMachine>(key, &body)
            .await
    }
}

fn says_yes(annotations: Option<&BTreeMap<String, String>>, name: &str) -> bool {
    annotations.is_some_and(|all| all.get(name).is_some_and(|word| word == "true"))
}
