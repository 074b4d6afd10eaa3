//! Deletes what a namespace holds after its deletion was requested, and then the namespace.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::Request;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::time::{MissedTickBehavior, interval};

use super::kinds::{Kind, discover};

/// Objects leave when their finalizers are removed, which no watch of namespaces shows.
const RETRY: Duration = Duration::from_millis(500);
/// The finalizer that the API server puts on each namespace, for this controller.
const FINALIZER: &str = "kubernetes";
const METHOD_NOT_ALLOWED: u16 = 405;

/// Whether a namespace needs another attempt.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Waiting,
}

/// What is left in a namespace, in the words of its conditions.
#[derive(Debug, Default)]
struct Left {
    objects: Vec<String>,
    failures: Vec<String>,
}

/// Handles deletions of namespaces until it is dropped.
pub(super) async fn run(client: Client) {
    let api = Api::<Namespace>::all(client.clone());
    let events = watcher(api, watcher::Config::default());
    let mut events = pin!(events.default_backoff().touched_objects());
    let mut pending = BTreeSet::new();
    let mut ticks = interval(RETRY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(space)) => note(&mut pending, &space),
                Some(Err(error)) => tracing::debug!(%error, "the watch of namespaces failed; it is retried"),
                None => return,
            },
            _ = ticks.tick(), if !pending.is_empty() => retry(&client, &mut pending).await,
        }
    }
}

fn note(pending: &mut BTreeSet<String>, space: &Namespace) {
    if space.metadata.deletion_timestamp.is_some() {
        pending.insert(space.name_any());
    }
}

async fn retry(client: &Client, pending: &mut BTreeSet<String>) {
    for name in pending.clone() {
        match empty(client, &name).await {
            Ok(Outcome::Done) => {
                pending.remove(&name);
            }
            Ok(Outcome::Waiting) => {}
            Err(error) => {
                tracing::debug!(%error, name, "deletion of a namespace failed; it is retried");
            }
        }
    }
}

/// One attempt to empty the namespace and to finalize it. Every step can be repeated.
async fn empty(client: &Client, name: &str) -> kube::Result<Outcome> {
    let api = Api::<Namespace>::all(client.clone());
    let Some(space) = api.get_opt(name).await? else {
        return Ok(Outcome::Done);
    };
    if !is_ours(&space) {
        return Ok(Outcome::Done);
    }
    let left = delete_all(client, name).await?;
    if left.objects.is_empty() && left.failures.is_empty() {
        finalize(client, space).await?;
        return Ok(Outcome::Done);
    }
    report(&api, space, &left).await?;
    Ok(Outcome::Waiting)
}

/// Deleted, and not yet finalized by us. Other finalizers are for other controllers.
fn is_ours(space: &Namespace) -> bool {
    let spec = space.spec.as_ref();
    let finalizers = spec.and_then(|spec| spec.finalizers.as_ref());
    space.metadata.deletion_timestamp.is_some()
        && finalizers.is_some_and(|all| all.iter().any(|finalizer| finalizer == FINALIZER))
}

async fn delete_all(client: &Client, name: &str) -> kube::Result<Left> {
    let known = discover(client).await?;
    let mut left = Left {
        failures: known.failed,
        ..Left::default()
    };
    for kind in known.kinds.iter().filter(|kind| kind.namespaced) {
        match delete_kind(client, kind, name).await {
            Ok(0) => {}
            Ok(count) => left.objects.push(format!("{} {}", count, kind.name())),
            Err(error) => left.failures.push(format!("{}: {error}", kind.name())),
        }
    }
    Ok(left)
}

/// Requests the deletion of all objects of a kind. Returns how many are still there, because of finalizers for example.
async fn delete_kind(client: &Client, kind: &Kind, space: &str) -> kube::Result<usize> {
    let api = kind.api(client, Some(space));
    let all = ListParams::default();
    let found = match api.list_metadata(&all).await {
        Ok(found) => found.items,
        // A kind that is listed by discovery but stores nothing.
        Err(kube::Error::Api(status)) if status.code == METHOD_NOT_ALLOWED => return Ok(0),
        Err(error) => return Err(error),
    };
    if found.is_empty() {
        return Ok(0);
    }
    let params = DeleteParams::background();
    if kind.has("deletecollection") {
        api.delete_collection(&params, &all).await?;
    } else {
        for object in found {
            api.delete(&object.name_any(), &params).await?;
        }
    }
    Ok(api.list_metadata(&all).await?.items.len())
}

/// Removes our finalizer. The API server removes the namespace when no other is left.
async fn finalize(client: &Client, mut space: Namespace) -> kube::Result<()> {
    if let Some(finalizers) = space
        .spec
        .as_mut()
        .and_then(|spec| spec.finalizers.as_mut())
    {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    let name = space.name_any();
    let body = serde_json::to_vec(&space).map_err(kube::Error::SerdeError)?;
    let request = Request::new("/api/v1/namespaces");
    let request = request
        .replace_subresource("finalize", &name, &PostParams::default(), body)
        .map_err(kube::Error::BuildRequest)?;
    client.request::<Namespace>(request).await?;
    tracing::info!(name, "namespace deleted");
    Ok(())
}

/// Writes into the status what the deletion waits for, if that has changed.
async fn report(api: &Api<Namespace>, mut space: Namespace, left: &Left) -> kube::Result<()> {
    let wanted = [
        condition(
            "NamespaceContentRemaining",
            "SomeResourcesRemain",
            &left.objects,
        ),
        condition(
            "NamespaceDeletionDiscoveryFailure",
            "DiscoveryFailed",
            &left.failures,
        ),
    ];
    let status = space.status.get_or_insert_default();
    let current = status.conditions.get_or_insert_default();
    let is_same = |wanted: &NamespaceCondition| {
        let mut known = current.iter();
        known.any(|known| known.type_ == wanted.type_ && known.message == wanted.message)
    };
    if wanted.iter().all(is_same) {
        return Ok(());
    }
    current.clear();
    current.extend(wanted);
    let name = space.name_any();
    api.replace_status(&name, &PostParams::default(), &space)
        .await?;
    Ok(())
}

fn condition(type_: &str, reason: &str, found: &[String]) -> NamespaceCondition {
    let (status, reason, message) = if found.is_empty() {
        ("False", "None", "None".to_owned())
    } else {
        let message = format!("Still present: {}", found.join(", "));
        ("True", reason, message)
    };
    NamespaceCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: None,
    }
}
