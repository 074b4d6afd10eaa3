//! Objects that are named and may not be there yet. That is never refused: manifests are applied in any order.

use polyvirt_api::infra::{CloudInit, LocalRef, ObjectRef, VirtualMachineSpec};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_plan::nearest;

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
        .then(|| format!("{field}: {kind} {key} does not exist yet. Create it or correct the name"))
}

/// Everything that the spec of a VM names and that is not there.
pub(super) fn of_machine(
    root: &str,
    namespace: &str,
    spec: &VirtualMachineSpec,
    facts: &dyn Facts,
) -> Vec<String> {
    let named = |part: &str, kind: &'static str, reference: &ObjectRef| Named {
        field: format!("{root}.{part}"),
        kind,
        key: key(namespace, reference),
    };
    let mut all = vec![named("providerRef", "Provider", &spec.provider_ref)];
    let class = spec.class_ref.as_ref();
    all.extend(class.map(|class| named("classRef", "VMClass", class)));
    let image = spec.image_ref.as_ref();
    all.extend(image.map(|image| named("imageRef", "VMImage", image)));
    all.extend(spec.networks.iter().filter_map(|card| {
        let part = format!("networks[{}].networkRef", card.name);
        let network = card.network_ref.as_ref()?;
        Some(named(&part, "VMNetworkAttachment", network))
    }));
    let found = all.iter().filter_map(|one| one.missing(namespace, facts));
    let guest = documents(root, namespace, spec, facts);
    found.chain(guest).collect()
}

/// An object that a VM names.
struct Named {
    field: String,
    kind: &'static str,
    key: ObjectKey,
}

impl Named {
    /// A warning if it is known not to be there, with the name that was probably meant. Names of other namespaces are not
    /// disclosed.
    fn missing(&self, own: &str, facts: &dyn Facts) -> Option<String> {
        let Self { field, kind, key } = self;
        let text = match *kind {
            "Provider" => missing(&facts.provider(key), field, kind, key),
            "VMClass" => missing(&facts.class(key), field, kind, key),
            "VMImage" => missing(&facts.image(key), field, kind, key),
            _ => missing(&facts.network(key), field, kind, key),
        }?;
        let names = if key.namespace() == own {
            facts.names(kind, own)
        } else {
            Vec::new()
        };
        let meant = nearest(key.name(), names.iter().map(String::as_str));
        let hint = meant.map(|name| format!(" (did you mean {name}?)"));
        Some(text + &hint.unwrap_or_default())
    }
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
