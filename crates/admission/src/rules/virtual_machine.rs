//! VirtualMachines.

use polyvirt_api::infra::{
    PowerState, Provider, ReportedCapabilities, RestartPolicy, VMClassSpec, VirtualMachine,
    VirtualMachineSpec,
};
use polyvirt_engine::provider::sessions::type_word;
use polyvirt_plan::Problem;
use polyvirt_plan::honoured::finding::warning;
use polyvirt_plan::honoured::once::{self, Declared, Edited};
use polyvirt_plan::virtual_machine::desired::{class_from, hypervisor_name};

use super::{Judged, hooks, machine, references};
use crate::facts::Facts;

const ROOT: &str = "spec";

impl Judged for VirtualMachine {
    fn problems(&self, _: &dyn Facts) -> Vec<Problem> {
        let mut found = machine::problems(ROOT, &self.spec);
        let name = self.metadata.name.as_deref().unwrap_or_default();
        found.extend(hooks::problems(ROOT, name, &self.spec));
        found
    }

    fn warnings(&self, old: Option<&Self>, facts: &dyn Facts) -> Vec<String> {
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let mut found = machine::warnings(ROOT, namespace, &self.spec, facts);
        let provider = facts.provider(&references::key(namespace, &self.spec.provider_ref));
        found.extend(provider.here().and_then(|p| long_name(self, namespace, p)));
        found.extend(unknown_snapshot(&self.spec, namespace, facts));
        if let Some(old) = old.filter(|old| exists(old)) {
            found.extend(hard_stop(old, self));
            found.extend(late_edits(old, self, facts));
            let can = provider.here().and_then(capabilities);
            found.extend(can.and_then(|can| restart(old, self, can, facts)));
        }
        found
    }
}

fn exists(vm: &VirtualMachine) -> bool {
    let id = vm.status.as_ref().and_then(|status| status.id.as_deref());
    id.is_some_and(|id| !id.is_empty())
}

fn capabilities(provider: &Provider) -> Option<&ReportedCapabilities> {
    provider.status.as_ref()?.reported_capabilities.as_ref()
}

/// The longest name of a VM on hypervisors that have a limit.
fn longest_name(kind: &str) -> Option<usize> {
    match kind {
        "vsphere" => Some(80),
        "kubevirt" | "proxmox" => Some(63),
        "azure" => Some(64),
        _ => None,
    }
}

/// The Provider may still become another one, so this refuses nothing.
fn long_name(vm: &VirtualMachine, namespace: &str, provider: &Provider) -> Option<String> {
    let own = vm.metadata.name.as_deref().unwrap_or_default();
    let name = hypervisor_name(namespace, own, &vm.spec.provider_ref);
    let kind = type_word(provider.spec.type_);
    let most = longest_name(kind).filter(|most| name.len() > *most)?;
    Some(format!(
        "metadata.name: {kind} takes names of at most {most} characters, and the VM would be called {name}"
    ))
}

fn unknown_snapshot(
    spec: &VirtualMachineSpec,
    namespace: &str,
    facts: &dyn Facts,
) -> Option<String> {
    let wanted = spec.snapshot.as_ref()?.revert_to_ref.as_ref()?;
    let key = references::local(namespace, wanted);
    let field = "spec.snapshot.revertToRef";
    references::missing(&facts.snapshot(&key), field, "VMSnapshot", &key)
}

fn hard_stop(old: &VirtualMachine, new: &VirtualMachine) -> Option<String> {
    let was_on = old.spec.power_state.unwrap_or_default() == PowerState::On;
    (was_on && new.spec.power_state == Some(PowerState::Off)).then(|| {
        "spec.powerState: Off cuts the power at once; OffGraceful lets the guest shut down"
            .to_owned()
    })
}

/// Fields that this edit changes after they were read. An edit that brings back what was read is none.
fn late_edits(old: &VirtualMachine, new: &VirtualMachine, facts: &dyn Facts) -> Vec<String> {
    let (before, after) = (declared(old, facts), declared(new, facts));
    let applied = old.status.as_ref().and_then(|s| s.applied.as_deref());
    let created = applied.map(|applied| &applied.created);
    let created = created.filter(|created| !created.is_empty());
    let late = once::edited(created.unwrap_or(&before), &after);
    let now = |edited: &&Edited| before.get(&edited.path) != after.get(&edited.path);
    let told = late.iter().filter(now);
    told.map(|edited| warning(ROOT, edited)).collect()
}

fn declared(vm: &VirtualMachine, facts: &dyn Facts) -> Declared {
    let namespace = vm.metadata.namespace.as_deref().unwrap_or_default();
    let networks = machine::attachments(namespace, &vm.spec, facts);
    let networks: Vec<_> = networks.iter().map(|(i, n)| (*i, &n.spec)).collect();
    once::declared(&vm.spec, class_of(vm, facts).as_ref(), &networks)
}

fn restart(
    old: &VirtualMachine,
    new: &VirtualMachine,
    can: &ReportedCapabilities,
    facts: &dyn Facts,
) -> Option<String> {
    let is_off = new
        .spec
        .power_state
        .is_some_and(|state| state != PowerState::On);
    let before = size(old, facts)?;
    let after = size(new, facts)?;
    if is_off || can.supports_reconfigure_online || before == after {
        return None;
    }
    let policy = new.spec.reconfigure_policy.as_ref().and_then(|p| p.restart);
    Some(match policy.unwrap_or_default() {
        RestartPolicy::Never => "This provider changes CPU and memory only while a VM is off: the change waits for the next restart (spec.reconfigurePolicy.restart: WhenNeeded makes one)",
        RestartPolicy::WhenNeeded => "This provider changes CPU and memory only while a VM is off: the VM is restarted for it, as spec.reconfigurePolicy says",
    }.to_owned())
}

/// CPUs and MiB, if they are known.
fn size(vm: &VirtualMachine, facts: &dyn Facts) -> Option<(u32, u64)> {
    let class = class_from(&class_of(vm, facts)?).ok()?;
    let own = vm.spec.resources.as_ref();
    let cpu = own.and_then(|o| o.cpu).and_then(|n| u32::try_from(n).ok());
    let memory = own
        .and_then(|o| o.memory_mib)
        .and_then(|n| u64::try_from(n).ok());
    Some((cpu.unwrap_or(class.cpu), memory.unwrap_or(class.memory_mib)))
}

fn class_of(vm: &VirtualMachine, facts: &dyn Facts) -> Option<VMClassSpec> {
    if let Some(inline) = &vm.spec.class {
        return Some((**inline).clone());
    }
    let namespace = vm.metadata.namespace.as_deref().unwrap_or_default();
    let key = references::key(namespace, vm.spec.class_ref.as_ref()?);
    facts.class(&key).here().map(|class| class.spec.clone())
}
