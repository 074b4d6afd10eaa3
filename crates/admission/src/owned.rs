//! VirtualMachines that were created for an object of another API.
//!
//! The owner declares the VM: a change behind its back is undone, and a deletion loses the disks. So both are refused with the
//! command for the owner. They pass when the owner no longer matters: it is deleted or being deleted, Kubernetes itself cleans
//! up, or the annotation for forced deletion asks for it.

use polyvirt_api::names::FORCE_DELETE_ANNOTATION;
use polyvirt_api::{novacron, vitistack};
use serde_json::Value;

use crate::facts::Facts;
use crate::verdict::{Decision, Verdict};
use crate::wire::Request;

/// Accounts under which Kubernetes deletes what has lost its owner or its namespace. The last one is that of a controller
/// manager without accounts for its parts.
pub(crate) const CLEANERS: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:kube-controller-manager",
];
/// The names under which the manager writes. They tell its writes from those of people where both share an account, as with
/// `polyvirt up`.
const FIELD_MANAGERS: [&str; 3] = ["polyvirt", NOVACRON_MANAGER, VITISTACK_MANAGER];
const NOVACRON_MANAGER: &str = "polyvirt-novacron";
const VITISTACK_MANAGER: &str = "polyvirt-vitistack";

/// The API that an owner belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// VirtualMachine of `novacron.io`.
    Novacron,
    /// Machine of `vitistack.io`.
    Vitistack,
}

impl Dialect {
    fn of(api_version: &str, kind: &str) -> Option<Self> {
        let (group, _) = api_version.split_once('/')?;
        match (group, kind) {
            (novacron::GROUP, "VirtualMachine") => Some(Self::Novacron),
            (vitistack::GROUP, "Machine") => Some(Self::Vitistack),
            _ => None,
        }
    }

    /// The resource with its group, as kubectl takes it.
    const fn resource(self) -> &'static str {
        match self {
            Self::Novacron => "virtualmachines.novacron.io",
            Self::Vitistack => "machines.vitistack.io",
        }
    }

    const fn field_manager(self) -> &'static str {
        match self {
            Self::Novacron => NOVACRON_MANAGER,
            Self::Vitistack => VITISTACK_MANAGER,
        }
    }
}

/// The controlling owner of a VirtualMachine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its API.
    pub dialect: Dialect,
    /// Its name; its namespace is that of the VirtualMachine.
    pub name: String,
    /// Which object of that name it is.
    pub uid: String,
}

impl Owner {
    /// The controlling owner, if it belongs to another API of ours.
    fn of(object: &Value) -> Option<Self> {
        let owners = object["metadata"]["ownerReferences"].as_array()?;
        let owner = owners.iter().find(|owner| owner["controller"] == true)?;
        let word = |field: &str| owner[field].as_str().unwrap_or_default();
        Some(Self {
            dialect: Dialect::of(word("apiVersion"), word("kind"))?,
            name: word("name").to_owned(),
            uid: word("uid").to_owned(),
        })
    }

    /// As kubectl takes it: `virtualmachines.novacron.io/my-vm`.
    fn path(&self) -> String {
        format!("{}/{}", self.dialect.resource(), self.name)
    }
}

/// Whether an owner still decides over its VirtualMachine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// The API server did not answer, or may not be asked.
    Unknown,
    /// It was deleted, perhaps replaced by another object of its name.
    Gone,
    /// It is being deleted.
    Leaving,
    /// It exists and is to stay.
    Stays,
}

/// Refuses to delete a VirtualMachine whose owner is to stay.
pub(crate) fn deletion(request: &Request, facts: &dyn Facts) -> Verdict {
    let old = &request.old_object;
    let Some(owner) = deciding(request, facts) else {
        return Verdict::allowed();
    };
    let path = owner.path();
    if old["metadata"]["annotations"][FORCE_DELETE_ANNOTATION] == "true" {
        let text = format!(
            "{FORCE_DELETE_ANNOTATION}: {path} still declares this VM and reports it as missing"
        );
        return Verdict::warned(vec![text]);
    }
    refused(format!(
        "VirtualMachine {} is controlled by {path}, and its disks would be deleted behind its owner. \
         Delete the owner: kubectl delete {path} --namespace {}. \
         To delete only this object, set its annotation {FORCE_DELETE_ANNOTATION}=true first",
        name(request),
        request.namespace,
    ))
}

/// Refuses a change that the owner would undo; `None` if nothing is against it.
pub(crate) fn edit(request: &Request, facts: &dyn Facts) -> Option<Verdict> {
    if FIELD_MANAGERS.contains(&request.options.field_manager.as_str()) {
        return None;
    }
    let changed = changed_fields(request);
    if changed.is_empty() {
        return None;
    }
    let owner = deciding(request, facts)?;
    let fields: Vec<_> = changed
        .iter()
        .map(|field| format!("spec.{field}"))
        .collect();
    Some(refused(format!(
        "{}: VirtualMachine {} is controlled by {}, which would undo the change. Change the owner: {} --namespace {}",
        fields.join(", "),
        name(request),
        owner.path(),
        command(&owner, &changed, &request.object),
        request.namespace,
    )))
}

/// The owner that decides over the object of the request.
fn deciding(request: &Request, facts: &dyn Facts) -> Option<Owner> {
    let metadata = &request.old_object["metadata"];
    let user = request.user_info.username.as_str();
    if !metadata["deletionTimestamp"].is_null() || CLEANERS.contains(&user) {
        return None;
    }
    let owner = Owner::of(&request.old_object)?;
    match facts.owner(&request.namespace, &owner) {
        OwnerState::Gone | OwnerState::Leaving => None,
        // A VM is not lost because the API server was slow.
        OwnerState::Stays | OwnerState::Unknown => Some(owner),
    }
}

/// Fields of the spec that belong to the owner and differ.
///
/// Two others are requests and not part of the declaration: the power state where the owner does not set it, and the snapshot
/// to revert to.
fn changed_fields(request: &Request) -> Vec<String> {
    let Some(owner) = Owner::of(&request.old_object) else {
        return Vec::new();
    };
    let (old, new) = (&request.old_object["spec"], &request.object["spec"]);
    let names = [old, new].into_iter().filter_map(Value::as_object);
    let mut names: Vec<_> = names.flat_map(|fields| fields.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let differs = |name: &&String| old.get(name.as_str()) != new.get(name.as_str());
    let free = |name: &&String| match name.as_str() {
        "snapshot" => true,
        "powerState" => !sets_power(&request.old_object, owner.dialect),
        _ => false,
    };
    let names = names.into_iter().filter(differs).filter(|name| !free(name));
    names.cloned().collect()
}

/// Whether the owner's controller has applied the power state, by the API server's records of who wrote what.
fn sets_power(object: &Value, dialect: Dialect) -> bool {
    let writes = object["metadata"]["managedFields"].as_array();
    writes.into_iter().flatten().any(|write| {
        write["manager"] == dialect.field_manager()
            && write["operation"] == "Apply"
            && !write["fieldsV1"]["f:spec"]["f:powerState"].is_null()
    })
}

/// What to type instead.
fn command(owner: &Owner, changed: &[String], object: &Value) -> String {
    let path = owner.path();
    let power = object["spec"]["powerState"].as_str();
    match (owner.dialect, changed, power) {
        (Dialect::Novacron, [field], Some(power)) if field == "powerState" => {
            let body = format!(r#"{{"spec":{{"running":{}}}}}"#, power == "On");
            format!("kubectl patch {path} --type merge -p '{body}'")
        }
        (Dialect::Vitistack, [field], Some(power)) if field == "powerState" => {
            let annotation = vitistack::POWER_STATE_ANNOTATION;
            format!("kubectl annotate {path} --overwrite {annotation}={power}")
        }
        _ => format!("kubectl edit {path}"),
    }
}

/// The request has no name where a whole collection is deleted; the object has.
fn name(request: &Request) -> String {
    let name = request.old_object["metadata"]["name"].as_str();
    format!("{}/{}", request.namespace, name.unwrap_or(&request.name))
}

const fn refused(message: String) -> Verdict {
    Verdict {
        decision: Decision::Owned(message),
        warnings: Vec::new(),
    }
}
