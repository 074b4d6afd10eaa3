//! One pass over one VM.

use std::sync::Arc;

use polyvirt_api::novacron::{VirtualMachine, VirtualMachineStatus};
use polyvirt_engine::cluster::{About, ClusterError};
use polyvirt_engine::next::Next;
use polyvirt_engine::runtime::key::{Kind, ObjectKey};

use super::Controller;
use super::pass::{Found, Pass};
use crate::novacron::lower::{ImageSource, exists};
use crate::novacron::place::PlaceError;
use crate::novacron::raise::{self, Facts, Trouble};
use crate::shared::wake::keep;

impl Controller {
    /// Brings one VM, what is made for it, and its status up to date.
    pub(super) async fn reconcile(&self, key: &ObjectKey) -> Next {
        let Some(vm) = self.stores.vms.get(key) else {
            self.metrics.count(key, None);
            return Next::Idle;
        };
        let done = if vm.metadata.deletion_timestamp.is_some() {
            self.take_down(key, &vm).await
        } else {
            self.bring_up(key, vm).await
        };
        done.unwrap_or_else(|error| {
            tracing::warn!(controller = "novacron.io", vm = key.name(), namespace = key.namespace(), %error, "cannot go on");
            Next::after_refusal(&error)
        })
    }

    async fn bring_up(
        &self,
        key: &ObjectKey,
        vm: Arc<VirtualMachine>,
    ) -> Result<Next, ClusterError> {
        let mut pass = Pass::new(self, key, vm);
        let mut found = Found::default();
        let trouble = pass.run(&mut found).await?;
        let vm = pass.vm;
        self.report(key, &vm, &found, trouble.as_ref()).await?;
        Ok(self.look_again(&vm, &found, trouble.as_ref()))
    }

    /// Providers wake those that wait for them. Images, the catalogue and hosts do not.
    fn look_again(&self, vm: &VirtualMachine, found: &Found, trouble: Option<&Trouble>) -> Next {
        match trouble {
            None if may_get_another_image(vm, found) => Next::After(self.settings.resync),
            Some(Trouble::Place(
                PlaceError::Silent(..) | PlaceError::NoHost(..) | PlaceError::NotShared(..),
            )) => Next::After(self.settings.resync),
            Some(Trouble::Lower(_)) if trouble.is_some_and(Trouble::may_pass) => {
                Next::After(self.settings.resync)
            }
            _ => Next::Idle,
        }
    }

    /// Writes the status if there is news, and tells people.
    pub(super) async fn report(
        &self,
        key: &ObjectKey,
        vm: &Arc<VirtualMachine>,
        found: &Found,
        trouble: Option<&Trouble>,
    ) -> Result<(), ClusterError> {
        let old = vm.status.clone().unwrap_or_default();
        let new = raise::raise(&Facts {
            vm,
            lowered: found.lowered.as_ref(),
            made: found.vm.as_deref(),
            migration: found.migration.as_deref(),
            trouble,
            now: jiff::Timestamp::now(),
        });
        let phase = new.phase.as_deref().unwrap_or_default();
        self.metrics.count(key, Some(phase));
        if new == old {
            return Ok(());
        }
        let written: VirtualMachine = self.desk.status(key, &new).await?;
        keep(&self.stores.vms, &**vm, written);
        self.tell(key, vm, &old, &new);
        Ok(())
    }

    fn tell(
        &self,
        key: &ObjectKey,
        vm: &Arc<VirtualMachine>,
        old: &VirtualMachineStatus,
        new: &VirtualMachineStatus,
    ) {
        let Some(note) = raise::note(old, new) else {
            return;
        };
        let phase = new.phase.as_deref().unwrap_or_default();
        tracing::info!(
            controller = "novacron.io",
            vm = key.name(),
            namespace = key.namespace(),
            phase,
            "{}",
            note.message
        );
        let about = About::of(Kind::NovacronVirtualMachine, &**vm);
        self.desk.event(&about, note);
    }
}

/// Whether the catalogue still decides what a VM is made from: it may be the entry that keeps it from being made.
fn may_get_another_image(vm: &VirtualMachine, found: &Found) -> bool {
    let source = ImageSource::parse(&vm.spec.template.spec.image.source);
    let offered = matches!(source, Ok(ImageSource::Marketplace(_)));
    offered && !found.vm.as_deref().is_some_and(exists)
}
