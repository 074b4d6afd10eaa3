//! Where the VMs come from.

use std::sync::Arc;

use polyvirt_contract::Provider;
use polyvirt_contract::model::VmRef;

use crate::refusal::Refusal;

/// Finds the VM of a VirtualMachine, and the provider to ask.
pub trait Machines: Send + Sync + 'static {
    /// Looks only at what is known already: no call, no wait.
    fn find(&self, namespace: &str, name: &str) -> Result<(Arc<dyn Provider>, VmRef), Refusal>;
}
