//! The spec of a VM, wherever it stands: in a VirtualMachine or in the template of a set.

use polyvirt_api::infra::{DriftDeletion, Provider, VMNetworkAttachment, VirtualMachineSpec};
use polyvirt_plan::Problem;
use polyvirt_plan::honoured;
use polyvirt_plan::image::{reads_claims, source_on};

use super::{cards, checksum, class, disks, guest_data, references};
use crate::facts::{Facts, features};

/// What can never work.
pub(super) fn problems(root: &str, spec: &VirtualMachineSpec) -> Vec<Problem> {
    let mut found = cards::problems(&format!("{root}.networks"), &spec.networks);
    found.extend(disks::problems(&format!("{root}.disks"), &spec.disks));
    found.extend(guest_data::problems(
        root,
        spec.user_data.as_deref(),
        spec.meta_data.as_deref(),
        spec.network_data.as_deref(),
    ));
    if let Some(inline) = &spec.class {
        found.extend(class::spec_problems(&format!("{root}.class"), inline));
    }
    if let Some(inline) = &spec.image {
        found.extend(checksum::problems(&format!("{root}.image"), inline));
    }
    found
}

/// What the user should know.
pub(super) fn warnings(
    root: &str,
    namespace: &str,
    spec: &VirtualMachineSpec,
    facts: &dyn Facts,
) -> Vec<String> {
    let mut found = references::of_machine(root, namespace, spec, facts);
    found.extend(cards::warnings(&format!("{root}.networks"), &spec.networks));
    if let Some(inline) = &spec.class {
        found.extend(class::spec_warnings(&format!("{root}.class"), inline));
    }
    let provider = facts.provider(&references::key(namespace, &spec.provider_ref));
    if let Some(provider) = provider.here() {
        found.extend(not_honoured(root, namespace, spec, provider, facts));
        found.extend(no_cluster(root, namespace, spec, provider, facts));
    }
    found.extend(recreation(root, spec));
    found
}

/// An image in storage of a cluster, which the provider cannot read.
fn no_cluster(
    root: &str,
    namespace: &str,
    spec: &VirtualMachineSpec,
    provider: &Provider,
    facts: &dyn Facts,
) -> Option<String> {
    let named = spec.image_ref.as_ref();
    let named = named.map(|image| facts.image(&references::key(namespace, image)));
    let image = named.as_ref().and_then(|found| found.here());
    let (field, source) = match (&spec.image, image) {
        (Some(inline), _) => ("image.dataVolume", &**inline),
        (None, Some(image)) => ("imageRef", &image.spec.source),
        (None, None) => return None,
    };
    let kind = provider.spec.type_;
    let meant = source_on(source, Some(kind));
    let name = provider.metadata.name.as_deref().unwrap_or_default();
    (meant.data_volume.is_some() && !reads_claims(kind)).then(|| {
        format!("{root}.{field}: The image is a DataVolume or claim of a cluster, which Provider {name} cannot read: the VM will not be made. Use a Provider of type kubevirt, or give the image by http or registry")
    })
}

/// Fields that are set and do nothing on the provider.
fn not_honoured(
    root: &str,
    namespace: &str,
    spec: &VirtualMachineSpec,
    provider: &Provider,
    facts: &dyn Facts,
) -> Vec<String> {
    let Some(features) = features(provider) else {
        return Vec::new();
    };
    let class = spec.class_ref.as_ref();
    let class = class.map(|class| facts.class(&references::key(namespace, class)));
    let class = class.as_ref().and_then(|found| found.here());
    let networks = attachments(namespace, spec, facts);
    let networks: Vec<_> = networks.iter().map(|(i, n)| (*i, &n.spec)).collect();
    let in_use = honoured::fields_in_use(spec, class.map(|c| &c.spec), &networks);
    let name = provider.metadata.name.as_deref().unwrap_or_default();
    let ignored = honoured::ignored(&in_use, &features);
    let told = |path: &String| {
        let shown = path
            .strip_prefix("spec")
            .map(|rest| format!("{root}{rest}"));
        let shown = shown.unwrap_or_else(|| path.clone());
        format!("{shown} has no effect on Provider {name}")
    };
    ignored.iter().map(told).collect()
}

pub(super) fn attachments(
    namespace: &str,
    spec: &VirtualMachineSpec,
    facts: &dyn Facts,
) -> Vec<(usize, VMNetworkAttachment)> {
    let cards = spec.networks.iter().enumerate();
    cards
        .filter_map(|(index, card)| {
            let key = references::key(namespace, card.network_ref.as_ref()?);
            Some((index, facts.network(&key).here()?.clone()))
        })
        .collect()
}

fn recreation(root: &str, spec: &VirtualMachineSpec) -> Option<String> {
    let policy = spec.drift_policy.as_ref()?;
    (policy.deletion == Some(DriftDeletion::Recreate)).then(|| {
        format!("{root}.driftPolicy.deletion: a VM that somebody deletes is made anew from its image; what was on its disks is lost")
    })
}
