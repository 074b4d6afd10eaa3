//! Actions around start and stop that can never work.

use polyvirt_api::infra::{LifecycleHandler, VMLifecycle, VirtualMachineSpec};
use polyvirt_plan::Problem;

use super::invalid;

/// The longest name of an object.
const LONGEST: usize = 253;
/// What the time adds to the name of a snapshot.
const TIME: &str = "-20060102-150405";

/// What can never work, of the VM or the set of that name.
pub(super) fn problems(root: &str, name: &str, spec: &VirtualMachineSpec) -> Vec<Problem> {
    let Some(lifecycle) = spec.lifecycle.as_deref() else {
        return Vec::new();
    };
    let root = format!("{root}.lifecycle");
    let mut found = before_start(&root, lifecycle.pre_start.as_ref());
    found.extend(snapshots(&root, name, lifecycle));
    found
}

/// Before the start there is no guest that could run a command, and none that could be called.
fn before_start(root: &str, hook: Option<&LifecycleHandler>) -> Vec<Problem> {
    let mut found = Vec::new();
    if hook.is_some_and(|hook| hook.exec.is_some()) {
        let text = "The guest does not run before it starts. Use postStart, or a snapshot";
        found.push(invalid(format!("{root}.preStart.exec"), text));
    }
    let call = hook.and_then(|hook| hook.http_get.as_ref());
    if call.is_some_and(|get| get.host.as_deref().unwrap_or_default().is_empty()) {
        let text = "A VM has no address before it starts. Give the host to call, or use postStart";
        found.push(invalid(format!("{root}.preStart.httpGet.host"), text));
    }
    found
}

/// The VMSnapshot is called after the VM, the action and the time.
fn snapshots(root: &str, vm: &str, lifecycle: &VMLifecycle) -> Vec<Problem> {
    let hooks = [
        ("preStart", &lifecycle.pre_start),
        ("postStart", &lifecycle.post_start),
        ("preStop", &lifecycle.pre_stop),
    ];
    let named = hooks.into_iter().filter_map(|(moment, hook)| {
        let snapshot = hook.as_ref()?.snapshot.as_ref()?;
        let text = no_name(vm, &snapshot.name)?;
        Some(invalid(format!("{root}.{moment}.snapshot.name"), text))
    });
    named.collect()
}

fn no_name(vm: &str, name: &str) -> Option<String> {
    // The API server may still have to give it one.
    let vm = if vm.is_empty() { "vm" } else { vm };
    let whole = format!("{vm}-{name}{TIME}");
    if name.is_empty() || !whole.split('.').all(is_label) {
        return Some(format!(
            "{name:?} cannot be part of the name of an object. Write lower case letters, digits and dashes"
        ));
    }
    let most = LONGEST.saturating_sub(vm.len() + 1 + TIME.len());
    (whole.len() > LONGEST).then(|| {
        format!("The name is too long. It may have {most} characters beside that of the VM")
    })
}

fn is_label(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(plain) && text.ends_with(plain) && text.chars().all(|c| plain(c) || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_snapshots_are_names_of_objects() {
        for good in ["before-start", "b", "v1.2"] {
            assert_eq!(no_name("web", good), None, "{good}");
        }
        for bad in ["", "Before", "before start", "a_b", "a.-b", "ü"] {
            assert!(no_name("web", bad).is_some(), "{bad}");
        }
        assert_eq!(no_name("", "before-start"), None, "generateName");
        assert_eq!(no_name("web", &"n".repeat(233)), None);
        let long = no_name("web", &"n".repeat(234)).expect("too long");
        assert!(long.contains("233"), "{long}");
    }
}
