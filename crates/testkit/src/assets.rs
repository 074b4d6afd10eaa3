use std::env;
use std::path::{Path, PathBuf};

use crate::error::{Component, Error};

/// A folder that holds all programs of a control plane.
#[derive(Debug, Clone)]
pub(crate) struct Assets(PathBuf);

impl Assets {
    /// The given folder if there is one, else the first complete one of the usual places.
    pub(crate) fn find(given: Option<&Path>) -> Result<Self, Error> {
        let candidates = given.map_or_else(usual_places, |folder| vec![folder.to_owned()]);
        match candidates.iter().find(|folder| is_complete(folder)) {
            Some(folder) => Ok(Self(folder.clone())),
            None => Err(Error::AssetsMissing {
                looked_in: candidates,
            }),
        }
    }

    pub(crate) fn program(&self, component: Component) -> PathBuf {
        self.0.join(component.name())
    }
}

/// `$KUBEBUILDER_ASSETS`, then the cache that `hack/control-plane.sh` fills.
fn usual_places() -> Vec<PathBuf> {
    let from_env = path_in_env("KUBEBUILDER_ASSETS");
    let cache = path_in_env("POLYVIRT_CACHE")
        .or_else(|| path_in_env("XDG_CACHE_HOME").map(|cache| cache.join("polyvirt")))
        .or_else(|| path_in_env("HOME").map(|home| home.join(".cache/polyvirt")));
    from_env
        .into_iter()
        .chain(cache.map(|cache| cache.join("control-plane")))
        .collect()
}

/// The `kubectl` of those places, else the one of the machine.
pub fn kubectl() -> PathBuf {
    let places = usual_places().into_iter();
    let mut found = places.map(|folder| folder.join("kubectl"));
    let found = found.find(|program| program.is_file());
    found.unwrap_or_else(|| PathBuf::from("kubectl"))
}

fn path_in_env(name: &str) -> Option<PathBuf> {
    env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

fn is_complete(folder: &Path) -> bool {
    [Component::Etcd, Component::ApiServer]
        .iter()
        .all(|part| folder.join(part.name()).is_file())
}
