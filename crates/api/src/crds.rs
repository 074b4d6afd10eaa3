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
use crate::names;
use crate::novacron;
use crate::vitistack::{
    KubevirtConfig, Machine, MachineClass, NetworkConfiguration, NetworkNamespace,
};

/// Which VirtualMachine kubectl means by the short name `vm`. A name of two kinds makes kubectl warn at each use, so one of them
/// has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VmShortName {
    /// That of `infra.virtrigaud.io`.
    #[default]
    Infra,
    /// That of `novacron.io`.
    Novacron,
}

/// Every CustomResourceDefinition of Polyvirt, always in the same order.
pub fn crds() -> Vec<CustomResourceDefinition> {
    crds_with(VmShortName::default())
}

/// Every CustomResourceDefinition, with the short name `vm` where it is wanted.
pub fn crds_with(vm: VmShortName) -> Vec<CustomResourceDefinition> {
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
    for crd in &mut crds {
        take_short_name(crd, vm);
        refuse_running(crd);
    }
    crds
}

/// Takes the short name `vm` from the kind that is not to have it.
fn take_short_name(crd: &mut CustomResourceDefinition, vm: VmShortName) {
    let loses = match vm {
        VmShortName::Infra => novacron::GROUP,
        VmShortName::Novacron => names::GROUP,
    };
    if crd.spec.group == loses {
        let short = crd.spec.names.short_names.iter_mut();
        short.for_each(|names| names.retain(|name| name != "vm"));
    }
}

/// `kubectl patch vm NAME -p '{"spec":{"running":false}}'` is how users of NovaCron stop a VM. An unknown field would be dropped
/// with a warning while the VM runs on, so the field is known, and refused with what to type.
fn refuse_running(crd: &mut CustomResourceDefinition) {
    if crd.spec.group != names::GROUP || crd.spec.names.kind != "VirtualMachine" {
        return;
    }
    for version in &mut crd.spec.versions {
        let validation = version.schema.as_mut();
        let Some(root) = validation.and_then(|v| v.open_api_v3_schema.as_mut()) else {
            continue;
        };
        let properties = root.properties.get_or_insert_default();
        let spec = properties.get_mut("spec");
        if let Some(fields) = spec.and_then(|spec| spec.properties.as_mut()) {
            fields.insert("running".into(), plain("boolean", Some(RUNNING)));
        }
        let rules = root.x_kubernetes_validations.get_or_insert_default();
        rules.push(ValidationRule {
            rule: "!has(self.spec) || !has(self.spec.running)".into(),
            message: Some(RUNNING.into()),
            message_expression: Some(RUNNING_HINT.into()),
            ..ValidationRule::default()
        });
    }
}

const RUNNING: &str = "Always refused: spec.running is a field of virtualmachines.novacron.io. Use spec.powerState here.";
/// No `string(self.spec.running)`: its length is unknown to the API server, which would refuse the rule as too costly.
const RUNNING_HINT: &str = r#"'spec.running is a field of virtualmachines.novacron.io. Start or stop a VM of novacron.io with: kubectl patch virtualmachines.novacron.io/' + self.metadata.name + (self.spec.running ? ' --type merge -p \'{"spec":{"running":true}}\'' : ' --type merge -p \'{"spec":{"running":false}}\'') + '. A VirtualMachine of infra.virtrigaud.io that no other object controls has spec.powerState'"#;

fn polish(crd: &mut CustomResourceDefinition) {
    let group = crd.spec.group.clone();
    for version in &mut crd.spec.versions {
        let api_version = format!("{group}/{}", version.name);
        let validation = version.schema.as_mut();
        if let Some(schema) = validation.and_then(|v| v.open_api_v3_schema.as_mut()) {
            polish_schema(schema);
            let spec = schema.properties.iter_mut().flatten();
            let spec = spec.filter(|(name, _)| *name == "spec");
            spec.for_each(|(_, spec)| strip_list_defaults(spec));
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

/// A default inside a list makes `kubectl apply` of an unchanged manifest send the whole list each time and print `configured`.
/// So there are none: the program acts on absence. A key of a list stays, for the API server insists on a value for it.
fn strip_list_defaults(schema: &mut JSONSchemaProps) {
    let keys = schema
        .x_kubernetes_list_map_keys
        .clone()
        .unwrap_or_default();
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &mut schema.items {
        let fields = item.properties.iter_mut().flatten();
        let others = fields.filter(|(name, _)| !keys.contains(name));
        others.for_each(|(_, field)| strip_defaults(field));
    }
    children(schema).for_each(strip_list_defaults);
}

fn strip_defaults(schema: &mut JSONSchemaProps) {
    schema.default = None;
    children(schema).for_each(strip_defaults);
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
