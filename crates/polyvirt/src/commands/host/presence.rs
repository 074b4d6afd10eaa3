//! Who is on a host, or is about to be. Pure.

use kube::ResourceExt;
use polyvirt_api::infra::{PlacementStatus, VMMigration, VirtualMachine};

use super::list::host_of;

/// How a VM is on a host, with the name of its VMMigration where it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence<'a> {
    /// It is there.
    InPlace,
    /// It is there, and a move of it was asked for.
    Leaving(&'a str),
    /// It is moving there, or was given the host and is not made yet.
    Coming(Option<&'a str>),
}

/// How the VM is on the host; `None` if it is not. `moves` are those that are not over.
pub fn presence<'a>(
    vm: &VirtualMachine,
    host: &str,
    moves: &'a [VMMigration],
) -> Option<Presence<'a>> {
    let own = moves.iter().find(|found| is_of(found, vm));
    let name = own.and_then(|found| found.metadata.name.as_deref());
    let comes = own.is_some_and(|found| target(found) == Some(host));
    let here = host_of(vm) == Some(host);
    let given = host_of(vm).is_none() && chosen(vm) == Some(host);
    match name {
        _ if comes => Some(Presence::Coming(name)),
        Some(name) if here => Some(Presence::Leaving(name)),
        None if here => Some(Presence::InPlace),
        _ => given.then_some(Presence::Coming(name)),
    }
}

/// Whether somebody is on the host or comes, or was compared with it when a host was chosen.
pub fn is_known(host: &str, vms: &[VirtualMachine], moves: &[VMMigration]) -> bool {
    let looked_at = |vm: &VirtualMachine| {
        let found = placement(vm).is_some_and(|p| p.hosts.iter().any(|h| h.name == host));
        found || host_of(vm) == Some(host) || chosen(vm) == Some(host)
    };
    vms.iter().any(looked_at) || moves.iter().any(|found| target(found) == Some(host))
}

fn is_of(migration: &VMMigration, vm: &VirtualMachine) -> bool {
    migration.namespace() == vm.namespace() && migration.spec.source.vm_ref.name == vm.name_any()
}

fn target(migration: &VMMigration) -> Option<&str> {
    let moved = migration.status.as_ref()?.host_move.as_ref()?;
    moved.target_host.as_deref()
}

fn placement(vm: &VirtualMachine) -> Option<&PlacementStatus> {
    vm.status.as_ref()?.placement.as_deref()
}

fn chosen(vm: &VirtualMachine) -> Option<&str> {
    placement(vm)?.host.as_deref()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn vm(status: &Value) -> VirtualMachine {
        serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
            "metadata": {"name": "web", "namespace": "team"},
            "spec": {"providerRef": {"name": "lab"}}, "status": status,
        }))
        .expect("a VM")
    }

    fn moves(of: &str, target: &str) -> VMMigration {
        serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMMigration",
            "metadata": {"name": "m", "namespace": "team"},
            "spec": {"source": {"vmRef": {"name": of}}, "target": {"providerRef": {"name": "lab"}}},
            "status": {"hostMove": {"targetHost": target}},
        }))
        .expect("a move")
    }

    #[test]
    fn a_vm_is_where_it_was_seen_and_where_it_goes() {
        let here = json!({"host": "a", "placement": {"host": "b"}});
        let given = json!({"placement": {"host": "a"}});
        let table = [
            (here.clone(), None, Some(Presence::InPlace)),
            (
                here.clone(),
                Some(("web", "c")),
                Some(Presence::Leaving("m")),
            ),
            (here, Some(("db", "c")), Some(Presence::InPlace)),
            (given, None, Some(Presence::Coming(None))),
            (json!({"host": "c", "placement": {"host": "a"}}), None, None),
            (
                json!({"host": "c"}),
                Some(("web", "a")),
                Some(Presence::Coming(Some("m"))),
            ),
            (json!({}), None, None),
        ];
        for (status, other, expected) in table {
            let open: Vec<_> = other
                .map(|(of, target)| moves(of, target))
                .into_iter()
                .collect();
            let found = presence(&vm(&status), "a", &open);
            assert_eq!(found, expected, "{status} {other:?}");
        }
    }

    #[test]
    fn a_host_is_known_by_whoever_was_compared_with_it() {
        let verdict = json!({"name": "c", "fits": false, "message": "down"});
        let vm = vm(&json!({"host": "a", "placement": {"host": "b", "hosts": [verdict]}}));
        for (host, expected) in [
            ("a", true),
            ("b", true),
            ("c", true),
            ("d", true),
            ("e", false),
        ] {
            let known = is_known(host, std::slice::from_ref(&vm), &[moves("web", "d")]);
            assert_eq!(known, expected, "{host}");
        }
    }
}
