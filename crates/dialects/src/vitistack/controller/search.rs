//! Whether a cluster has the VM of a Machine already.

use std::sync::Arc;

use futures::future::join_all;
use polyvirt_contract::Provider;
use polyvirt_contract::model::VmState;
use polyvirt_engine::link::Standing;
use polyvirt_engine::runtime::key::ObjectKey;

use super::Controller;
use crate::vitistack::assign::Sighting;
use crate::vitistack::lower::vm_names;

impl Controller {
    /// Asks all of them at once. One that does not answer has said nothing.
    pub(super) async fn search(
        &self,
        machine: &ObjectKey,
        configs: &[ObjectKey],
    ) -> Vec<(ObjectKey, Sighting)> {
        let names = vm_names(machine.name(), &self.settings);
        let questions = configs.iter().map(|config| async {
            let seen = self.ask(config, machine.namespace(), &names).await;
            (config.clone(), seen)
        });
        join_all(questions).await
    }

    async fn ask(&self, config: &ObjectKey, namespace: &str, names: &[String]) -> Sighting {
        let Some(provider) = self.provider(config) else {
            return Sighting::Silent;
        };
        match provider.list_vms().await {
            Ok(list) if list.iter().any(|vm| is_it(vm, namespace, names)) => Sighting::There,
            Ok(_) => Sighting::Absent,
            Err(error) => {
                tracing::debug!(%config, %error, "the cluster does not say which VMs it has");
                Sighting::Silent
            }
        }
    }

    fn provider(&self, config: &ObjectKey) -> Option<Arc<dyn Provider>> {
        let view = self.engine.links.get(config)?.view();
        let answers = matches!(view.standing, Standing::Connected { .. });
        view.provider.filter(|_| answers)
    }
}

/// A VM of one of the names in the namespace. Its provider says where it is in its id, or in a detail of it.
fn is_it(vm: &VmState, namespace: &str, names: &[String]) -> bool {
    let place = vm.details.get("namespace").map(String::as_str);
    let place = place.or_else(|| vm.id.as_str().split_once('/').map(|(place, _)| place));
    let own = vm.name.rsplit('/').next().unwrap_or_default();
    names.iter().any(|name| name == own) && place.is_none_or(|place| place == namespace)
}

#[cfg(test)]
mod tests {
    use polyvirt_contract::VmId;

    use super::*;

    #[test]
    fn a_vm_is_known_by_its_name_and_namespace() {
        let names = ["vm-web".to_owned(), "web".to_owned()];
        for (id, name, expected) in [
            ("team/vm-web", "vm-web", true),
            ("team/web", "web", true),
            ("other/vm-web", "vm-web", false),
            ("team/vm-db", "vm-db", false),
            ("17", "vm-web", true),
        ] {
            let vm = VmState {
                id: VmId::from(id),
                name: name.to_owned(),
                ..VmState::default()
            };
            assert_eq!(is_it(&vm, "team", &names), expected, "{id}");
        }
    }
}
