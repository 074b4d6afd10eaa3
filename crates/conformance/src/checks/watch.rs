//! The stream of changes.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use polyvirt_contract::model::{PowerOp, PowerState, VmRef, VmState};
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{Extension, Result};

use crate::check::{Check, Checked, Failure, Need, check, ensure};
use crate::lab::Lab;

const WATCH: &[Need] = &[Need::Extension(Extension::Watch)];

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(
            "watch-snapshot",
            "A stream begins with all VMs, then says so.",
            WATCH,
            snapshot
        ),
        check!(
            "watch-changes",
            "A change is told, with a higher revision.",
            WATCH,
            changes
        ),
        check!("watch-create", "A new VM is told.", WATCH, new_vm),
        check!(
            "watch-gone",
            "A deletion is told, newer than all before.",
            WATCH,
            gone
        ),
    ]
}

/// A stream, and how long to wait for its next word.
struct Reader {
    stream: BoxStream<'static, Result<VmEvent>>,
    patience: Duration,
}

impl Reader {
    async fn open(lab: &Lab) -> Checked<Self> {
        Ok(Self {
            stream: lab.provider().watch().await?,
            patience: lab.patience(),
        })
    }

    /// A stream that has told all VMs.
    async fn synced(lab: &Lab) -> Checked<Self> {
        let mut reader = Self::open(lab).await?;
        reader
            .first(|event| (event == VmEvent::Synced).then_some(()))
            .await?;
        Ok(reader)
    }

    async fn next(&mut self) -> Checked<VmEvent> {
        let next = tokio::time::timeout(self.patience, self.stream.next()).await;
        match next {
            Err(_) => Err(Failure::new(
                "the stream was silent for too long".to_owned(),
            )),
            Ok(None) => Err(Failure::new("the stream ended".to_owned())),
            Ok(Some(event)) => Ok(event?),
        }
    }

    /// The first message that is looked for; others are passed over.
    async fn first<T>(&mut self, wanted: impl Fn(VmEvent) -> Option<T>) -> Checked<T> {
        let search = async {
            loop {
                if let Some(found) = wanted(self.next().await?) {
                    return Ok(found);
                }
            }
        };
        search.await
    }

    /// The first state of the VM that is looked for.
    async fn state(&mut self, vm: &VmRef, wanted: impl Fn(&VmState) -> bool) -> Checked<VmState> {
        let fits = |event| match event {
            VmEvent::State(state) if state.id == vm.id && wanted(&state) => Some(state),
            _ => None,
        };
        self.first(fits).await
    }
}

async fn snapshot(lab: &Lab) -> Checked {
    let vms = [lab.vm().await?, lab.running().await?];
    let mut reader = Reader::open(lab).await?;
    let mut told = Vec::new();
    loop {
        match reader.next().await? {
            VmEvent::Synced => break,
            VmEvent::State(state) => told.push(state),
            VmEvent::Gone { .. } | VmEvent::Task { .. } | VmEvent::Heartbeat => {}
        }
    }
    for vm in &vms {
        let now = lab.state(&vm.id).await?;
        let state = told.iter().find(|state| state.id == vm.id);
        let known = state.is_some_and(|state| {
            state.power == now.power && state.name == now.name && state.revision <= now.revision
        });
        ensure!(known, "{now:?} was told as {state:?}");
    }
    Ok(())
}

async fn changes(lab: &Lab) -> Checked {
    let vm = lab.vm().await?;
    let before = lab.state(&vm.id).await?;
    let mut reader = Reader::synced(lab).await?;
    lab.switch(&vm, PowerOp::On).await?;
    let on = reader
        .state(&vm, |state| state.power == PowerState::On)
        .await?;
    ensure!(
        on.revision > before.revision,
        "revision {} follows {}",
        on.revision,
        before.revision
    );
    lab.switch(&vm, PowerOp::Off).await?;
    let off = reader
        .state(&vm, |state| {
            state.power == PowerState::Off && state.revision > on.revision
        })
        .await?;
    let described = lab.state(&vm.id).await?;
    ensure!(
        described.revision >= off.revision,
        "a description is older than what was told before it"
    );
    Ok(())
}

async fn new_vm(lab: &Lab) -> Checked {
    let mut reader = Reader::synced(lab).await?;
    let vm = lab.vm().await?;
    let told = reader.state(&vm, |_| true).await?;
    if lab.offered().features.has(Extension::Identity) {
        ensure!(
            told.owner == vm.owner,
            "it was told with the owner {:?}",
            told.owner
        );
    }
    Ok(())
}

async fn gone(lab: &Lab) -> Checked {
    let vm = lab.vm().await?;
    let last = lab.state(&vm.id).await?.revision;
    let mut reader = Reader::synced(lab).await?;
    lab.delete(&vm).await?;
    let (revision, identity) = reader
        .first(|event| match event {
            VmEvent::Gone {
                id,
                identity,
                revision,
            } if id == vm.id => Some((revision, identity)),
            _ => None,
        })
        .await?;
    ensure!(
        revision > last,
        "revision {revision} of its end does not follow {last}"
    );
    let owner = vm.owner.map(|owner| owner.identity);
    let known = identity.is_none() || identity == owner;
    ensure!(known, "it was told as the VM of {identity:?}");
    Ok(())
}
