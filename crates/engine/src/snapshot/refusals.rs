//! What providers refused for what it says. Losing it costs one question, never correctness.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use polyvirt_contract::model::SnapshotRequest;
use polyvirt_contract::{ProviderError, VmId};

use crate::runtime::key::ObjectKey;

/// A request that a provider refused.
pub struct Refusal {
    vm: VmId,
    request: SnapshotRequest,
    error: ProviderError,
}

impl Refusal {
    /// The request for that VM was answered with that error.
    pub const fn new(vm: VmId, request: SnapshotRequest, error: ProviderError) -> Self {
        Self { vm, request, error }
    }
}

/// Refused requests, by VMSnapshot. They are not sent again while they say the same, whoever wakes us.
#[derive(Default)]
pub struct Refusals {
    list: Mutex<HashMap<ObjectKey, Refusal>>,
}

impl Refusals {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Refusal>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to the same request.
    pub fn of(
        &self,
        key: &ObjectKey,
        vm: &VmId,
        request: &SnapshotRequest,
    ) -> Option<ProviderError> {
        let list = self.lock();
        let same = list
            .get(key)
            .filter(|r| r.vm == *vm && r.request == *request);
        same.map(|r| r.error.clone())
    }

    /// Remembers the last one.
    pub fn remember(&self, key: &ObjectKey, refusal: Refusal) {
        self.lock().insert(key.clone(), refusal);
    }

    /// The object is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }
}
