//! Whatever is asked and whatever goes wrong, one identity never has two VMs and no room is lost.

use std::collections::BTreeSet;

use futures::FutureExt as _;
use polyvirt_contract::model::{CloneMode, CloneVm, CreateVm, PowerOp, VmRef};
use polyvirt_contract::{Provider, VmId};
use polyvirt_provider_mock::{Mock, MockConfig};
use proptest::prelude::*;

use crate::common::{async_config, owner, request};

#[derive(Clone, Copy, Debug)]
enum Step {
    Create { who: u8, name: u8 },
    Clone { who: u8, name: u8, source: u8 },
    Delete { who: u8, vm: u8 },
    Power { who: u8, vm: u8, op: u8 },
    Resize { who: u8, vm: u8, cpu: u32 },
    Stranger { name: u8 },
    Meddle { vm: u8, how: u8 },
    Wait { millis: u64 },
    Restart,
    Fault { rule: &'static str },
}

fn step() -> impl Strategy<Value = Step> {
    let small = 0..4u8;
    let vm = 0..8u8;
    let rules = prop_oneof![
        Just("lose=Create:1"),
        Just("crash=Create:1"),
        Just("drop=Create:1"),
        Just("fail=*:Unavailable:2"),
        Just("lose=Clone:1"),
        Just("crash=Delete:1"),
        Just("forget=2"),
    ];
    prop_oneof![
        4 => (small.clone(), small.clone()).prop_map(|(who, name)| Step::Create { who, name }),
        2 => (small.clone(), small.clone(), vm.clone())
            .prop_map(|(who, name, source)| Step::Clone { who, name, source }),
        2 => (small.clone(), vm.clone()).prop_map(|(who, vm)| Step::Delete { who, vm }),
        2 => (small.clone(), vm.clone(), 0..4u8).prop_map(|(who, vm, op)| Step::Power { who, vm, op }),
        2 => (small.clone(), vm.clone(), 1..5u32).prop_map(|(who, vm, cpu)| Step::Resize { who, vm, cpu }),
        1 => small.prop_map(|name| Step::Stranger { name }),
        1 => (vm, 0..4u8).prop_map(|(vm, how)| Step::Meddle { vm, how }),
        3 => (0..2500u64).prop_map(|millis| Step::Wait { millis }),
        1 => Just(Step::Restart),
        2 => rules.prop_map(|rule| Step::Fault { rule }),
    ]
}

fn named(who: u8, name: u8) -> CreateVm {
    CreateVm {
        name: format!("n{name}"),
        ..request(&format!("o{who}"))
    }
}

fn vm_ref(who: u8, vm: u8) -> VmRef {
    VmRef {
        id: VmId::from(format!("vm-{}", vm + 1)),
        owner: Some(owner(&format!("o{who}"))),
    }
}

/// Errors are part of the game; only what is there afterwards counts.
fn take(mock: &Mock, step: Step) {
    match step {
        Step::Create { who, name } => drop(mock.create(named(who, name)).now_or_never()),
        Step::Clone { who, name, source } => {
            let request = CloneVm {
                owner: Some(owner(&format!("o{who}"))),
                source: vm_ref(who, source).id,
                target_name: format!("n{name}"),
                mode: CloneMode::Full,
                class: None,
                placement: None,
                customize_json: String::new(),
            };
            drop(mock.clone_vm(request).now_or_never());
        }
        Step::Delete { who, vm } => drop(mock.delete(&vm_ref(who, vm)).now_or_never()),
        Step::Power { who, vm, op } => {
            let timeout = std::time::Duration::from_secs(1);
            let op = [
                PowerOp::On,
                PowerOp::Off,
                PowerOp::Reboot,
                PowerOp::ShutdownGraceful { timeout },
            ][usize::from(op)];
            drop(mock.power(&vm_ref(who, vm), op.into()).now_or_never());
        }
        Step::Resize { who, vm, cpu } => {
            let mut desired = named(who, 0);
            desired.class.cpu = cpu;
            drop(mock.reconfigure(&vm_ref(who, vm), desired).now_or_never());
        }
        Step::Stranger { name } => drop(mock.out_of_band().create_stranger(&format!("n{name}"))),
        Step::Meddle { vm, how } => meddle(mock, &vm_ref(0, vm).id, how),
        Step::Wait { millis } => mock.advance(std::time::Duration::from_millis(millis)),
        Step::Restart => mock.restart(),
        Step::Fault { rule } => mock.faults().parse(rule).expect("readable"),
    }
}

fn meddle(mock: &Mock, vm: &VmId, how: u8) {
    let hands = mock.out_of_band();
    drop(match how {
        0 => hands.delete(vm),
        1 => hands.power_off(vm),
        2 => hands.resize(vm, 3, 512),
        _ => hands.rename(vm, "n3"),
    });
}

fn check(mock: &Mock) -> Result<(), TestCaseError> {
    let vms = mock.vms();
    let unique = |values: Vec<&str>| values.iter().collect::<BTreeSet<_>>().len() == values.len();
    let identities = vms
        .iter()
        .flat_map(|vm| &vm.owner)
        .map(|owner| owner.identity.as_str());
    prop_assert!(
        unique(identities.collect()),
        "two VMs of one identity: {vms:?}"
    );
    prop_assert!(
        unique(vms.iter().map(|vm| vm.name.as_str()).collect()),
        "two VMs of one name"
    );
    let Some(Ok(inventory)) = mock.inventory().now_or_never() else {
        // A fault hit the question; the next step asks again.
        return Ok(());
    };
    let reserved: u32 = inventory.hosts.iter().map(|host| host.cpus_used).sum();
    let has: u32 = vms
        .iter()
        .filter(|vm| vm.restart_required.is_empty())
        .map(|vm| vm.cpu)
        .sum();
    let waits = vms.iter().any(|vm| !vm.restart_required.is_empty());
    prop_assert!(
        waits || reserved == has,
        "{reserved} CPUs are reserved, {has} are used"
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_identity_has_one_vm(seed in any::<u64>(), steps in prop::collection::vec(step(), 1..60)) {
        let mock = Mock::new(MockConfig { seed, ..async_config() });
        for step in steps {
            take(&mock, step);
            check(&mock)?;
        }
    }
}
