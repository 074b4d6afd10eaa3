//! VMClones.

use polyvirt_api::infra::{CloneType, VMClone, VirtualMachine};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_plan::Problem;

use super::{Judged, cards, disks, guest_data, invalid, references, unattended};
use crate::facts::{Facts, Found};

impl Judged for VMClone {
    fn problems(&self, _: &dyn Facts) -> Vec<Problem> {
        let target = &self.spec.target;
        let mut found = cards::problems("spec.target.networks", &target.networks);
        found.extend(disks::problems("spec.target.disks", &target.disks));
        found.extend(onto_itself(self));
        if let Some(custom) = &self.spec.customization {
            let root = "spec.customization";
            let networks = format!("{root}.networks");
            found.extend(cards::of_customization(&networks, &custom.networks));
            found.extend(guest_data::problems(
                root,
                custom.user_data.as_deref(),
                None,
                None,
            ));
        }
        found
    }

    fn warnings(&self, old: Option<&Self>, facts: &dyn Facts) -> Vec<String> {
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let mut found = missing(self, namespace, facts);
        if old.is_none() {
            found.extend(taken(self, namespace, facts));
            found.push(unattended("VMClone"));
        }
        let vm = self.spec.source.vm_ref.as_ref();
        let vm = vm.map(|vm| facts.vm(&references::local(namespace, vm)));
        if let Some(Found::Here(vm)) = vm {
            found.extend(linked(self, &vm, namespace, facts));
        }
        found
    }
}

fn target(clone: &VMClone, namespace: &str) -> ObjectKey {
    let target = &clone.spec.target;
    ObjectKey::new(
        target.namespace.as_deref().unwrap_or(namespace),
        &target.name,
    )
}

fn onto_itself(clone: &VMClone) -> Option<Problem> {
    let namespace = clone.metadata.namespace.as_deref().unwrap_or_default();
    let source = references::local(namespace, clone.spec.source.vm_ref.as_ref()?);
    (source == target(clone, namespace)).then(|| {
        invalid(
            "spec.target.name",
            "A VirtualMachine cannot be cloned onto itself. Give the copy another name",
        )
    })
}

fn missing(clone: &VMClone, namespace: &str, facts: &dyn Facts) -> Vec<String> {
    let (source, target) = (&clone.spec.source, &clone.spec.target);
    let vm = source.vm_ref.as_ref().map(|vm| {
        let key = references::local(namespace, vm);
        references::missing(&facts.vm(&key), "spec.source.vmRef", "VirtualMachine", &key)
    });
    let snapshot = source.snapshot_ref.as_ref().map(|snapshot| {
        let key = references::local(namespace, snapshot);
        references::missing(
            &facts.snapshot(&key),
            "spec.source.snapshotRef",
            "VMSnapshot",
            &key,
        )
    });
    let image = source
        .image_ref
        .as_ref()
        .or(source.template_ref.as_ref())
        .map(|image| {
            let key = references::key(namespace, image);
            references::missing(&facts.image(&key), "spec.source", "VMImage", &key)
        });
    let provider = target.provider_ref.as_ref().map(|provider| {
        let key = references::key(namespace, provider);
        references::missing(
            &facts.provider(&key),
            "spec.target.providerRef",
            "Provider",
            &key,
        )
    });
    [vm, snapshot, image, provider]
        .into_iter()
        .flatten()
        .flatten()
        .collect()
}

fn taken(clone: &VMClone, namespace: &str, facts: &dyn Facts) -> Option<String> {
    let key = target(clone, namespace);
    facts.vm(&key).here().map(|_| {
        format!("spec.target.name: VirtualMachine {key} exists already; it is left alone, and the clone waits")
    })
}

fn linked(
    clone: &VMClone,
    vm: &VirtualMachine,
    namespace: &str,
    facts: &dyn Facts,
) -> Option<String> {
    let wanted = clone.spec.options.as_ref()?.type_ == CloneType::LinkedClone;
    let provider = facts.provider(&references::key(namespace, &vm.spec.provider_ref));
    let can = provider
        .here()?
        .status
        .as_ref()?
        .reported_capabilities
        .as_ref()?;
    (wanted && !can.supports_linked_clones)
        .then(|| "spec.options.type: the provider of the source makes no linked clones".to_owned())
}
