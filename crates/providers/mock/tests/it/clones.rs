use polyvirt_contract::model::{ClassSpec, CloneMode, CloneVm, CreateVm, PowerState, VmRef};
use polyvirt_contract::{ErrorKind, Provider, VmId};

use crate::common::{
    SECOND, created, created_as, manual, nic, now, owner, request, seen, with_tasks,
};

fn copy(source: &VmRef, name: &str) -> CloneVm {
    CloneVm {
        owner: Some(owner(name)),
        source: source.id.clone(),
        target_name: name.to_owned(),
        mode: CloneMode::Full,
        class: None,
        placement: None,
        customize_json: String::new(),
    }
}

#[test]
fn a_copy_is_like_its_source_but_for_what_must_differ() {
    let mock = manual();
    let source = created_as(
        &mock,
        CreateVm {
            networks: vec![nic("eth0")],
            ..request("a")
        },
    );
    let cloned = now(mock.clone_vm(copy(&source, "b"))).expect("cloned");
    let (a, b) = (seen(&mock, &source.id), seen(&mock, &cloned.id));
    assert_eq!(
        (b.cpu, b.memory_mib, b.power),
        (a.cpu, a.memory_mib, PowerState::Off)
    );
    assert_eq!(b.owner, Some(owner("b")));
    assert_ne!(a.nics, b.nics);
    assert_eq!(now(mock.clone_vm(copy(&source, "b"))), Ok(cloned));
    assert_eq!(mock.vms().len(), 2);
}

#[test]
fn a_linked_copy_names_what_it_shares() {
    let mock = manual();
    let source = created(&mock, "a");
    let linked = CloneVm {
        mode: CloneMode::Linked,
        ..copy(&source, "b")
    };
    let linked = now(mock.clone_vm(linked)).expect("cloned").id;
    let full = now(mock.clone_vm(copy(&source, "c"))).expect("cloned").id;
    let backing = |vm: &VmId| {
        now(mock.disk_info(vm, "", None))
            .expect("told")
            .backing_file
    };
    let shared = now(mock.disk_info(&source.id, "", None))
        .expect("told")
        .path;
    assert_eq!(backing(&linked), shared);
    assert_eq!(backing(&full), "");
}

#[test]
fn class_and_customization_act() {
    let mock = manual();
    let source = created(&mock, "a");
    let other = CloneVm {
        class: Some(ClassSpec {
            cpu: 8,
            memory_mib: 4096,
            ..ClassSpec::default()
        }),
        customize_json: r#"{"hostname":"web-2","tags":["x"]}"#.to_owned(),
        ..copy(&source, "b")
    };
    let vm = seen(&mock, &now(mock.clone_vm(other)).expect("cloned").id);
    assert_eq!((vm.cpu, vm.memory_mib), (8, 4096));
    assert_eq!(vm.details["hostname"], "web-2");
    assert_eq!(vm.details["tags"], "x");
}

#[test]
fn what_cannot_be_cloned_says_why() {
    let mock = manual();
    let source = created(&mock, "a");
    let edit = |change: &dyn Fn(&mut CloneVm)| {
        let mut request = copy(&source, "b");
        change(&mut request);
        request
    };
    for (kind, request) in [
        (
            ErrorKind::NotFound,
            edit(&|r| r.source = VmId::from("vm-99")),
        ),
        (
            ErrorKind::NameConflict,
            edit(&|r| r.target_name = "a".to_owned()),
        ),
        (ErrorKind::Invalid, edit(&|r| r.target_name.clear())),
        (
            ErrorKind::Invalid,
            edit(&|r| r.customize_json = "{".to_owned()),
        ),
        (
            ErrorKind::Invalid,
            edit(&|r| r.customize_json = r#"{"timeZone":"UTC"}"#.to_owned()),
        ),
        (
            ErrorKind::Invalid,
            edit(&|r| r.class = Some(ClassSpec::default())),
        ),
    ] {
        assert_eq!(now(mock.clone_vm(request)).expect_err("refused").kind, kind);
    }
    assert_eq!(mock.vms().len(), 1);
}

#[test]
fn a_copy_in_flight_is_the_same_task_again() {
    let mock = with_tasks();
    let source = created(&mock, "a");
    mock.advance(SECOND);
    let first = now(mock.clone_vm(copy(&source, "b"))).expect("accepted");
    assert!(first.task.is_some());
    assert_eq!(now(mock.clone_vm(copy(&source, "b"))), Ok(first));
}
