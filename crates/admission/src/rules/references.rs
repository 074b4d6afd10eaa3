//! Objects that are named and may not be there yet. That is never refused: manifests are applied in any order.

use polyvirt_api::infra::{CloudInit, LocalRef, ObjectRef, VirtualMachineSpec};
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
    let guest = documents(root, namespace, spec, facts);
    let found = found.into_iter().flatten();
    found.chain(cards).chain(guest).collect()
}

/// Secrets with documents for the guest that are not there.
fn documents(
    root: &str,
    namespace: &str,
    spec: &VirtualMachineSpec,
    facts: &dyn Facts,
) -> Vec<String> {
    let user = spec.user_data.as_deref();
    let meta = spec.meta_data.as_deref();
    let network = spec.network_data.as_deref();
    let cloud_init = |document: Option<&CloudInit>| document.and_then(|c| c.secret_ref.clone());
    let ignition = user.and_then(|u| u.ignition.as_ref());
    let named = [
        (
            "userData.cloudInit",
            cloud_init(user.and_then(|u| u.cloud_init.as_ref())),
        ),
        (
            "userData.ignition",
            ignition.and_then(|i| i.secret_ref.clone()),
        ),
        (
            "metaData.cloudInit",
            cloud_init(meta.and_then(|m| m.cloud_init.as_ref())),
        ),
        (
            "networkData.cloudInit",
            cloud_init(network.and_then(|n| n.cloud_init.as_ref())),
        ),
    ];
    let told = |(place, reference): (&str, Option<LocalRef>)| {
        let field = format!("{root}.{place}.secretRef");
        secret(&field, &local(namespace, &reference?), facts)
    };
    named.into_iter().filter_map(told).collect()
}

/// A warning if the Secret is known not to be there.
pub(super) fn secret(field: &str, key: &ObjectKey, facts: &dyn Facts) -> Option<String> {
    missing(&facts.secret(key), field, "Secret", key)
}
