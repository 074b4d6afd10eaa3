use polyvirt_contract::model::{CreateVm, Placement, PowerState, SnapshotRequest, UserData};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{ErrorKind, Provider, TaskId, VmId};
use polyvirt_provider_mock::{HostPool, Rpc, digest};

use crate::common::{
    SECOND, created, created_as, for_another, manual, nic, now, owner, request, seen, with,
    with_tasks,
};

#[test]
fn twice_is_once_for_one_identity() {
    let mock = manual();
    let first = now(mock.create(request("a"))).expect("created");
    let renamed = CreateVm {
        name: "another-name".to_owned(),
        ..request("a")
    };
    for again in [request("a"), renamed] {
        assert_eq!(now(mock.create(again)), Ok(first.clone()));
    }
    assert_eq!(mock.vms().len(), 1);
    assert_eq!(mock.counts().of(Rpc::Create).calls, 3);
    assert_eq!(mock.counts().of(Rpc::Create).mutations, 1);
}

#[test]
fn a_new_vm_is_off_and_has_what_was_asked_for() {
    let mock = manual();
    let wanted = CreateVm {
        networks: vec![nic("eth0")],
        tags: vec!["blue".to_owned()],
        ..request("a")
    };
    let vm = seen(&mock, &created_as(&mock, wanted).id);
    assert_eq!(vm.power, PowerState::Off);
    assert_eq!((vm.cpu, vm.memory_mib), (2, 2048));
    assert_eq!(vm.owner, Some(owner("a")));
    assert!(vm.ips.is_empty());
    assert_eq!(vm.nics.expect("told")[0].name, "eth0");
    assert_eq!(vm.details["tags"], "blue");
    assert_eq!(vm.host, "host-1");
}

#[test]
fn a_creation_in_flight_is_the_same_task_again() {
    let mock = with_tasks();
    let first = now(mock.create(request("a"))).expect("accepted");
    let task = first.task.clone().expect("a task");
    mock.advance(SECOND / 2);
    assert_eq!(now(mock.create(request("a"))), Ok(first.clone()));
    let half = TaskState::Running { percent: Some(50) };
    assert_eq!(now(mock.task_status(&task)), Ok(half));
    mock.advance(SECOND / 2);
    assert_eq!(now(mock.task_status(&task)), Ok(TaskState::Succeeded));
    let done = now(mock.create(request("a"))).expect("found");
    assert_eq!((done.id, done.task), (first.id, None));
}

#[test]
fn work_on_a_vm_in_creation_waits_its_turn() {
    let mock = with_tasks();
    let vm = created(&mock, "a");
    let on = polyvirt_contract::model::PowerOp::On;
    let task = crate::common::power(&mock, &vm, on).expect("accepted");
    assert_eq!(crate::common::power(&mock, &vm, on), Ok(task));
    mock.advance(SECOND);
    assert_eq!(seen(&mock, &vm.id).power, PowerState::Off);
    mock.advance(SECOND);
    assert_eq!(seen(&mock, &vm.id).power, PowerState::On);
    assert_eq!(seen(&mock, &vm.id).details["boots"], "1");
}

#[test]
fn a_name_that_is_taken_is_a_conflict() {
    let mock = manual();
    created(&mock, "a");
    mock.out_of_band().create_stranger("b").expect("made");
    let unowned = CreateVm {
        owner: None,
        ..request("a")
    };
    let others = CreateVm {
        owner: Some(owner("x")),
        ..request("a")
    };
    for taken in [unowned, others, request("b")] {
        let error = now(mock.create(taken)).expect_err("taken");
        assert_eq!(error.kind, ErrorKind::NameConflict);
        assert_eq!(error.field.as_deref(), Some("metadata.name"));
    }
    assert_eq!(mock.vms().len(), 2);
}

#[test]
fn no_mutation_touches_a_vm_of_another_identity() {
    let mock = manual();
    let vm = created(&mock, "a");
    let before = mock.vms();
    let theirs = for_another(&vm);
    let on = polyvirt_contract::model::PowerOp::On;
    let errors = [
        now(mock.delete(&theirs)).expect_err("refused"),
        crate::common::power(&mock, &theirs, on).expect_err("refused"),
        now(mock.reconfigure(&theirs, request("a"))).expect_err("refused"),
        now(mock.snapshot_create(&theirs, SnapshotRequest::default())).expect_err("refused"),
        now(mock.hardware_upgrade(&theirs, 21)).expect_err("refused"),
    ];
    assert!(
        errors
            .iter()
            .all(|error| error.kind == ErrorKind::IdentityConflict)
    );
    assert_eq!(mock.vms(), before);
}

#[test]
fn an_unmarked_vm_may_be_touched_and_gets_the_mark_of_who_configures_it() {
    let mock = manual();
    let id = mock.out_of_band().create_stranger("old").expect("made");
    let vm = polyvirt_contract::model::VmRef {
        id: id.clone(),
        owner: Some(owner("old")),
    };
    crate::common::power(&mock, &vm, polyvirt_contract::model::PowerOp::On).expect("started");
    assert_eq!(seen(&mock, &id).owner, None);
    now(mock.reconfigure(&vm, request("old"))).expect("configured");
    let found = now(mock.find(&owner("old").identity))
        .expect("asked")
        .expect("found");
    assert_eq!(found.id, id);
    let error = now(mock.reconfigure(&for_another(&vm), request("old"))).expect_err("marked now");
    assert_eq!(error.kind, ErrorKind::IdentityConflict);
}

#[test]
fn one_identity_is_never_put_on_two_vms() {
    let mock = manual();
    created(&mock, "a");
    let id = mock.out_of_band().create_stranger("b").expect("made");
    let vm = polyvirt_contract::model::VmRef {
        id,
        owner: Some(owner("a")),
    };
    let error = now(mock.reconfigure(&vm, request("a"))).expect_err("has one");
    assert_eq!(error.kind, ErrorKind::IdentityConflict);
}

#[test]
fn gone_is_gone_however_often_it_is_deleted() {
    let mock = with_tasks();
    let vm = created(&mock, "a");
    mock.advance(SECOND);
    let task = now(mock.delete(&vm)).expect("accepted");
    assert_eq!(now(mock.delete(&vm)), Ok(task));
    let error = now(mock.create(request("a"))).expect_err("on its way out");
    assert_eq!(error.kind, ErrorKind::Precondition);
    mock.advance(SECOND);
    assert_eq!(now(mock.describe(&vm.id)), Ok(None));
    assert_eq!(now(mock.find(&owner("a").identity)), Ok(None));
    assert_eq!(
        now(mock.delete(&vm)).expect_err("gone").kind,
        ErrorKind::NotFound
    );
    let again = now(mock.create(request("a"))).expect("made anew");
    assert_ne!(again.id, vm.id, "an id is never used twice");
}

#[test]
fn what_nobody_knows_is_not_found() {
    let mock = manual();
    assert_eq!(now(mock.describe(&VmId::from("vm-77"))), Ok(None));
    assert_eq!(now(mock.describe(&VmId::from("nonsense"))), Ok(None));
    let error = now(mock.task_status(&TaskId::from("task-0-77"))).expect_err("unknown");
    assert_eq!(error.kind, ErrorKind::NotFound);
}

#[test]
fn what_can_never_work_names_its_field() {
    use polyvirt_contract::model::{DiskSpec, NicSpec, StaticAddress};
    let mock = manual();
    let edit = |change: &dyn Fn(&mut CreateVm)| {
        let mut request = request("a");
        change(&mut request);
        request
    };
    let sized = |name: &str, size_gib| DiskSpec {
        name: name.to_owned(),
        size_gib,
        ..DiskSpec::default()
    };
    for (field, request) in [
        ("spec.resources.cpu", edit(&|r| r.class.cpu = 0)),
        (
            "spec.resources.memoryMiB",
            edit(&|r| r.class.memory_mib = 0),
        ),
        ("metadata.name", edit(&|r| r.name.clear())),
        (
            "spec.disks[0].sizeGiB",
            edit(&|r| r.disks = vec![sized("d", 0)]),
        ),
        (
            "spec.disks[1].name",
            edit(&|r| r.disks = vec![sized("d", 1), sized("d", 1)]),
        ),
        (
            "spec.networks[1].name",
            edit(&|r| r.networks = vec![nic("n"), nic("n")]),
        ),
        (
            "spec.networks[0].macAddress",
            edit(&|r| {
                r.networks = vec![NicSpec {
                    mac: "02:00".to_owned(),
                    ..nic("n")
                }];
            }),
        ),
        (
            "spec.networks[0].ipAddress",
            edit(&|r| {
                r.networks = vec![NicSpec {
                    address: Some(StaticAddress {
                        ip: "10.0.0".to_owned(),
                        ..StaticAddress::default()
                    }),
                    ..nic("n")
                }];
            }),
        ),
    ] {
        let error = now(mock.create(request)).expect_err(field);
        assert_eq!(error.kind, ErrorKind::Invalid, "{field}");
        assert_eq!(error.field.as_deref(), Some(field));
    }
    assert!(mock.vms().is_empty());
}

#[test]
fn room_runs_out_and_comes_back() {
    let mock = with(|config| {
        config.hosts = HostPool {
            count: 1,
            cpus: 64,
            memory_mib: 4096,
            zones: 1,
            ..HostPool::default()
        };
    });
    let first = created(&mock, "a");
    created(&mock, "b");
    let error = now(mock.create(request("c"))).expect_err("full");
    assert_eq!(error.kind, ErrorKind::Exhausted);
    let host = &now(mock.inventory()).expect("told").hosts[0];
    assert_eq!((host.cpus_used, host.memory_used_mib), (4, 4096));
    now(mock.delete(&first)).expect("deleted");
    created(&mock, "c");
}

#[test]
fn a_placement_is_followed() {
    let mock = manual();
    let on_host = |name: &str, host: &str| CreateVm {
        placement: Some(Placement {
            host: host.to_owned(),
            ..Placement::default()
        }),
        ..request(name)
    };
    let vm = created_as(&mock, on_host("a", "host-3"));
    assert_eq!(seen(&mock, &vm.id).host, "host-3");
    let error = now(mock.create(on_host("b", "mars"))).expect_err("no such host");
    assert_eq!(error.field.as_deref(), Some("spec.placement.host"));
}

#[test]
fn first_boot_data_shows_that_it_arrived_but_not_what_it_is() {
    let mock = manual();
    let secret = "#cloud-config\npassword: hunter2\n";
    let cloud_init = CreateVm {
        user_data: Some(UserData::CloudInit(secret.into())),
        meta_data: "local-hostname: web-1\n".into(),
        network_data: "version: 2\n".into(),
        ..request("a")
    };
    let vm = seen(&mock, &created_as(&mock, cloud_init).id);
    assert_eq!(vm.details["userDataKind"], "cloud-init");
    assert_eq!(vm.details["userDataBytes"], secret.len().to_string());
    assert_eq!(vm.details["userDataDigest"], digest(secret.as_bytes()));
    assert_eq!(vm.details["hostname"], "web-1");
    assert_eq!(vm.details["networkDataBytes"], "11");
    assert!(!format!("{vm:?}").contains("hunter2"));
    let ignition = CreateVm {
        user_data: Some(UserData::Ignition("{}".into())),
        ..request("b")
    };
    let vm = seen(&mock, &created_as(&mock, ignition).id);
    assert_eq!(vm.details["userDataKind"], "ignition");
}

#[test]
fn devices_are_given_once_and_come_back() {
    let mock = with(|config| {
        config.hosts = HostPool {
            count: 1,
            gpus: 2,
            ..HostPool::default()
        };
    });
    let with_gpus = |name: &str, count: u32| CreateVm {
        placement: Some(Placement {
            devices: [("nvidia.com/tesla-t4".to_owned(), count)].into(),
            ..Placement::default()
        }),
        ..request(name)
    };
    let first = created_as(&mock, with_gpus("a", 1));
    assert_eq!(
        seen(&mock, &first.id).details["devices"],
        "nvidia.com/tesla-t4=1"
    );
    let error = now(mock.create(with_gpus("b", 2))).expect_err("one is left");
    assert_eq!(error.kind, ErrorKind::Exhausted);
    created_as(&mock, with_gpus("c", 1));
    let error = now(mock.create(with_gpus("d", 1))).expect_err("none is left");
    assert!(error.message.contains("nvidia.com/tesla-t4"), "{error}");
    now(mock.delete(&first)).expect("deleted");
    created_as(&mock, with_gpus("d", 1));
}
