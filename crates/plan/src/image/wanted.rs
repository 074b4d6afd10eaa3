//! What VMs ask of an image beyond that it is there.

use std::time::Duration;

use jiff::Timestamp;
use polyvirt_api::infra::{DiskImagePull, ImageProviderStatus, VirtualMachine};
use polyvirt_contract::model::Pull;

/// What VMs that are not made yet ask of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// UIDs of those with imagePullPolicy Always: its origin is to be looked at for each of them.
    pub checked_for: Vec<&'a str>,
    /// When the newest of all of them was declared.
    pub newest: Option<Timestamp>,
}

/// No failure is tried again for a new VM before it is so old.
const FRESH: Duration = Duration::from_secs(10);

impl Wanted<'_> {
    pub(super) fn is_met_by(&self, on: &ImageProviderStatus) -> bool {
        let known = |uid: &&str| on.checked_for.iter().any(|checked| checked == uid);
        self.checked_for.iter().all(known)
    }

    /// When to try again for a VM that was declared since the last attempt failed; `None` if there is no such VM.
    pub(crate) fn tried_for_news(
        &self,
        on: &ImageProviderStatus,
        now: Timestamp,
    ) -> Option<Duration> {
        let failed = on.last_updated.as_ref()?.0;
        let age = Duration::try_from(now.duration_since(failed)).unwrap_or_default();
        (self.newest > Some(failed)).then(|| FRESH.saturating_sub(age))
    }

    /// How the provider is to be asked.
    pub const fn pull(&self) -> Pull {
        if self.checked_for.is_empty() {
            Pull::IfNotPresent
        } else {
            Pull::Always
        }
    }
}

/// What a VM wants of its image.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish<'a> {
    /// When it is fetched.
    pub pull: DiskImagePull,
    /// The UID of the VM.
    pub uid: &'a str,
}

/// What the VM wants. The origin is looked at for new ones only.
pub fn wish(vm: &VirtualMachine) -> Wish<'_> {
    let made = vm.status.as_ref().is_some_and(|s| s.id.is_some());
    let pull = match vm.spec.image_pull_policy.unwrap_or_default() {
        DiskImagePull::Always if made => DiskImagePull::IfNotPresent,
        declared => declared,
    };
    let uid = vm.metadata.uid.as_deref().unwrap_or_default();
    Wish { pull, uid }
}

/// The same word on the wire.
pub const fn pull(policy: DiskImagePull) -> Pull {
    match policy {
        DiskImagePull::IfNotPresent => Pull::IfNotPresent,
        DiskImagePull::Always => Pull::Always,
        DiskImagePull::Never => Pull::Never,
    }
}
