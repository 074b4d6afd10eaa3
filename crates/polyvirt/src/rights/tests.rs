//! What is made from the table is fresh, and the table is about code that exists.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::roles::Manager;
use super::rules::{ALL_ROOMS, rules};
use super::table::rooms;
use super::yaml::{self, Given};
use super::{Role, Switch, Verb, chart, page};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn is_fresh(path: &str, text: &str) {
    let file = repository(path);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&file, text).expect("written");
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(there == text, "{path} is old: run make manifests");
}

/// As `make deploy` installs it.
fn shipped() -> Manager {
    Manager {
        release: "polyvirt".to_owned(),
        namespace: "polyvirt-system".to_owned(),
        account: "polyvirt-manager".to_owned(),
        works_in: Vec::new(),
        switches: vec![Switch::LeaderElection, Switch::Gateway, Switch::Webhooks],
        certificates: Vec::new(),
    }
}

#[test]
fn the_definitions_of_the_chart_are_fresh() {
    is_fresh(
        "charts/polyvirt/templates/_rules.tpl",
        &chart::definitions(),
    );
}

#[test]
fn the_page_is_fresh() {
    is_fresh("docs/reference/rights.md", &page::page());
}

fn rules_of(role: Role) -> String {
    let given = Given {
        release: "polyvirt",
        certificates: "",
    };
    let rules = rules(role, Switch::Always, ALL_ROOMS);
    yaml::indented(&yaml::rules(&rules, &given), 2)
}

#[test]
fn the_roles_of_people_are_fresh() {
    let text = format!(
        "# Made from crates/polyvirt/src/rights by make manifests.
#
# Consoles of VMs and commands in their guests. Whoever has one of these roles is in the guest, often as root.
# The labels add them to the roles edit and admin of each namespace.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: polyvirt-guests
  labels:
    rbac.authorization.k8s.io/aggregate-to-admin: \"true\"
    rbac.authorization.k8s.io/aggregate-to-edit: \"true\"
rules:
{}---
# What the serial console has shown may hold secrets: not part of the role view.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: polyvirt-guest-logs
rules:
{}",
        rules_of(Role::Guests),
        rules_of(Role::GuestLogs)
    );
    is_fresh("config/rbac/guests.yaml", &text);
}

#[test]
fn the_roles_for_webhooks_alone_are_fresh() {
    let manager = Manager {
        switches: vec![Switch::Webhooks, Switch::NewAuthority],
        ..shipped()
    };
    let roles = manager.roles_of("polyvirt-webhook", |room| {
        ["admission/src/register", "pki/src"].contains(&room.path)
    });
    let text = format!(
        "# Made from crates/polyvirt/src/rights by make manifests.
#
# What the manager needs to serve the webhooks whose configurations somebody else has made (configurations.yaml), beside what
# it needs for its work. One that makes them itself (--webhook-url) needs create and delete of them too, and its namespace.
{roles}"
    );
    is_fresh("config/webhook/rbac.yaml", &text);
}

#[test]
fn every_room_is_there() {
    for room in rooms() {
        let path = repository("crates").join(room.path);
        assert!(path.exists(), "no such room: {}", room.path);
        assert!(!room.rights.is_empty(), "{} asks for nothing", room.path);
    }
}

fn documents(text: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    all.into_iter().filter(|object| !object.is_null()).collect()
}

/// Kind, place and name of each object of the manager's rights, and what it holds.
fn rights_in(text: &str) -> Vec<(String, Value)> {
    let kinds = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];
    let is_ours = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        kinds.contains(&object["kind"].as_str().unwrap_or_default())
            && name.starts_with("polyvirt-manager")
    };
    let mut found: Vec<_> = documents(text)
        .into_iter()
        .filter(is_ours)
        .map(|object| {
            let metadata = &object["metadata"];
            let key = format!(
                "{} {} {}",
                object["kind"], metadata["namespace"], metadata["name"]
            );
            let held = ["rules", "roleRef", "subjects"].map(|part| object[part].clone());
            (key, Value::from(held.to_vec()))
        })
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

/// Helm had the chart make these; the program prints the same.
#[test]
fn the_chart_grants_what_the_program_prints() {
    let one_namespace = Manager {
        works_in: vec!["default".to_owned()],
        ..shipped()
    };
    for (path, manager) in [
        ("config/default/polyvirt.yaml", shipped()),
        (
            "crates/polyvirt/tests/rights/namespaced.yaml",
            one_namespace,
        ),
    ] {
        let file = std::fs::read_to_string(repository(path)).expect("committed");
        let printed = rights_in(&manager.roles());
        assert!(printed.len() >= 5, "{printed:?}");
        assert_eq!(rights_in(&file), printed, "{path}");
    }
}

#[test]
fn no_secret_is_read_in_the_whole_cluster() {
    for switch in [
        Switch::Always,
        Switch::Gateway,
        Switch::Webhooks,
        Switch::Kubevirt,
    ] {
        let rules = rules(Role::Cluster, switch, ALL_ROOMS);
        assert!(!rules.iter().any(|rule| rule.resources.contains(&"secrets")));
    }
}

#[test]
fn what_is_switched_off_is_not_granted() {
    let nothing = Manager {
        switches: Vec::new(),
        ..shipped()
    };
    let (less, more) = (nothing.roles(), shipped().roles());
    for words in [
        "leases",
        "subjectaccessreviews",
        "validatingwebhook",
        "front-proxy",
    ] {
        assert!(!less.contains(words) && more.contains(words), "{words}");
    }
    assert!(!more.contains("kubevirt.io]"));
}

#[test]
fn a_switch_adds_what_is_not_granted_already() {
    let added = rules(Role::Work, Switch::Kubevirt, ALL_ROOMS);
    let resources: Vec<_> = added.iter().flat_map(|rule| &rule.resources).collect();
    assert!(resources.contains(&&"persistentvolumeclaims"));
    assert!(!resources.contains(&&"secrets"), "the manager has them");
}

#[test]
fn rooms_that_share_a_resource_are_named_together() {
    let all = rules(Role::Work, Switch::Always, ALL_ROOMS);
    let vms = all
        .iter()
        .find(|rule| rule.group == "infra.virtrigaud.io" && rule.resources == ["virtualmachines"])
        .expect("a rule");
    assert!(vms.rooms.contains("engine/src/virtual_machine"));
    assert!(vms.rooms.contains("dialects/src/novacron"));
    assert!(vms.verbs.contains(&Verb::Watch) && vms.verbs.contains(&Verb::Delete));
}
