//! One VM: found, made, changed, started, stopped, taken away.

mod adopt;
mod create;
mod delete;
mod look;
mod plug;
mod power;
mod reconfigure;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::core::DynamicObject;
use kube::runtime::watcher::watch_object;
use polyvirt_contract::model::{Owner, VmRef};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_provider_kit::hub::Hub;
use polyvirt_provider_kit::tasks::{Begun, Progress, Tasks};
use tokio_util::sync::CancellationToken;

use crate::books::Books;
use crate::cluster::Cluster;
use crate::config::Images;
use crate::errors;
use crate::kinds::{Kind, VmKey, owner};
use crate::moves::Moves;
use crate::usage::Ledger;

pub(crate) use adopt::mark_claims;
pub(crate) use create::{create, ensure_namespace};
pub(crate) use delete::delete;
pub(crate) use look::{describe, find, key_of, list};
pub(crate) use power::{carried_out, halt, power};
pub(crate) use reconfigure::reconfigure;

/// What every call works with.
pub(crate) struct Core {
    pub(crate) cluster: Cluster,
    pub(crate) books: Arc<Books>,
    pub(crate) hub: Hub,
    pub(crate) tasks: Tasks,
    pub(crate) moves: Moves,
    pub(crate) images: Images,
    /// Keys of taints that VMs tolerate.
    pub(crate) tolerated: BTreeSet<String>,
    pub(crate) usage: Ledger,
    pub(crate) stop: CancellationToken,
}

/// No task goes on for longer.
const LONGEST: Duration = Duration::from_hours(2);

impl Core {
    /// Begins work that may outlive its call, unless the same is under way. A task that dies with the provider is forgotten: the
    /// caller looks at the VM and asks again, and every task begins by looking how far the one before it came.
    pub(crate) fn begin<F>(&self, key: &str, work: impl FnOnce(Progress) -> F) -> Begun
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        self.tasks.begin(key, |progress| {
            let work = work(progress);
            async move {
                let ended = tokio::time::timeout(LONGEST, work).await;
                ended.unwrap_or_else(|_| Err(errors::late("The task")))
            }
        })
    }

    /// The same for work whose end others decide on, however late it comes.
    pub(crate) fn begin_open<F>(&self, key: &str, work: impl FnOnce(Progress) -> F) -> Begun
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        self.tasks.begin(key, work)
    }

    /// The VirtualMachine that a call may change: it is there, and it is not somebody else's.
    pub(crate) async fn allowed(&self, vm: &VmRef) -> Result<(VmKey, DynamicObject)> {
        let absent = || ProviderError::not_found(format!("The VM {}", vm.id));
        let key = VmKey::parse(&vm.id).ok_or_else(absent)?;
        let found = self.cluster.get(Kind::Vm, &key).await?.ok_or_else(absent)?;
        belongs(&found, vm.owner.as_ref())?;
        Ok((key, found))
    }

    /// Waits for an object to be as expected, or to be gone, which is told as `None`. No polling: its own watch tells.
    pub(crate) async fn until(
        &self,
        kind: Kind,
        key: &VmKey,
        patience: Duration,
        expected: impl Fn(Option<&DynamicObject>) -> bool,
    ) -> Result<()> {
        let mut changes = watch_object(self.cluster.api(kind, &key.namespace), &key.name).boxed();
        let waiting = async {
            while let Some(change) = changes.next().await {
                match change {
                    Ok(object) if expected(object.as_ref()) => return Ok(()),
                    Ok(_) => {}
                    Err(error) => return Err(errors::watch(&error)),
                }
            }
            Err(errors::internal("The watch of an object ended"))
        };
        let late = || errors::late(&format!("Waiting for the {} {key}", kind.name()));
        tokio::time::timeout(patience, waiting)
            .await
            .unwrap_or_else(|_| Err(late()))
    }
}

/// Whose the object is must be who asks; one without a mark, or a caller without one, is not in the way.
pub(crate) fn belongs(object: &DynamicObject, asks: Option<&Owner>) -> Result<()> {
    let (Some(is), Some(asks)) = (owner(object), asks) else {
        return Ok(());
    };
    if is.identity == asks.identity {
        return Ok(());
    }
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let message = format!(
        "The VM {name} belongs to {}/{} and is not touched",
        is.namespace, is.name
    );
    Err(ProviderError::new(ErrorKind::IdentityConflict, message))
}
