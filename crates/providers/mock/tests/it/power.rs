use std::time::Duration;

use polyvirt_contract::model::{
    CreateVm, NicSpec, PowerOp, PowerRequest, PowerState, StaticAddress,
};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{ErrorKind, Provider, RequestId};
use polyvirt_provider_mock::Rpc;

use crate::common::{
    SECOND, created, created_as, manual, nic, now, power, request, seen, with, with_tasks,
};

const GRACEFUL: PowerOp = PowerOp::ShutdownGraceful {
    timeout: Duration::from_mins(1),
};

#[test]
fn on_and_off_end_in_the_same_state_however_often_they_are_sent() {
    let mock = manual();
    let vm = created(&mock, "a");
    for (op, state, addresses) in [
        (PowerOp::Off, PowerState::Off, 0),
        (PowerOp::On, PowerState::On, 1),
        (PowerOp::On, PowerState::On, 1),
        (PowerOp::Off, PowerState::Off, 0),
        (PowerOp::Off, PowerState::Off, 0),
        (GRACEFUL, PowerState::Off, 0),
    ] {
        assert_eq!(power(&mock, &vm, op), Ok(None));
        let found = seen(&mock, &vm.id);
        assert_eq!((found.power, found.ips.len()), (state, addresses), "{op:?}");
    }
    assert_eq!(seen(&mock, &vm.id).details["boots"], "1");
    assert_eq!(mock.counts().of(Rpc::Power).mutations, 2);
}

#[test]
fn addresses_are_the_vms_own_and_stay_the_same() {
    let mock = manual();
    let fixed = NicSpec {
        address: Some(StaticAddress {
            ip: "192.0.2.7".to_owned(),
            prefix: 24,
            gateway: "192.0.2.1".to_owned(),
            ..StaticAddress::default()
        }),
        mac: "02:00:00:AA:BB:CC".to_owned(),
        ..nic("lan")
    };
    let two_cards = CreateVm {
        networks: vec![nic("eth0"), fixed],
        ..request("a")
    };
    let (a, b) = (created_as(&mock, two_cards), created(&mock, "b"));
    let addresses = |vm| {
        power(&mock, vm, PowerOp::On).expect("started");
        let ips = seen(&mock, &vm.id).ips;
        power(&mock, vm, PowerOp::Off).expect("stopped");
        ips
    };
    let first = addresses(&a);
    assert_eq!(first[1], "192.0.2.7");
    assert_eq!(addresses(&a), first);
    assert_ne!(addresses(&b)[0], first[0]);
    let nics = seen(&mock, &a.id).nics.expect("told");
    assert_eq!(nics[1].mac, "02:00:00:aa:bb:cc");
    assert_ne!(nics[0].mac, "");
    let details = seen(&mock, &a.id).details;
    assert_eq!(details["nic.lan"], "prefix=24 gateway=192.0.2.1");
    assert!(!details.contains_key("nic.eth0"));
}

#[test]
fn a_reboot_that_is_asked_for_once_happens_once() {
    let mock = with_tasks();
    let vm = created(&mock, "a");
    power(&mock, &vm, PowerOp::On).expect("accepted");
    mock.advance(2 * SECOND);
    let reboot = |request: &str| PowerRequest {
        op: PowerOp::Reboot,
        request: Some(RequestId::from(request)),
    };
    let task = now(mock.power(&vm, reboot("first"))).expect("accepted");
    assert_eq!(now(mock.power(&vm, reboot("first"))), Ok(task));
    mock.advance(SECOND);
    assert_eq!(now(mock.power(&vm, reboot("first"))), Ok(None));
    mock.advance(SECOND);
    let found = seen(&mock, &vm.id);
    assert_eq!(found.details["boots"], "2");
    assert_eq!(found.last_request, Some(RequestId::from("first")));
    now(mock.power(&vm, reboot("second"))).expect("accepted");
    mock.advance(SECOND);
    assert_eq!(seen(&mock, &vm.id).details["boots"], "3");
}

#[test]
fn a_reboot_lost_in_a_crash_can_be_asked_for_again() {
    let mock = with_tasks();
    let vm = created(&mock, "a");
    power(&mock, &vm, PowerOp::On).expect("accepted");
    mock.advance(2 * SECOND);
    let reboot = PowerRequest {
        op: PowerOp::Reboot,
        request: Some(RequestId::from("r")),
    };
    now(mock.power(&vm, reboot.clone())).expect("accepted");
    mock.restart();
    mock.advance(2 * SECOND);
    assert_eq!(seen(&mock, &vm.id).details["boots"], "1");
    now(mock.power(&vm, reboot)).expect("accepted");
    mock.advance(SECOND);
    assert_eq!(seen(&mock, &vm.id).details["boots"], "2");
}

#[test]
fn a_vm_that_is_off_cannot_be_restarted() {
    let mock = manual();
    let vm = created(&mock, "a");
    let error = power(&mock, &vm, PowerOp::Reboot).expect_err("off");
    assert_eq!(error.kind, ErrorKind::Precondition);
}

#[test]
fn a_guest_takes_its_time_to_shut_down() {
    let mock = with(|config| config.times.shutdown = 5 * SECOND);
    let vm = created(&mock, "a");
    power(&mock, &vm, PowerOp::On).expect("started");
    assert_eq!(power(&mock, &vm, GRACEFUL), Ok(None));
    mock.advance(4 * SECOND);
    assert_eq!(power(&mock, &vm, GRACEFUL), Ok(None));
    assert_eq!(seen(&mock, &vm.id).power, PowerState::On);
    mock.advance(SECOND);
    assert_eq!(seen(&mock, &vm.id).power, PowerState::Off);
    power(&mock, &vm, PowerOp::On).expect("started");
    mock.advance(60 * SECOND);
    assert_eq!(
        seen(&mock, &vm.id).power,
        PowerState::On,
        "an old request does not stop a new boot"
    );
}

#[test]
fn a_hung_guest_ignores_us_until_the_plug_is_pulled() {
    let mock = with_tasks();
    let vm = created(&mock, "a");
    power(&mock, &vm, PowerOp::On).expect("accepted");
    mock.advance(2 * SECOND);
    mock.faults().hang_guest(&vm.id).expect("there");
    let task = power(&mock, &vm, GRACEFUL)
        .expect("accepted")
        .expect("a task");
    assert_eq!(power(&mock, &vm, GRACEFUL), Ok(Some(task.clone())));
    mock.advance(60 * SECOND);
    let Ok(TaskState::Failed(error)) = now(mock.task_status(&task)) else {
        panic!("the guest hangs");
    };
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert_eq!(seen(&mock, &vm.id).power, PowerState::On);
    power(&mock, &vm, PowerOp::Off).expect("accepted");
    mock.advance(SECOND);
    assert_eq!(seen(&mock, &vm.id).power, PowerState::Off);
}

#[test]
fn a_guest_that_obeys_ends_its_task() {
    let mock = with(|config| {
        config.tasks = polyvirt_provider_mock::TaskMode::Async;
        config.times.shutdown = 3 * SECOND;
    });
    let vm = created(&mock, "a");
    power(&mock, &vm, PowerOp::On).expect("accepted");
    mock.advance(Duration::ZERO);
    let task = power(&mock, &vm, GRACEFUL)
        .expect("accepted")
        .expect("a task");
    mock.advance(3 * SECOND);
    assert_eq!(now(mock.task_status(&task)), Ok(TaskState::Succeeded));
    assert_eq!(seen(&mock, &vm.id).power, PowerState::Off);
}

#[test]
fn an_address_comes_when_the_guest_is_up() {
    let mock = with(|config| config.times.boot = 3 * SECOND);
    let vm = created(&mock, "a");
    power(&mock, &vm, PowerOp::On).expect("started");
    let booting = seen(&mock, &vm.id);
    assert_eq!((booting.power, booting.ips.len()), (PowerState::On, 0));
    mock.restart();
    mock.advance(3 * SECOND);
    let up = seen(&mock, &vm.id);
    assert_eq!(up.ips.len(), 1);
    assert!(up.revision > booting.revision);
}
