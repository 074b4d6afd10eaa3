//! What is looked at when work begins: whether the kinds of this cluster are those that this version was made for. Nothing waits
//! for it and nothing depends on it; whoever forgot to apply the definitions of a new version reads so in the log.

use std::sync::Arc;

use kube::Api;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::Value;

use super::Controller;

/// Definitions, and fields that are looked for in each: a part of the object, and what it must have.
const EXPECTED: &[(&str, &[&str])] = &[
    (
        "machines.vitistack.io",
        &[
            "spec/instanceType",
            "spec/kubevirtConfigRef",
            "status/kubevirtConfigRef",
            "status/phase",
            "status/conditions",
        ],
    ),
    (
        "networkconfigurations.vitistack.io",
        &["spec/networkInterfaces", "status/phase"],
    ),
    (
        "kubevirtconfigs.vitistack.io",
        &["spec/kubeconfigSecretRef", "status/phase"],
    ),
];

impl Controller {
    /// Says of each definition whether it is there and has what is used.
    pub(super) async fn check_definitions(self: Arc<Self>) {
        let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let kind = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
        for (name, fields) in EXPECTED {
            match api.get_opt(name).await {
                Ok(found) => say(name, found.map(|crd| missing(&crd.data, fields)).as_deref()),
                Err(error) => tracing::debug!(%error, name, "the definition cannot be read"),
            }
        }
    }
}

fn say(name: &str, missing: Option<&[&str]>) {
    let controller = "Machine";
    match missing {
        None => tracing::warn!(controller, "⚠️ {name} is not installed; apply config/crd"),
        Some([]) => tracing::info!(controller, "✅ {name} has all fields that are used"),
        Some(fields) => {
            let fields = fields.join(", ").replace('/', ".");
            tracing::warn!(controller, "⚠️ {name} lacks {fields}; apply config/crd");
        }
    }
}

/// Those of the fields that the schema of the served version does not have.
fn missing(crd: &Value, fields: &[&'static str]) -> Vec<&'static str> {
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    let served = |version: &&Value| version["name"] == "v1alpha1";
    let schema = versions.into_iter().flatten().find(served);
    let has = |field: &&str| {
        let (part, name) = field.split_once('/').unwrap_or(("", field));
        let path = format!("/schema/openAPIV3Schema/properties/{part}/properties/{name}");
        schema.is_some_and(|schema| schema.pointer(&path).is_some())
    };
    fields.iter().filter(|field| !has(field)).copied().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn our_own_definitions_have_what_is_looked_for() {
        let crds = polyvirt_api::crds();
        for (name, fields) in EXPECTED {
            let mut all = crds.iter();
            let crd = all.find(|crd| crd.metadata.name.as_deref() == Some(name));
            let crd = serde_json::to_value(crd).unwrap();
            assert_eq!(missing(&crd, fields), [""; 0], "{name}");
        }
    }

    #[test]
    fn what_an_old_definition_lacks_is_named() {
        let old = json!({"spec": {"versions": [{"name": "v1alpha1", "schema": {"openAPIV3Schema": {"properties": {
            "spec": {"properties": {"instanceType": {}}}, "status": {"properties": {"phase": {}}},
        }}}}]}});
        let (_, fields) = EXPECTED[0];
        assert_eq!(
            missing(&old, fields),
            [
                "spec/kubevirtConfigRef",
                "status/kubevirtConfigRef",
                "status/conditions"
            ]
        );
        assert_eq!(missing(&json!({}), fields), fields);
    }
}
