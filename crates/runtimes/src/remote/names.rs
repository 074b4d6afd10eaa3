//! What the objects of a Provider are called. The names are those of the contract, made to fit where they would be too long.

use std::collections::BTreeMap;

use polyvirt_api::infra::Provider;
use polyvirt_engine::provider::sessions::type_word;
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_pki::authority::mark;

/// The most that a DNS label and the value of a label can hold.
const LONGEST: usize = 63;

/// Names of the labels by which our objects are found.
pub const NAME_LABEL: &str = "app.kubernetes.io/name";
/// The Provider that an object belongs to.
pub const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
const COMPONENT_LABEL: &str = "app.kubernetes.io/component";
const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
const TYPE_LABEL: &str = "virtrigaud.io/provider-type";
const NAME: &str = "virtrigaud-provider";

/// Finds all objects that we made for Providers.
pub const OURS: &str =
    "app.kubernetes.io/managed-by=virtrigaud,app.kubernetes.io/component=provider";

/// The name of Deployment, Service, ServiceAccount and NetworkPolicy.
pub fn object_name(provider: &ObjectKey) -> String {
    let full = format!("{NAME}-{}-{}", provider.namespace(), provider.name());
    fitting(&full, LONGEST)
}

/// The name of the Secret with the certificates that we make.
pub fn tls_secret_name(provider: &ObjectKey) -> String {
    format!("{}-tls", fitting(&object_name(provider), LONGEST - 4))
}

/// The name under which the Service is known in the cluster.
pub fn host(provider: &ObjectKey, cluster_domain: &str) -> String {
    let name = object_name(provider);
    format!("{name}.{}.svc.{cluster_domain}", provider.namespace())
}

/// All names of the Service.
pub fn hosts(provider: &ObjectKey, cluster_domain: &str) -> Vec<String> {
    let (name, namespace) = (object_name(provider), provider.namespace());
    vec![
        host(provider, cluster_domain),
        format!("{name}.{namespace}.svc"),
        format!("{name}.{namespace}"),
    ]
}

/// What the pods of a Provider are known by. A Deployment never changes it.
pub fn selector(provider: &ObjectKey) -> BTreeMap<String, String> {
    BTreeMap::from([
        (NAME_LABEL.to_owned(), NAME.to_owned()),
        (INSTANCE_LABEL.to_owned(), fitting(provider.name(), LONGEST)),
    ])
}

/// The labels of all objects.
pub fn labels(provider: &Provider) -> BTreeMap<String, String> {
    let mut labels = selector(&ObjectKey::of(provider));
    let more = [
        (COMPONENT_LABEL, "provider"),
        (MANAGED_BY_LABEL, "virtrigaud"),
        (TYPE_LABEL, type_word(provider.spec.type_)),
    ];
    labels.extend(more.map(|(key, value)| (key.to_owned(), value.to_owned())));
    labels
}

/// The text, if it is a DNS label already; else one that is, and that no other text has.
fn fitting(text: &str, most: usize) -> String {
    if text.len() <= most && !text.contains('.') {
        return text.to_owned();
    }
    let digest = &mark(text.as_bytes())[..8];
    let plain = text.replace('.', "-");
    let kept: String = plain.chars().take(most - 9).collect();
    format!("{}-{digest}", kept.trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_contract() {
        let key = ObjectKey::new("lab", "esx");
        assert_eq!(object_name(&key), "virtrigaud-provider-lab-esx");
        assert_eq!(tls_secret_name(&key), "virtrigaud-provider-lab-esx-tls");
        assert_eq!(
            host(&key, "cluster.local"),
            "virtrigaud-provider-lab-esx.lab.svc.cluster.local"
        );
    }

    #[test]
    fn long_names_fit_and_stay_apart() {
        let long = "a-namespace-with-a-very-long-name-that-somebody-chose";
        let names: Vec<_> = ["first-provider", "first-provided", "a.b", "a-b"]
            .iter()
            .map(|name| ObjectKey::new(long, name))
            .flat_map(|key| [object_name(&key), tls_secret_name(&key)])
            .collect();
        for (i, name) in names.iter().enumerate() {
            assert!(name.len() <= LONGEST, "{name}");
            assert!(!name.contains('.') && !name.ends_with('-'), "{name}");
            assert!(!names[..i].contains(name), "{name} twice");
        }
    }

    #[test]
    fn a_dot_in_a_name_does_not_reach_the_service() {
        let dotted = object_name(&ObjectKey::new("lab", "esx.one"));
        let plain = object_name(&ObjectKey::new("lab", "esx-one"));
        assert!(
            dotted.starts_with("virtrigaud-provider-lab-esx-one-"),
            "{dotted}"
        );
        assert_ne!(dotted, plain);
    }
}
