//! Writes to the object: the claim, the records made before a change, the release.

use std::sync::Arc;
use std::time::Duration;

use kube::api::ObjectMeta;
use polyvirt_api::infra::{DriftKind, VirtualMachine};
use polyvirt_api::names;
use polyvirt_plan::virtual_machine::correction::Found;
use polyvirt_plan::virtual_machine::{
    Applied, Claim, DesiredPower, Intent, OperationKind, Outcome, Record, Release, record,
};
use polyvirt_plan::{Note, Reason};
use serde_json::json;

use super::pass::{Flow, Pass, Seen};
use crate::cluster::{self, ClusterError, Patch};
use crate::context::{Memo, Unwritten};
use crate::next::Next;
use crate::runtime::key::{Key, Kind};
use crate::runtime::vanished;
use crate::shared::{finalizers_patch, without_finalizer};

impl Pass<'_> {
    /// Finalizer and identity, in one write, before anything is done on the hypervisor.
    pub(super) async fn take_claim(&mut self) -> Flow {
        let mut finalizers = self.vm.metadata.finalizers.clone().unwrap_or_default();
        if !record::has_finalizer(&self.vm) {
            finalizers.push(names::VIRTUAL_MACHINE_FINALIZER.to_owned());
        }
        let patch = json!({"metadata": {
            "resourceVersion": self.vm.metadata.resource_version,
            "finalizers": finalizers,
            "annotations": {names::IDENTITY_ANNOTATION: self.identity.as_str()},
        }});
        match self.write(Patch::Metadata(patch)).await {
            Ok(()) => {
                self.claim = Some(Claim::Held);
                Flow::Continue
            }
            Err(error) => Flow::Abandon(Next::after_refusal(&error)),
        }
    }

    /// Writes, and goes on with the object as it is then.
    pub(super) async fn write(&mut self, patch: Patch) -> Result<(), ClusterError> {
        let key = Key::new(Kind::VirtualMachine, self.key.clone());
        let (cluster, store) = (&*self.ctx.cluster, &self.ctx.stores.vms);
        let written = match vanished::write(cluster, store, &key, &*self.vm, patch).await {
            Ok(written) => written,
            Err(error) => {
                self.remember_unwritten();
                return Err(error);
            }
        };
        self.memo.unwritten = None;
        if self.is_overtaken_by(&written.object) {
            // The watch has nothing newer to tell, so nobody else would look at the edit.
            self.come_again = Some(Next::After(Duration::ZERO));
        }
        if let Some(change) = written.change {
            self.ctx.observer.vm(change);
        }
        if written
            .object
            .status
            .as_ref()
            .is_some_and(|s| s.id.is_some())
        {
            // From now on the index of statuses has it.
            self.ctx.reservations.free(&self.key);
        }
        let was_alive = !self.is_deleting();
        self.vm = Arc::new(written.object);
        if was_alive && self.is_deleting() {
            // Absence was believed because a create would find what is there. For a deletion it has to be proved.
            self.seen = Seen::Unknown;
        }
        Ok(())
    }

    /// What was sent and answered must not be forgotten because the API server was away.
    pub(super) fn remember_unwritten(&mut self) {
        self.memo.unwritten = Some(Box::new(Unwritten {
            uid: self.vm.metadata.uid.clone(),
            record: self.record.clone(),
            intent: self.intent.spent(),
        }));
        self.ctx.remember(&self.key, self.memo.clone());
    }

    /// Whether the answer to a write of ours shows an edit that this pass does not know of.
    fn is_overtaken_by(&self, written: &VirtualMachine) -> bool {
        let (known, now) = (&self.vm.metadata, &written.metadata);
        let others = |meta: &ObjectMeta| {
            let mut annotations = meta.annotations.clone().unwrap_or_default();
            annotations.remove(names::IDENTITY_ANNOTATION);
            annotations
        };
        self.generation != now.generation
            || known.labels != now.labels
            || others(known) != others(now)
    }

    /// What an earlier VM had been brought to says nothing about the new one.
    pub(super) async fn record_intent(&mut self) -> Flow {
        let before = (self.intent, self.record.clone());
        self.intent = Intent::JustWritten(self.ctx.now());
        self.record.id = None;
        self.record.applied = Applied::default();
        let creating = Outcome::InFlight(OperationKind::Create);
        let written = self.write_status(&creating).await;
        self.go_on_if(written, before)
    }

    /// A crash after the change must not make it look like somebody else's: it is written down before.
    pub(super) async fn record_change(&mut self, kind: OperationKind) -> Flow {
        let before = (self.intent, self.record.clone());
        match kind {
            OperationKind::Reconfigure => self.record.applied.shape = None,
            OperationKind::Revert => self.record_revert(),
            OperationKind::Reboot => {
                let asked = record::object(&self.vm).reboot;
                asked.clone_into(&mut self.record.reboot_handled);
            }
            _ => self.record.applied.power = None,
        }
        let written = self.write_status(&Outcome::InFlight(kind)).await;
        self.go_on_if(written, before)
    }

    /// A correction that was not written down would go unreported if the manager ended now.
    pub(super) async fn record_drift(&mut self, found: Found) -> Flow {
        let before = (self.intent, self.record.clone());
        let work = self.work_of(&found);
        self.record.begin_correction(found, self.ctx.now());
        let written = self.write_status(&Outcome::InFlight(work)).await;
        self.go_on_if(written, before)
    }

    fn work_of(&self, found: &Found) -> OperationKind {
        let power = self.desired.as_ref().map(|desired| desired.power);
        match (found.kind, power) {
            (DriftKind::Deletion, _) => OperationKind::Create,
            (DriftKind::Size, _) => OperationKind::Reconfigure,
            (DriftKind::Power, Ok(DesiredPower::On)) => OperationKind::PowerOn,
            (DriftKind::Power, Ok(DesiredPower::Paused)) => OperationKind::Pause,
            (DriftKind::Power, _) => OperationKind::PowerOff,
        }
    }

    /// Nothing is sent of which the record could not be made; then the record is what it was.
    pub(super) fn go_on_if(
        &mut self,
        written: Result<(), ClusterError>,
        before: (Intent, Record),
    ) -> Flow {
        let Err(error) = written else {
            return Flow::Continue;
        };
        (self.intent, self.record) = before;
        self.remember_unwritten();
        Flow::Abandon(Next::after_refusal(&error))
    }

    /// Takes the finalizer off and tells why. An owner records the loss first.
    pub(super) async fn release(&mut self, release: Release) -> Flow {
        if let Some(id) = self.record.id.clone()
            && let Err(error) = self.ctx.observer.vm_leaves(&self.vm, &id).await
        {
            return Flow::Abandon(Next::after_refusal(&error));
        }
        let keep = without_finalizer(&*self.vm, names::VIRTUAL_MACHINE_FINALIZER);
        let patch = finalizers_patch(&*self.vm, &keep);
        let about = cluster::About::of(Kind::VirtualMachine, &*self.vm);
        match self.write(patch).await {
            Ok(()) | Err(ClusterError::NotFound) => {
                self.ctx.cluster.event(&about, self.farewell(release));
                let released = Some(about.uid.clone());
                self.ctx.remember(
                    &self.key,
                    Memo {
                        released,
                        ..Memo::default()
                    },
                );
                Flow::Abandon(Next::Idle)
            }
            Err(error) => Flow::Abandon(Next::after_refusal(&error)),
        }
    }

    fn farewell(&self, release: Release) -> Note {
        let id = self.record.id.as_ref().map_or("(no id)", |id| id.as_str());
        let provider = &self.vm.spec.provider_ref.name;
        match release {
            Release::Proved => Note::normal(
                Reason::Deleted,
                format!("VM {id} is gone from provider {provider}"),
            ),
            Release::Retained => Note::normal(
                Reason::Retained,
                format!("VM {id} stays on provider {provider}"),
            ),
            Release::Forced => Note::warning(
                Reason::ForceDeleted,
                format!(
                    "Deleted by force: VM {id} (identity {}) may still be on provider {provider}",
                    self.identity
                ),
            ),
            Release::NotOurs => Note::warning(
                Reason::NotOurs,
                format!(
                    "The VM of this name on provider {provider} is not ours and was not touched"
                ),
            ),
        }
    }
}
