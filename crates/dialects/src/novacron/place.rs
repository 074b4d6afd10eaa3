//! Which Provider runs a VM. Pure.

use polyvirt_api::novacron::Obstacle;
use polyvirt_engine::runtime::key::ObjectKey;

/// Why it cannot be said which Provider runs a VM. Tried again when Providers come or go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// There is none.
    #[error("There is no Provider yet. Create one, such as a Provider of type libvirt")]
    NoProvider,
    /// There is none of that name.
    #[error(
        "There is no Provider {0}. Create it, or correct the annotation novacron.io/provider (a name, or namespace/name)"
    )]
    Unknown(String),
    /// Several have that name.
    #[error(
        "There are {0} Providers of that name. Write namespace/name in the annotation novacron.io/provider or in --novacron-default-provider"
    )]
    Ambiguous(usize),
    /// There are several, none is named, and none tells of its hosts.
    #[error(
        "None of the {0} Providers tells what its hosts have, so none can be chosen. Wait until one does, name one in the annotation novacron.io/provider, or give the manager --novacron-default-provider"
    )]
    Silent(usize, Obstacles),
    /// There are several, none is named, and no host of theirs can take it.
    #[error("No Provider has a host for it: {0}. Make room, or ask for less")]
    NoHost(String, Obstacles),
    /// There are several, none is named, and none is for its namespace.
    #[error(
        "None of the {0} Providers is for VMs of this namespace: they are shared with others (spec.consumerNamespaceSelector) or are being deleted. Let the selector of one match the namespace, or create one"
    )]
    NotShared(usize, Obstacles),
    /// There are several, none is named, and its image is of no use to any of them.
    #[error(
        "None of the {0} Providers can have its image: a claim (pvc://) is storage of a cluster, and none of them is of type kubevirt. Create one, or put the disk on a web server or into a registry and write http(s):// or registry://"
    )]
    NoCluster(usize, Obstacles),
}

/// What is against each host of each Provider, and against Providers whose hosts were not looked at.
pub type Obstacles = Vec<Obstacle>;

impl PlaceError {
    /// What is against each host and Provider.
    pub fn obstacles(&self) -> &[Obstacle] {
        match self {
            Self::Silent(_, all)
            | Self::NoHost(_, all)
            | Self::NotShared(_, all)
            | Self::NoCluster(_, all) => all,
            Self::NoProvider | Self::Unknown(_) | Self::Ambiguous(_) => &[],
        }
    }
}

/// Who decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// This one was named, or is the only one.
    This(ObjectKey),
    /// The one with the best host for it.
    Best,
}

/// What is known of the Provider of a VM.
pub struct Wishes<'a> {
    /// The namespace of the VM.
    pub namespace: &'a str,
    /// What its annotation says.
    pub annotation: Option<&'a str>,
    /// The one that it was given before.
    pub before: Option<ObjectKey>,
    /// The one of all VMs that name none.
    pub default: Option<&'a str>,
}

/// The Provider: the one that is named, the one from before, the default one, the only one there is, the best.
pub fn place(wishes: &Wishes<'_>, providers: &[ObjectKey]) -> Result<Rule, PlaceError> {
    let annotation = wishes.annotation.map(str::trim).filter(|a| !a.is_empty());
    if let Some(name) = annotation {
        return named(name, wishes.namespace, providers).map(Rule::This);
    }
    if let Some(before) = &wishes.before {
        return Ok(Rule::This(before.clone()));
    }
    if let Some(name) = wishes.default {
        return named(name, wishes.namespace, providers).map(Rule::This);
    }
    match providers {
        [] => Err(PlaceError::NoProvider),
        [only] => Ok(Rule::This(only.clone())),
        _ => Ok(Rule::Best),
    }
}

/// A bare name is looked for in the VM's own namespace first, then everywhere, where only one may have it.
fn named(name: &str, own: &str, providers: &[ObjectKey]) -> Result<ObjectKey, PlaceError> {
    let exact = match name.split_once('/') {
        Some((namespace, name)) => ObjectKey::new(namespace, name),
        None => ObjectKey::new(own, name),
    };
    if providers.contains(&exact) {
        return Ok(exact);
    }
    let elsewhere: Vec<_> = providers.iter().filter(|p| p.name() == name).collect();
    match elsewhere.as_slice() {
        [only] => Ok((*only).clone()),
        [] => Err(PlaceError::Unknown(name.to_owned())),
        many => Err(PlaceError::Ambiguous(many.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> ObjectKey {
        let (namespace, name) = text.split_once('/').expect("namespace/name");
        ObjectKey::new(namespace, name)
    }

    fn rule(text: &str) -> Rule {
        match text {
            "best" => Rule::Best,
            name => Rule::This(key(name)),
        }
    }

    #[test]
    fn the_nearest_word_decides() {
        let unknown = |name: &str| Err(PlaceError::Unknown(name.to_owned()));
        for (annotation, before, default, providers, expected) in [
            (None, None, None, vec![], Err(PlaceError::NoProvider)),
            (None, None, None, vec!["a/x"], Ok("a/x")),
            (None, None, None, vec!["a/x", "a/y"], Ok("best")),
            (None, None, Some("y"), vec!["a/x", "own/y"], Ok("own/y")),
            (None, None, Some("a/x"), vec!["a/x", "own/y"], Ok("a/x")),
            (
                None,
                Some("a/x"),
                Some("y"),
                vec!["a/x", "own/y"],
                Ok("a/x"),
            ),
            (None, Some("a/gone"), None, vec!["own/y"], Ok("a/gone")),
            (
                Some("y"),
                Some("a/x"),
                None,
                vec!["a/x", "own/y"],
                Ok("own/y"),
            ),
            (Some(" "), None, None, vec!["a/x"], Ok("a/x")),
            (Some("x"), None, None, vec!["a/x", "own/y"], Ok("a/x")),
            (Some("x"), None, None, vec!["a/x", "own/x"], Ok("own/x")),
            (
                Some("x"),
                None,
                None,
                vec!["a/x", "b/x"],
                Err(PlaceError::Ambiguous(2)),
            ),
            (Some("z"), None, Some("y"), vec!["own/y"], unknown("z")),
            (Some("b/x"), None, None, vec!["a/x"], unknown("b/x")),
        ] {
            let wishes = Wishes {
                namespace: "own",
                annotation,
                before: before.map(key),
                default,
            };
            let providers: Vec<_> = providers.into_iter().map(key).collect();
            let found = place(&wishes, &providers);
            assert_eq!(
                found,
                expected.map(rule),
                "{annotation:?} {before:?} {default:?}"
            );
        }
    }
}
