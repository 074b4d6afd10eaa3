//! Objects that are named and may not be there yet. That is never refused: manifests are applied in any order.

use polyvirt_api::infra::{LocalRef, ObjectRef, VirtualMachineSpec};
use polyvirt_engine::runtime::key::ObjectKey;

use crate::facts::{Facts, Found};

/// The object that a reference means, seen from a namespace.
pub(super) fn key(namespace: &str, reference: &ObjectRef) -> ObjectKey {
    ObjectKey::new(reference.namespace_or(namespace), &reference.name)
}

/// The object of the same namespace that a reference means.
pub(super) fn local(namespace: &str, reference: &LocalRef) -> ObjectKey {
    ObjectKey::new(namespace, &reference.name)
}

/// A warning if the object is known not to be there.
pub(super) fn missing<T>(
    found: &Found<T>,
    field: &str,
    kind: &str,
    key: &ObjectKey,
) -> Option<String> {
    matches!(found, Found::Missing)
        .then(|| format!("{field}: {kind} {key} does not exist yet; work waits for it"))
}

/// Everything that the spec of a VM names and that is not there.
pub(super) fn of_machine(
    root: &str,
    namespace: &str,
    spec: &VirtualMachineSpec,
    facts: &dyn Facts,
) -> Vec<String> {
    let provider = key(namespace, &spec.provider_ref);
    let mut found = vec![missing(
        &facts.provider(&provider),
        &format!("{root}.providerRef"),
        "Provider",
        &provider,
    )];
    found.extend(spec.class_ref.as_ref().map(|class| {
        let class = key(namespace, class);
        missing(
            &facts.class(&class),
            &format!("{root}.classRef"),
            "VMClass",
            &class,
        )
    }));
    found.extend(spec.image_ref.as_ref().map(|image| {
        let image = key(namespace, image);
        missing(
            &facts.image(&image),
            &format!("{root}.imageRef"),
            "VMImage",
            &image,
        )
    }));
    let cards = spec.networks.iter().filter_map(|card| {
        let network = key(namespace, card.network_ref.as_ref()?);
        let field = format!("{root}.networks[{}].networkRef", card.name);
        missing(
            &facts.network(&network),
            &field,
            "VMNetworkAttachment",
            &network,
        )
    });
    found.into_iter().flatten().chain(cards).collect()
}
