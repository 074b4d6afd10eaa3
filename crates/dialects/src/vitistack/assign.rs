//! Which KubevirtConfig a Machine belongs to. Pure.
//!
//! ```text
//!   annotation ─► spec ─► status ─► DEFAULT_KUBEVIRT_CONFIG ─► the only one ─► the one whose cluster has the VM ─► error
//! ```

use polyvirt_api::vitistack::{KUBEVIRT_CONFIG_ANNOTATION, Machine};
use polyvirt_engine::runtime::key::ObjectKey;

/// How a KubevirtConfig came to be the one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// The Machine names it.
    Named,
    /// It was written down before.
    Recorded,
    /// It is the default.
    Default,
    /// There is no other.
    Only,
    /// Its cluster has the VM.
    Found,
}

/// What is to be done about the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// The answer.
    Use(ObjectKey, Chosen),
    /// Ask these clusters whether they have the VM.
    Search(Vec<ObjectKey>),
}

/// What one cluster says about the VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// It has it.
    There,
    /// It does not have it.
    Absent,
    /// It does not answer.
    Silent,
}

/// Why there is no answer. The texts are those of the operator that people know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignError {
    /// Nothing to choose from.
    #[error(
        "Machine {0} has no KubevirtConfig reference and no KubevirtConfigs are available. Create one, with the Secret that it names, where KUBEVIRT_CONFIGS_NAMESPACE of the manager says (in default, if it says nothing)"
    )]
    None(String),
    /// More than one to choose from.
    #[error(
        "Machine {0} has no KubevirtConfig reference and {1} configs are available - cannot determine placement. Name one in the annotation vitistack.io/kubevirt-config, or set DEFAULT_KUBEVIRT_CONFIG"
    )]
    Undecided(String, usize),
    /// The VM is in more than one cluster.
    #[error(
        "Machine {machine} has no KubevirtConfig reference and its VM is in {} clusters ({}) - cannot determine placement. Name one in the annotation vitistack.io/kubevirt-config",
        .found.len(), names(.found)
    )]
    Ambiguous {
        /// The Machine.
        machine: String,
        /// Those whose clusters have the VM.
        found: Vec<ObjectKey>,
    },
    /// A cluster that may have the VM does not answer: to choose another could make a second VM.
    #[error(
        "Machine {machine} has no KubevirtConfig reference and these clusters do not answer: {} - cannot determine placement. Work goes on when they do; or name one in the annotation vitistack.io/kubevirt-config",
        names(.silent)
    )]
    Silent {
        /// The Machine.
        machine: String,
        /// Those that do not answer.
        silent: Vec<ObjectKey>,
    },
    /// What is named does not exist.
    #[error(
        "Failed to get KubeVirt client for machine: {by}: There is no KubevirtConfig {name} where KUBEVIRT_CONFIGS_NAMESPACE of the manager says (in default, if it says nothing). Create it, or correct the name"
    )]
    Missing {
        /// Where it is named.
        by: &'static str,
        /// The name.
        name: String,
    },
    /// What is named exists in several namespaces.
    #[error("{by}: KubevirtConfig {name} is in several namespaces. Write namespace/name")]
    Twice {
        /// Where it is named.
        by: &'static str,
        /// The name.
        name: String,
    },
    /// The VM is, or may be, in the cluster of another one.
    #[error(
        "Machine {machine} names KubevirtConfig {wanted}, and its VM is in the cluster of {here}, or may be there as long as that does not answer. A VM does not move by an edit: name {here} again in the annotation vitistack.io/kubevirt-config, or delete the Machine and create it anew"
    )]
    Elsewhere {
        /// The Machine.
        machine: String,
        /// Whose cluster has the VM.
        here: String,
        /// What the Machine names now.
        wanted: String,
    },
    /// The Machine names two.
    #[error(
        "spec.kubevirtConfigRef: {spec} is named here, and {annotation} in the annotation vitistack.io/kubevirt-config. Make them the same"
    )]
    Contradiction {
        /// In the spec.
        spec: String,
        /// In the annotation.
        annotation: String,
    },
}

impl AssignError {
    /// Whether the answer may come though nobody changes an object of ours.
    pub const fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Silent { .. }
                | Self::Undecided(..)
                | Self::Ambiguous { .. }
                | Self::Elsewhere { .. }
        )
    }
}

fn names(keys: &[ObjectKey]) -> String {
    let names: Vec<_> = keys.iter().map(ObjectKey::name).collect();
    names.join(", ")
}

/// Decides, or says whom to ask. `seen` is what they said.
pub fn assign(
    machine: &Machine,
    default: Option<&str>,
    configs: &[ObjectKey],
    seen: Option<&[(ObjectKey, Sighting)]>,
) -> Result<Assignment, AssignError> {
    if let Some((by, name, chosen)) = named(machine, default)? {
        return lookup(configs, by, name).map(|key| Assignment::Use(key, chosen));
    }
    let name = machine.metadata.name.clone().unwrap_or_default();
    match (configs, seen) {
        ([], _) => Err(AssignError::None(name)),
        ([only], _) => Ok(Assignment::Use(only.clone(), Chosen::Only)),
        (several, None) => Ok(Assignment::Search(several.to_vec())),
        (several, Some(seen)) => judge(name, several.len(), seen),
    }
}

type Named<'a> = (&'static str, &'a str, Chosen);

fn named<'a>(
    machine: &'a Machine,
    default: Option<&'a str>,
) -> Result<Option<Named<'a>>, AssignError> {
    let annotations = machine.metadata.annotations.as_ref();
    let annotation = annotations.and_then(|all| given(all.get(KUBEVIRT_CONFIG_ANNOTATION)));
    let spec = given(machine.spec.kubevirt_config_ref.as_ref());
    if let (Some(annotation), Some(spec)) = (annotation, spec)
        && annotation != spec
    {
        let (spec, annotation) = (spec.to_owned(), annotation.to_owned());
        return Err(AssignError::Contradiction { spec, annotation });
    }
    let status = machine.status.as_ref();
    let recorded = status.and_then(|s| given(s.kubevirt_config_ref.as_ref()));
    let sources = [
        (
            "metadata.annotations[vitistack.io/kubevirt-config]",
            annotation,
            Chosen::Named,
        ),
        ("spec.kubevirtConfigRef", spec, Chosen::Named),
        ("status.kubevirtConfigRef", recorded, Chosen::Recorded),
        ("DEFAULT_KUBEVIRT_CONFIG", default, Chosen::Default),
    ];
    let found = sources
        .into_iter()
        .find_map(|(by, name, chosen)| Some((by, name?, chosen)));
    Ok(found)
}

fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|t| !t.is_empty())
}

/// By name, or by namespace and name.
fn lookup(configs: &[ObjectKey], by: &'static str, wanted: &str) -> Result<ObjectKey, AssignError> {
    let fits = |key: &&ObjectKey| key.name() == wanted || key.to_string() == wanted;
    let found: Vec<_> = configs.iter().filter(fits).collect();
    let name = wanted.to_owned();
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(AssignError::Missing { by, name }),
        _ => Err(AssignError::Twice { by, name }),
    }
}

/// One that has the VM is the one. Only when all say that they do not have it is it certain that none has.
fn judge(
    machine: String,
    configs: usize,
    seen: &[(ObjectKey, Sighting)],
) -> Result<Assignment, AssignError> {
    let that = |wanted| {
        let fitting = seen.iter().filter(move |(_, sighting)| *sighting == wanted);
        fitting.map(|(key, _)| key.clone()).collect::<Vec<_>>()
    };
    let (found, silent) = (that(Sighting::There), that(Sighting::Silent));
    match (found.as_slice(), silent.is_empty()) {
        ([one], _) => Ok(Assignment::Use(one.clone(), Chosen::Found)),
        ([], true) => Err(AssignError::Undecided(machine, configs)),
        ([], false) => Err(AssignError::Silent { machine, silent }),
        _ => Err(AssignError::Ambiguous { machine, found }),
    }
}

#[cfg(test)]
mod tests;
