//! Options that only the hypervisor understands: no VM shows them, so it is remembered what was sent.
#![allow(clippy::panic, reason = "helpers of tests")]

use jiff::Timestamp;
use polyvirt_contract::model::{Firmware, Owner, PowerState, VmState};
use polyvirt_contract::{Capabilities, Extension, Features};
use polyvirt_plan::virtual_machine::{
    Applied, Claim, Desired, DesiredPower, Done, Facts, Intent, Object, Observed, Placing,
    ProviderFacts, Record, Shape, Step, next_step,
};

fn desired(options: &str) -> Desired {
    let mut desired = Desired {
        power: DesiredPower::On,
        ..Desired::default()
    };
    desired.vm.class.cpu = 2;
    desired.vm.class.memory_mib = 512;
    if !options.is_empty() {
        let pair = ("options".to_owned(), options.to_owned());
        desired.vm.class.extra_config = [pair].into();
    }
    desired
}

fn step(desired: &Desired, shape: Option<Shape>, options: Option<String>) -> Step {
    let record = Record {
        id: Some("vm-1".into()),
        identity: Some("me".into()),
        applied: Applied {
            reached: Some(1),
            power: Some(DesiredPower::On),
            shape,
            options,
            ..Applied::default()
        },
        ..Record::default()
    };
    let vm = VmState {
        id: "vm-1".into(),
        owner: Some(Owner {
            identity: "me".into(),
            namespace: "team".into(),
            name: "web".into(),
        }),
        power: PowerState::On,
        cpu: 2,
        memory_mib: 512,
        disks: Some(Vec::new()),
        nics: Some(Vec::new()),
        ..VmState::default()
    };
    next_step(&Facts {
        now: Timestamp::UNIX_EPOCH,
        object: Object {
            claim: Claim::Held,
            ..Object::default()
        },
        record: &record,
        desired: Ok(desired),
        provider: ProviderFacts::Ready {
            features: &Features {
                extensions: [Extension::Watch].into(),
                ..Features::default()
            },
            capabilities: &Capabilities::default(),
        },
        observed: Observed::Present(&vm),
        asked: Timestamp::UNIX_EPOCH,
        connected: None,
        sent: None,
        intent: Intent::Missing,
        placing: Placing::NotOurs,
        moving: None,
        keeper: None,
        revert: None,
    })
}

#[test]
fn an_edit_of_the_options_alone_is_sent() {
    let (first, second) = (desired("a"), desired("b"));
    let settled = Step::Done(Done::Converged);
    let shape = || Some(first.shape());
    assert_eq!(step(&first, shape(), first.options()), settled);
    assert_eq!(step(&second, shape(), first.options()), Step::Reconfigure);
    assert_eq!(step(&first, shape(), None), Step::Reconfigure, "they come");
    assert_eq!(
        step(&desired(""), shape(), first.options()),
        Step::Reconfigure,
        "they go"
    );
    assert_eq!(step(&desired(""), shape(), None), settled);
    // While a change is under way nobody claims the shape, and the edit is still known.
    assert_eq!(step(&second, None, first.options()), Step::Reconfigure);
    // A VM that was taken over has what is declared.
    assert_eq!(step(&first, None, None), settled);
}

#[test]
fn firmware_counts_with_the_options() {
    let (bios, mut uefi) = (desired("a"), desired("a"));
    uefi.vm.class.firmware = Firmware::Uefi;
    assert_ne!(bios.options(), uefi.options());
    assert_eq!(desired("").options(), None);
}

#[test]
fn tags_count_with_the_options() {
    let (plain, mut tagged) = (desired("a"), desired("a"));
    tagged.vm.tags = vec!["tier=gold".to_owned()];
    let step = step(&tagged, Some(plain.shape()), plain.options());
    assert_eq!(step, Step::Reconfigure);
}

/// These are in the status of VMs out there. If the first changes, so must the version of digests; the second is the form before.
#[test]
fn an_upgrade_sends_nothing() {
    let declared = desired("a");
    let current = "v1:d8bef09ec737b3e9".to_owned();
    assert_eq!(declared.options(), Some(current));
    let legacy = Some("5bc2e4fba95872a6".to_owned());
    let settled = Step::Done(Done::Converged);
    assert_eq!(
        step(&declared, Some(declared.shape()), legacy.clone()),
        settled
    );
    let edited = step(&desired("b"), Some(declared.shape()), legacy);
    assert_eq!(edited, Step::Reconfigure);
}
