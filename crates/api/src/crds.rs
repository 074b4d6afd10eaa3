//! The CustomResourceDefinitions, ready to be applied.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    ValidationRule,
};
use kube::CustomResourceExt;

use crate::infra::{
    Host, HostPool, Provider, VMClass, VMClone, VMImage, VMMigration, VMNetworkAttachment,
    VMPlacementPolicy, VMSet, VMSnapshot, VirtualMachine,
};
use crate::novacron;
use crate::vitistack::{
    KubevirtConfig, Machine, MachineClass, NetworkConfiguration, NetworkNamespace,
};

/// Every CustomResourceDefinition of Polyvirt, always in the same order.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![
        Provider::crd(),
        VirtualMachine::crd(),
        VMClass::crd(),
        VMImage::crd(),
        VMNetworkAttachment::crd(),
        VMSnapshot::crd(),
        VMClone::crd(),
        VMSet::crd(),
        VMPlacementPolicy::crd(),
        VMMigration::crd(),
        Host::crd(),
        HostPool::crd(),
        Machine::crd(),
        KubevirtConfig::crd(),
        NetworkConfiguration::crd(),
        NetworkNamespace::crd(),
        MachineClass::crd(),
        novacron::VirtualMachine::crd(),
    ];
    crds.iter_mut().for_each(polish);
    crds
}

fn polish(crd: &mut CustomResourceDefinition) {
    let group = crd.spec.group.clone();
    for version in &mut crd.spec.versions {
        let api_version = format!("{group}/{}", version.name);
        let validation = version.schema.as_mut();
        if let Some(schema) = validation.and_then(|v| v.open_api_v3_schema.as_mut()) {
            polish_schema(schema);
            complete_root(schema, &api_version);
        }
    }
}

/// States what every object has, and asks for a spec by a rule with a message.
fn complete_root(root: &mut JSONSchemaProps, api_version: &str) {
    let properties = root.properties.get_or_insert_default();
    let version = format!("Group and version of the kind, {api_version}.");
    properties.insert("apiVersion".into(), plain("string", Some(&version)));
    let kind = plain("string", Some("The kind of the object."));
    properties.insert("kind".into(), kind);
    // The API server allows nothing more to be said of metadata, not even a description.
    properties.insert("metadata".into(), plain("object", None));
    root.required = None;
    root.x_kubernetes_validations
        .get_or_insert_default()
        .push(ValidationRule {
            rule: "has(self.spec)".into(),
            message: Some("Give spec: it says what is wanted".into()),
            ..ValidationRule::default()
        });
}

fn plain(type_: &str, description: Option<&str>) -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some(type_.into()),
        description: description.map(Into::into),
        ..JSONSchemaProps::default()
    }
}

/// kube lets every optional quantity be null; see [`crate::schema::kubernetes_style`] for why not.
fn polish_schema(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    children(schema).for_each(polish_schema);
}

fn children(schema: &mut JSONSchemaProps) -> impl Iterator<Item = &mut JSONSchemaProps> {
    let properties = schema
        .properties
        .iter_mut()
        .flat_map(|map| map.values_mut());
    let items = schema.items.iter_mut().filter_map(|items| match items {
        JSONSchemaPropsOrArray::Schema(one) => Some(one.as_mut()),
        JSONSchemaPropsOrArray::Schemas(_) => None,
    });
    let values = schema
        .additional_properties
        .iter_mut()
        .filter_map(|extra| match extra {
            JSONSchemaPropsOrBool::Schema(one) => Some(one.as_mut()),
            JSONSchemaPropsOrBool::Bool(_) => None,
        });
    properties.chain(items).chain(values)
}
