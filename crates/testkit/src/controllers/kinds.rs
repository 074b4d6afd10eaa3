//! Which kinds of objects the API server stores, from discovery.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResource, APIResourceList};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};

/// A kind whose objects can be listed and deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub resource: ApiResource,
    pub namespaced: bool,
    verbs: Vec<String>,
}

/// What discovery returned.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub kinds: Vec<Kind>,
    /// The groups that could not be read, with the reason: usually an aggregated API whose server is down.
    pub failed: Vec<String>,
}

impl Kind {
    pub fn has(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// The name in messages and as a key: `virtualmachines.infra.virtrigaud.io`.
    pub fn name(&self) -> String {
        match self.resource.group.as_str() {
            "" => self.resource.plural.clone(),
            group => format!("{}.{group}", self.resource.plural),
        }
    }

    /// The objects in a namespace; all objects for a kind of the cluster or without a namespace.
    pub fn api(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace.filter(|_| self.namespaced) {
            Some(space) => Api::namespaced_with(client.clone(), space, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }
}

/// Reads which kinds there are. A group that cannot be read is reported in the result, not as an error.
pub(super) async fn discover(client: &Client) -> kube::Result<Known> {
    let mut known = Known::default();
    known.add("v1", client.list_core_api_resources("v1").await);
    for group in client.list_api_groups().await?.groups {
        let version = preferred(&group);
        let resources = client.list_api_group_resources(&version).await;
        known.add(&version, resources);
    }
    Ok(known)
}

fn preferred(group: &APIGroup) -> String {
    let preferred = group.preferred_version.as_ref();
    let version = preferred.or_else(|| group.versions.first());
    version
        .map(|version| version.group_version.clone())
        .unwrap_or_default()
}

impl Known {
    fn add(&mut self, version: &str, resources: kube::Result<APIResourceList>) {
        match resources {
            Ok(list) => {
                let kinds = list.resources.into_iter();
                self.kinds
                    .extend(kinds.filter_map(|found| kind(version, found)));
            }
            Err(error) => self.failed.push(format!("{version}: {error}")),
        }
    }
}

/// `None` for subresources and for what is computed, such as reviews of access.
fn kind(version: &str, found: APIResource) -> Option<Kind> {
    let is_object = ["list", "delete"]
        .iter()
        .all(|verb| found.verbs.iter().any(|known| known == verb));
    if found.name.contains('/') || !is_object {
        return None;
    }
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let gvk = GroupVersionKind::gvk(group, version, &found.kind);
    Some(Kind {
        resource: ApiResource::from_gvk_with_plural(&gvk, &found.name),
        namespaced: found.namespaced,
        verbs: found.verbs,
    })
}
