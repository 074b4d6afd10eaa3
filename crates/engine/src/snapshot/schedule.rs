//! The controller of VMSnapshots with a schedule. The rules are those of [`polyvirt_plan::snapshot::schedule`].
//!
//! A pass deletes, makes, then writes down. Dead after any of these it is done again: deletions name a UID, and what is made
//! has a name that only its slot has.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use polyvirt_api::infra::VMSnapshot;
use polyvirt_api::names;
use polyvirt_plan::snapshot::desired::resolve;
use polyvirt_plan::snapshot::schedule::report::{self, Outcome};
use polyvirt_plan::snapshot::schedule::{
    Child, ChildState, Facts, Hold, LeftOut, Plan, Removal, Schedule, Slot, Subject, child, maker,
    plan, schedule,
};
use polyvirt_plan::snapshot::{Life, record};
use polyvirt_plan::virtual_machine::{Attention, Claim, revert};
use polyvirt_plan::{Note, Problem};
use serde_json::json;

use crate::cluster::{self, About, ClusterError, Patch};
use crate::context::Context;
use crate::next::Next;
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::runtime::vanished;
use crate::shared::{finalizers_patch, status_body, with_finalizer, without_finalizer};
use crate::subject::AboutVm as _;

/// The queue's clock runs evenly and the wall's does not: a slot that a jump has made due is found after this time.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);

/// Brings one schedule to what is declared.
pub(super) async fn reconcile(ctx: &Context, key: &ObjectKey, object: Arc<VMSnapshot>) -> Next {
    let mut pass = Pass {
        ctx,
        key: Key::new(Kind::VMSnapshot, key.clone()),
        object,
        notes: Vec::new(),
    };
    match pass.run().await {
        Ok(next) => next,
        Err(error) => Next::after_refusal(&error),
    }
}

/// Whether an object is to be treated as a schedule by this pass. One that goes is, until it has let go of what is held.
pub(super) fn is_for_us(object: &VMSnapshot) -> bool {
    let life = record::object(object);
    let ours = life.life == Life::Alive || life.claim == Claim::Held;
    ours && polyvirt_plan::snapshot::schedule::is_schedule(object)
}

struct Pass<'a> {
    ctx: &'a Context,
    key: Key,
    object: Arc<VMSnapshot>,
    notes: Vec<Note>,
}

impl Pass<'_> {
    async fn run(&mut self) -> Result<Next, ClusterError> {
        if record::object(&self.object).attention == Attention::Paused {
            self.report(Outcome::Paused).await?;
            return Ok(Next::Idle);
        }
        if record::object(&self.object).life == Life::Deleting {
            return self.end().await;
        }
        match self.declared() {
            Ok(schedule) => self.follow(&schedule).await,
            Err(problem) => {
                self.report(Outcome::Stopped(&problem)).await?;
                Ok(Next::Idle)
            }
        }
    }

    fn declared(&self) -> Result<Schedule, Problem> {
        resolve(&self.object)?;
        schedule(&self.object)
    }

    async fn follow(&mut self, schedule: &Schedule) -> Result<Next, ClusterError> {
        let children = self.children();
        let mut plan = plan(&Facts {
            now: self.ctx.now(),
            schedule,
            memory: &report::memory(&self.object),
            children: &children,
            subject: self.subject(),
        });
        if !children.is_empty() || matches!(plan.slot, Slot::Make(_)) {
            self.claim().await?;
        }
        for removal in &plan.delete {
            self.remove(removal).await?;
        }
        if let Slot::Make(slot) = plan.slot {
            plan = self.make(plan, slot).await?;
        }
        self.notes.extend(report::slot(&self.object, plan.slot));
        let outcome = Outcome::Followed(schedule, &plan, &children);
        self.report(outcome).await?;
        Ok(self.sleep(plan.next))
    }

    /// Our finalizer, before anything is made: who collects what has lost its owner does not ask what is pinned.
    async fn claim(&mut self) -> Result<(), ClusterError> {
        if record::object(&self.object).claim == Claim::Held {
            return Ok(());
        }
        let finalizers = with_finalizer(&*self.object, names::SNAPSHOT_FINALIZER);
        self.write(finalizers_patch(&*self.object, &finalizers))
            .await
    }

    /// The schedule goes, and what it has made with it, but for what is held: that belongs to nobody from now on.
    async fn end(&mut self) -> Result<Next, ClusterError> {
        let held = |child: &Child| child.hold == Hold::Kept && child.state != ChildState::Leaving;
        for child in self.children().into_iter().filter(held) {
            self.let_go(&child).await?;
        }
        let keep = without_finalizer(&*self.object, names::SNAPSHOT_FINALIZER);
        match self.write(finalizers_patch(&*self.object, &keep)).await {
            Ok(()) | Err(ClusterError::NotFound) => Ok(Next::Idle),
            Err(error) => Err(error),
        }
    }

    async fn let_go(&self, child: &Child) -> Result<(), ClusterError> {
        let key = self.beside(&child.name);
        let Some(there) = self.ctx.stores.snapshots.get(&key.object) else {
            return Ok(());
        };
        let mut owners = there.metadata.owner_references.clone().unwrap_or_default();
        owners.retain(|owner| Some(&owner.uid) != self.object.metadata.uid.as_ref());
        let patch = Patch::Metadata(json!({"metadata": {
            "resourceVersion": there.metadata.resource_version,
            "ownerReferences": owners,
        }}));
        match cluster::patch::<VMSnapshot>(&*self.ctx.cluster, &key, patch).await {
            Ok(_) | Err(ClusterError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What this schedule has made, and nothing else.
    fn children(&self) -> Vec<Child> {
        let stores = &self.ctx.stores;
        let vm = self.object.vm();
        let machine = stores.vms.get(&vm);
        let named = machine.as_deref().and_then(revert::wanted);
        let keys = stores.snapshot_index.of(&vm).into_iter();
        let objects = keys.filter_map(|key| stores.snapshots.get(&key));
        objects
            .filter(|object| self.has_made(object))
            .filter_map(|object| polyvirt_plan::snapshot::schedule::child(&object, named))
            .collect()
    }

    fn has_made(&self, object: &VMSnapshot) -> bool {
        let uid = maker(object).map(|(_, uid)| uid);
        uid.is_some() && uid == self.object.metadata.uid.as_deref()
    }

    fn subject(&self) -> Subject {
        let vm = self.ctx.stores.vms.get(&self.object.vm());
        match vm {
            Some(vm) if vm.metadata.deletion_timestamp.is_none() => Subject::Here,
            _ => Subject::Missing,
        }
    }

    /// Another object may have the name by now; that one is left alone.
    async fn remove(&mut self, removal: &Removal) -> Result<(), ClusterError> {
        let key = self.beside(&removal.name);
        match self.ctx.cluster.delete(&key, &removal.uid).await {
            Ok(()) => {
                self.notes.push(report::removed(removal));
                Ok(())
            }
            Err(ClusterError::NotFound | ClusterError::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn beside(&self, name: &str) -> Key {
        let key = ObjectKey::new(self.key.object.namespace(), name);
        Key::new(Kind::VMSnapshot, key)
    }

    /// One that is there already is ours, or somebody else's, or not seen yet.
    async fn make(&self, plan: Plan, slot: Timestamp) -> Result<Plan, ClusterError> {
        let object = child::object(&self.object, slot);
        let key = self.beside(&child::name(&self.object, slot));
        let body = serde_json::to_value(&object);
        let body = body.map_err(|e| ClusterError::Invalid(e.to_string()))?;
        match self.ctx.cluster.create(&key, body).await {
            Ok(_) => Ok(plan),
            Err(ClusterError::AlreadyExists) => match self.ctx.stores.snapshots.get(&key.object) {
                Some(there) if self.has_made(&there) => Ok(plan),
                Some(_) => Ok(plan.leave_out(slot, LeftOut::NameTaken)),
                None => Err(ClusterError::AlreadyExists),
            },
            Err(error) => Err(error),
        }
    }

    async fn report(&mut self, outcome: Outcome<'_>) -> Result<(), ClusterError> {
        if let Some(status) = report::status(&self.object, outcome, self.ctx.now()) {
            let mut body = status_body(&self.key, &status);
            // It may be gone already, and another object of its name be there.
            body["metadata"]["resourceVersion"] = json!(self.object.metadata.resource_version);
            self.write(Patch::Status(body)).await?;
        }
        let about = About::of(Kind::VMSnapshot, &*self.object);
        for note in std::mem::take(&mut self.notes) {
            tracing::info!(schedule = %self.key.object, reason = %note.reason, "{}", note.message);
            self.ctx.cluster.event(&about, note);
        }
        Ok(())
    }

    /// Writes, and goes on with the object as it is then.
    async fn write(&mut self, patch: Patch) -> Result<(), ClusterError> {
        let (cluster, store) = (&*self.ctx.cluster, &self.ctx.stores.snapshots);
        let written = vanished::write(cluster, store, &self.key, &*self.object, patch).await?;
        if let Some(change) = written.change {
            self.ctx.observer.snapshot(change);
        }
        self.object = Arc::new(written.object);
        Ok(())
    }

    fn sleep(&self, next: Option<Timestamp>) -> Next {
        let Some(next) = next else {
            return Next::Idle;
        };
        let rest = Duration::try_from(next.duration_since(self.ctx.now())).unwrap_or_default();
        Next::After(rest.min(LONGEST_SLEEP))
    }
}
