use polyvirt_contract::model::{HostHealth, PowerOp, PowerState};
use polyvirt_contract::{ErrorKind, Provider, VmId};
use polyvirt_provider_mock::Counts;

use crate::common::{created, manual, now, power, request, seen};

#[test]
fn people_change_vms_behind_our_back() {
    let mock = manual();
    let vm = created(&mock, "a");
    power(&mock, &vm, PowerOp::On).expect("started");
    mock.reset_counts();
    let before = seen(&mock, &vm.id).revision;
    let hands = mock.out_of_band();
    hands.power_off(&vm.id).expect("there");
    hands.resize(&vm.id, 8, 512).expect("there");
    hands.rename(&vm.id, "b").expect("there");
    let found = seen(&mock, &vm.id);
    assert_eq!(
        (found.power, found.cpu, found.name.as_str()),
        (PowerState::Off, 8, "b")
    );
    assert!(found.revision > before);
    hands.power_on(&vm.id).expect("there");
    assert_eq!(seen(&mock, &vm.id).power, PowerState::On);
    hands.delete(&vm.id).expect("there");
    assert_eq!(now(mock.describe(&vm.id)), Ok(None));
    assert_eq!(
        hands.delete(&VmId::from("vm-9")).expect_err("none").kind,
        ErrorKind::NotFound
    );
    assert_eq!(mock.counts().mutations(), 0);
}

#[test]
fn a_name_given_by_hand_is_taken() {
    let mock = manual();
    let vm = created(&mock, "a");
    mock.out_of_band().rename(&vm.id, "b").expect("there");
    let error = now(mock.create(request("b"))).expect_err("taken");
    assert_eq!(error.kind, ErrorKind::NameConflict);
    mock.out_of_band().create_stranger("a").expect("free again");
    assert_eq!(
        now(mock.create(request("a")))
            .expect("found by identity")
            .id,
        vm.id
    );
}

#[test]
fn a_host_in_maintenance_takes_no_vms() {
    let mock = manual();
    for host in ["host-1", "host-2", "host-3"] {
        mock.out_of_band()
            .host_health(host, HostHealth::Cordoned)
            .expect("there");
    }
    assert_eq!(seen(&mock, &created(&mock, "a").id).host, "host-4");
    assert!(
        mock.out_of_band()
            .host_health("mars", HostHealth::Down)
            .is_err()
    );
}

#[test]
fn counts_begin_at_zero() {
    assert_eq!(manual().counts(), Counts::default());
}
