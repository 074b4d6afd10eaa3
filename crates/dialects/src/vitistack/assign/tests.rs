//! Row by row: who names what, what is there, and who is chosen.

use polyvirt_api::vitistack::{MachineSpec, MachineStatus};

use super::*;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("configs", name)
}

fn keys(names: &[&str]) -> Vec<ObjectKey> {
    names.iter().map(|name| key(name)).collect()
}

fn machine(annotation: Option<&str>, spec: Option<&str>, status: Option<&str>) -> Machine {
    let mut machine = Machine::new("web", MachineSpec::default());
    machine.spec.kubevirt_config_ref = spec.map(str::to_owned);
    machine.metadata.annotations =
        annotation.map(|name| [(KUBEVIRT_CONFIG_ANNOTATION.to_owned(), name.to_owned())].into());
    machine.status = status.map(|name| MachineStatus {
        kubevirt_config_ref: Some(name.to_owned()),
        ..MachineStatus::default()
    });
    machine
}

#[test]
fn who_is_named_first_is_chosen() {
    use Chosen::{Default, Named, Only, Recorded};
    let (e, w, s) = (Some("east"), Some("west"), Some("south"));
    let all: &[&str] = &["east", "west", "south"];
    for (annotation, spec, status, default, configs, expected) in [
        (e, None, w, s, all, ("east", Named)),
        (e, e, w, s, all, ("east", Named)),
        (None, w, e, s, all, ("west", Named)),
        (None, None, e, s, all, ("east", Recorded)),
        (None, None, None, s, all, ("south", Default)),
        (None, None, None, None, &["east"][..], ("east", Only)),
        (Some(""), None, None, None, &["east"][..], ("east", Only)),
        (Some("configs/west"), None, None, None, all, ("west", Named)),
    ] {
        let machine = machine(annotation, spec, status);
        let found = assign(&machine, default, &keys(configs), None).unwrap();
        let (name, chosen) = expected;
        assert_eq!(found, Assignment::Use(key(name), chosen));
    }
}

#[test]
fn several_clusters_are_asked_before_one_is_chosen() {
    use Sighting::{Absent, Silent, There};
    let configs = keys(&["east", "west"]);
    let free = machine(None, None, None);
    assert_eq!(
        assign(&free, None, &configs, None).unwrap(),
        Assignment::Search(configs.clone())
    );
    for (east, west, expected) in [
        (There, Absent, Ok("east")),
        (Absent, There, Ok("west")),
        (There, Silent, Ok("east")),
        (There, There, Err("is in 2 clusters (east, west)")),
        (
            Absent,
            Absent,
            Err(
                "Machine web has no KubevirtConfig reference and 2 configs are available - cannot determine placement",
            ),
        ),
        (Absent, Silent, Err("do not answer: west")),
        (Silent, Silent, Err("do not answer: east, west")),
    ] {
        let seen = [(key("east"), east), (key("west"), west)];
        match (assign(&free, None, &configs, Some(&seen)), expected) {
            (Ok(found), Ok(name)) => {
                assert_eq!(found, Assignment::Use(key(name), Chosen::Found));
            }
            (Err(error), Err(text)) => {
                assert!(error.to_string().contains(text), "{error}");
                assert!(error.may_pass());
            }
            (found, expected) => panic!("{east:?} {west:?}: {found:?}, not {expected:?}"),
        }
    }
}

#[test]
fn errors_say_what_people_know() {
    let free = machine(None, None, None);
    let text = |result: Result<Assignment, AssignError>| result.unwrap_err().to_string();
    assert!(text(assign(&free, None, &[], None)).starts_with(
        "Machine web has no KubevirtConfig reference and no KubevirtConfigs are available"
    ));
    let wrong = machine(Some("north"), None, None);
    let error = text(assign(&wrong, None, &keys(&["east"]), None));
    assert!(
        error.contains("There is no KubevirtConfig north"),
        "{error}"
    );
    let two = machine(Some("east"), Some("west"), None);
    let error = text(assign(&two, None, &keys(&["east", "west"]), None));
    assert!(error.contains("Make them the same"), "{error}");
    let default = text(assign(&free, Some("north"), &keys(&["east"]), None));
    let words = "Failed to get KubeVirt client for machine: DEFAULT_KUBEVIRT_CONFIG";
    assert!(default.starts_with(words), "{default}");
}

#[test]
fn a_name_in_two_namespaces_needs_its_namespace() {
    let both = [key("east"), ObjectKey::new("other", "east")];
    let error = assign(&machine(Some("east"), None, None), None, &both, None).unwrap_err();
    assert!(error.to_string().contains("namespace/name"), "{error}");
    let exact = assign(&machine(Some("other/east"), None, None), None, &both, None).unwrap();
    assert_eq!(exact, Assignment::Use(both[1].clone(), Chosen::Named));
}
