//! The requests that the provider makes, each with a deadline.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::core::{DynamicObject, ObjectList};
use kube::{Api, Client};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::config::KubevirtConfig;
use crate::errors;
use crate::kinds::{Kind, MANAGER, NOTES, VmKey};

/// Objects of one page of a list.
const PAGE: u32 = 500;

/// What happens to fields that somebody else holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    /// They are left as they are, and the whole request is refused.
    Respect,
    /// They become ours.
    Override,
}

/// All objects that were asked for, as of one moment.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) objects: Vec<DynamicObject>,
    /// The moment: newer than every object that is in it, and than the end of every one that is not.
    pub(crate) version: u64,
}

/// What a cluster says of a kind that it need not have.
pub(crate) enum Served<T> {
    Yes(T),
    /// It does not know the kind.
    No,
    /// It keeps from us a kind that VMs can do without.
    Kept,
}

impl<T> Served<T> {
    fn seen(self) -> Option<T> {
        match self {
            Self::Yes(found) => Some(found),
            Self::No | Self::Kept => None,
        }
    }
}

/// A cluster with KubeVirt.
pub(crate) struct Cluster {
    client: Client,
    deadline: Duration,
    /// The only namespace to look at; `None` for all.
    pub(crate) namespace: Option<String>,
    uid: OnceCell<String>,
    /// Kinds of which was told that they are kept from us.
    told: Mutex<BTreeSet<Kind>>,
}

impl Cluster {
    pub(crate) fn new(client: Client, config: &KubevirtConfig) -> Self {
        Self {
            client,
            deadline: config.deadline,
            namespace: config.namespace.clone(),
            uid: OnceCell::new(),
            told: Mutex::default(),
        }
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn api(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &kind.resource())
    }

    /// Everything that the provider may look at.
    pub(crate) fn everywhere(&self, kind: Kind) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => self.api(kind, namespace),
            None => self.global(kind),
        }
    }

    pub(crate) fn global(&self, kind: Kind) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &kind.resource())
    }

    /// Where an object is; one without a namespace is of the whole cluster.
    fn home(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        match namespace {
            "" => self.global(kind),
            namespace => self.api(kind, namespace),
        }
    }

    /// A request with a deadline, and its failure in the words of the contract.
    pub(crate) async fn ask<T>(
        &self,
        doing: &str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T> {
        match tokio::time::timeout(self.deadline, request).await {
            Ok(answer) => answer.map_err(|error| errors::api(doing, &error)),
            Err(_) => Err(errors::late(doing)),
        }
    }

    /// The object; `None` if the cluster has looked and it is not there.
    pub(crate) async fn get(&self, kind: Kind, key: &VmKey) -> Result<Option<DynamicObject>> {
        let api = self.api(kind, &key.namespace);
        self.found(kind, api.get(&key.name)).await
    }

    /// The object that is of the whole cluster.
    pub(crate) async fn get_global(&self, kind: Kind, name: &str) -> Result<Option<DynamicObject>> {
        let api = self.global(kind);
        self.found(kind, api.get(name)).await
    }

    async fn found<T>(
        &self,
        kind: Kind,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<Option<T>> {
        let request = async {
            match request.await {
                Err(error) if errors::is_absent(&error) => Ok(None),
                answer => answer.map(Some),
            }
        };
        self.ask(&format!("Reading a {}", kind.name()), request)
            .await
    }

    /// All objects of a kind that fit, page by page.
    pub(crate) async fn list(
        &self,
        kind: Kind,
        api: Api<DynamicObject>,
        params: &ListParams,
    ) -> Result<Listed> {
        let listed = self.list_served(kind, api, params).await?;
        listed.ok_or_else(|| {
            let message = format!(
                "The cluster does not serve {} of {}; install what has it",
                kind.name(),
                kind.api_version()
            );
            ProviderError::new(ErrorKind::Unavailable, message)
        })
    }

    /// The same; `None` if the cluster does not serve the kind, or keeps one from us that VMs can do without.
    pub(crate) async fn list_served(
        &self,
        kind: Kind,
        api: Api<DynamicObject>,
        params: &ListParams,
    ) -> Result<Option<Listed>> {
        let mut params = params.clone().limit(PAGE);
        let mut all = Listed::default();
        loop {
            let Some(page) = self.page(kind, &api, &params).await?.seen() else {
                return Ok(None);
            };
            let version = page.metadata.resource_version.as_deref();
            all.version = version.and_then(|text| text.parse().ok()).unwrap_or(0);
            all.objects.extend(page.items);
            match page.metadata.continue_.filter(|next| !next.is_empty()) {
                Some(next) => params = params.continue_token(&next),
                None => return Ok(Some(all)),
            }
        }
    }

    async fn page(
        &self,
        kind: Kind,
        api: &Api<DynamicObject>,
        params: &ListParams,
    ) -> Result<Served<ObjectList<DynamicObject>>> {
        let request = async {
            match api.list(params).await {
                Err(error) if errors::is_unknown_kind(&error) => Ok(Served::No),
                Err(error) if kind.is_optional() && errors::is_forbidden(&error) => {
                    Ok(Served::Kept)
                }
                answer => answer.map(Served::Yes),
            }
        };
        let page = self.ask(&format!("Listing {}", kind.name()), request).await;
        if let Ok(Served::Kept) = &page {
            self.tell(kind);
        }
        page
    }

    /// Says once that the account may see less than there is.
    fn tell(&self, kind: Kind) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(kind) {
            let missing = errors::kept_from_us(kind);
            tracing::warn!("{}. VMs run without it", missing.message);
        }
    }

    /// Whether the cluster serves the kind, and to us.
    pub(crate) async fn serves(&self, kind: Kind) -> Result<Served<()>> {
        let one = ListParams::default().limit(1);
        let api = match kind {
            Kind::MigrationPolicy => self.global(kind),
            kind => self.everywhere(kind),
        };
        let page = self.page(kind, &api, &one).await?;
        Ok(match page {
            Served::Yes(_) => Served::Yes(()),
            Served::No => Served::No,
            Served::Kept => Served::Kept,
        })
    }

    /// The one object of that name, with the moment at which it was looked for.
    pub(crate) async fn look(&self, kind: Kind, key: &VmKey) -> Result<Listed> {
        let params = ListParams::default().fields(&format!("metadata.name={}", key.name));
        let api = self.api(kind, &key.namespace);
        self.list(kind, api, &params).await
    }

    /// Writes our fields of an object, which is made if it is not there.
    pub(crate) async fn apply(
        &self,
        kind: Kind,
        object: &Value,
        others: Others,
    ) -> Result<DynamicObject> {
        let name = text_of(object, "name");
        let api = self.home(kind, &text_of(object, "namespace"));
        let mut params = PatchParams::apply(MANAGER);
        params.force = others == Others::Override;
        let patch = Patch::Apply(object);
        let doing = format!("Writing the {} {name}", kind.name());
        self.ask(&doing, api.patch(&name, &params, &patch)).await
    }

    /// Changes some fields of an object, as long as it is the one that was read.
    pub(crate) async fn patch(
        &self,
        kind: Kind,
        seen: &DynamicObject,
        change: Value,
    ) -> Result<DynamicObject> {
        let (name, namespace) = place(seen);
        let mut change = change;
        change["metadata"]["resourceVersion"] = json!(seen.metadata.resource_version);
        let params = PatchParams {
            field_manager: Some(NOTES.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(&change);
        let doing = format!("Changing the {} {name}", kind.name());
        let api = self.api(kind, &namespace);
        self.ask(&doing, api.patch(&name, &params, &patch)).await
    }

    /// Writes an annotation of ours to the very object that was read, whatever others write to it at the same time.
    pub(crate) async fn annotate(
        &self,
        kind: Kind,
        seen: &DynamicObject,
        key: &str,
        value: &str,
    ) -> Result<()> {
        let (name, namespace) = place(seen);
        let change = json!({"metadata": {
            "uid": seen.metadata.uid,
            "annotations": {key: value},
        }});
        let params = PatchParams {
            field_manager: Some(NOTES.to_owned()),
            ..PatchParams::default()
        };
        let doing = format!("Changing the {} {name}", kind.name());
        let (api, patch) = (self.api(kind, &namespace), Patch::Merge(&change));
        let asked = self.ask(&doing, api.patch(&name, &params, &patch)).await;
        asked.map(drop)
    }

    /// Changes one value of the very object that was read, if it still is what it was: what others write beside it does not matter.
    pub(crate) async fn replace(
        &self,
        kind: Kind,
        seen: &DynamicObject,
        pointer: &str,
        value: &Value,
    ) -> Result<()> {
        let (name, namespace) = place(seen);
        let steps = json!([
            {"op": "test", "path": "/metadata/uid", "value": seen.metadata.uid},
            {"op": "test", "path": pointer, "value": seen.data.pointer(pointer)},
            {"op": "replace", "path": pointer, "value": value},
        ]);
        let doing = format!("Changing the {} {name}", kind.name());
        let steps = serde_json::from_value(steps).map_err(|_| errors::internal(&doing))?;
        let params = PatchParams {
            field_manager: Some(NOTES.to_owned()),
            ..PatchParams::default()
        };
        let (api, patch) = (self.api(kind, &namespace), Patch::Json::<()>(steps));
        let asked = self.ask(&doing, api.patch(&name, &params, &patch)).await;
        asked.map(drop)
    }

    /// Deletes the very object that was read; one that is gone is gone.
    pub(crate) async fn delete(&self, kind: Kind, seen: &DynamicObject) -> Result<()> {
        let (name, namespace) = place(seen);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: seen.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        let api = self.home(kind, &namespace);
        let request = async {
            match api.delete(&name, &params).await {
                Err(error) if errors::is_absent(&error) => Ok(()),
                answer => answer.map(drop),
            }
        };
        let doing = format!("Deleting the {} {name}", kind.name());
        self.ask(&doing, request).await
    }

    /// What tells this cluster from all others; empty if we may not know.
    pub(crate) async fn uid(&self) -> Result<String> {
        let read = async || match self.get_global(Kind::Namespace, "kube-system").await {
            Ok(found) => Ok(found
                .and_then(|namespace| namespace.metadata.uid)
                .unwrap_or_default()),
            Err(error) if error.kind == ErrorKind::PermissionDenied => Ok(String::new()),
            Err(error) => Err::<_, ProviderError>(error),
        };
        self.uid.get_or_try_init(read).await.cloned()
    }
}

fn text_of(object: &Value, field: &str) -> String {
    let found = object["metadata"][field].as_str();
    found.unwrap_or_default().to_owned()
}

fn place(object: &DynamicObject) -> (String, String) {
    let metadata = &object.metadata;
    (
        metadata.name.clone().unwrap_or_default(),
        metadata.namespace.clone().unwrap_or_default(),
    )
}
