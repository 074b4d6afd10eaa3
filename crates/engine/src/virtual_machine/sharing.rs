//! Whether what a VirtualMachine names in other namespaces is shared with its own.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use polyvirt_api::infra::{ObjectRef, VirtualMachine};
use polyvirt_plan::Problem;
use polyvirt_plan::sharing::{Foreign, Labels, NAME_LABEL};

use crate::cluster::ClusterError;
use crate::context::Context;
use crate::runtime::key::ObjectKey;

/// Labels of namespaces are not watched; whoever was refused looks again.
pub(super) const RECHECK: Duration = Duration::from_secs(60);

/// Why the VM may not use what it names; `None` if it may. Asks the API server only for a selector that needs it.
pub(super) async fn refusal(
    ctx: &Context,
    vm: &VirtualMachine,
) -> Result<Option<Problem>, ClusterError> {
    let named = foreign(ctx, vm);
    if named.is_empty() {
        return Ok(None);
    }
    let own = vm.metadata.namespace.as_deref().unwrap_or_default();
    let mut labels = Labels::new();
    if named.iter().any(Foreign::asks_for_labels) {
        labels = ctx.cluster.namespace_labels(own).await?;
    }
    labels.insert(NAME_LABEL.to_owned(), own.to_owned());
    Ok(named.iter().find_map(|f| f.refusal(own, &labels)))
}

/// What the VM names in other namespaces and exists there, and whom it is for.
fn foreign(ctx: &Context, vm: &VirtualMachine) -> Vec<Foreign> {
    let own = vm.metadata.namespace.as_deref().unwrap_or_default();
    let spec = &vm.spec;
    let stores = &ctx.stores;
    let elsewhere = |reference: Option<&ObjectRef>| {
        let key = reference.map(|r| ObjectKey::new(r.namespace_or(own), &r.name))?;
        (key.namespace() != own).then_some(key)
    };
    let told = |field, kind, key: &ObjectKey, selector: Option<LabelSelector>| {
        Some(Foreign {
            field,
            kind,
            name: key.to_string(),
            selector,
            sharing: ctx.sharing,
        })
    };
    let provider = elsewhere(Some(&spec.provider_ref)).and_then(|key| {
        let selector = stores
            .providers
            .get(&key)?
            .spec
            .consumer_namespace_selector
            .clone();
        told("spec.providerRef", "Provider", &key, selector)
    });
    let class = elsewhere(spec.class_ref.as_ref()).and_then(|key| {
        let selector = stores
            .classes
            .get(&key)?
            .spec
            .consumer_namespace_selector
            .clone();
        told("spec.classRef", "VMClass", &key, selector)
    });
    let image = elsewhere(spec.image_ref.as_ref()).and_then(|key| {
        let selector = stores
            .images
            .get(&key)?
            .spec
            .consumer_namespace_selector
            .clone();
        told("spec.imageRef", "VMImage", &key, selector)
    });
    [provider, class, image].into_iter().flatten().collect()
}
