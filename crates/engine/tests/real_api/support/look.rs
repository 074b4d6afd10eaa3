//! What people read of an object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use polyvirt_api::infra::{
    Provider, VMClass, VMImage, VMMigration, VMNetworkAttachment, VMPhase, VMPlacementPolicy,
    VMSnapshot, VirtualMachine,
};
use polyvirt_plan::Reason;

/// An object that explains itself by conditions.
pub trait Explained {
    /// What it says.
    fn conditions(&self) -> &[Condition];
}

macro_rules! explained {
    ($($kind:ty),+) => {
        $(impl Explained for $kind {
            fn conditions(&self) -> &[Condition] {
                self.status.as_ref().map_or(&[], |status| &status.conditions)
            }
        })+
    };
}

explained!(
    Provider,
    VMClass,
    VMImage,
    VMMigration,
    VMNetworkAttachment,
    VMPlacementPolicy,
    VMSnapshot,
    VirtualMachine
);

/// Every condition of ours has a known reason and a sentence.
pub fn assert_explained(object: &impl Explained) {
    for condition in object.conditions() {
        let known = Reason::parse(&condition.reason).is_some();
        let foreign = condition.type_.contains('/');
        let sentence = condition.message.len() > 7;
        assert!(foreign || (known && sentence), "{condition:?}");
    }
}

/// The condition of that type.
pub fn condition<'a>(object: &'a impl Explained, kind: &str) -> Option<&'a Condition> {
    object.conditions().iter().find(|c| c.type_ == kind)
}

/// Whether the condition is there and says so.
pub fn says(object: &impl Explained, kind: &str, status: &str, reason: Reason) -> bool {
    condition(object, kind).is_some_and(|c| c.status == status && c.reason == reason.as_str())
}

/// The reason of `Ready`, empty if there is none.
pub fn reason(object: &impl Explained) -> &str {
    condition(object, "Ready").map_or("", |c| &c.reason)
}

/// The message of `Ready`, empty if there is none.
pub fn message(object: &impl Explained) -> &str {
    condition(object, "Ready").map_or("", |c| &c.message)
}

/// Whether `Ready` is true for the present generation.
pub fn ready<K: Explained + kube::Resource>(object: &K) -> bool {
    let ready = condition(object, "Ready");
    ready.is_some_and(|c| c.status == "True" && c.observed_generation == object.meta().generation)
}

/// The phase of a VM.
pub fn phase(vm: &VirtualMachine) -> Option<VMPhase> {
    vm.status.as_ref().and_then(|status| status.phase)
}

/// Ready, and in this phase.
pub fn settled(vm: &VirtualMachine, wanted: VMPhase) -> bool {
    ready(vm) && phase(vm) == Some(wanted)
}

/// Ready and running.
pub fn runs(vm: &VirtualMachine) -> bool {
    settled(vm, VMPhase::Running)
}

/// Ready and off.
pub fn stands(vm: &VirtualMachine) -> bool {
    settled(vm, VMPhase::Stopped)
}

/// One of the provider's details of a VM, empty if there is none.
pub fn field<'a>(vm: &'a VirtualMachine, name: &str) -> &'a str {
    let details = vm.status.as_ref().map(|status| &status.provider);
    details.and_then(|d| d.get(name)).map_or("", String::as_str)
}

/// The VM's id on the hypervisor.
pub fn id(vm: &VirtualMachine) -> polyvirt_contract::VmId {
    let id = vm.status.as_ref().and_then(|status| status.id.clone());
    polyvirt_contract::VmId::from(id.expect("it has an id"))
}
