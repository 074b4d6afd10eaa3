use polyvirt_contract::model::{Owner, PowerState};

use super::*;

fn vm(revision: u64, power: PowerState) -> VmState {
    let owner = Owner {
        identity: "me".into(),
        namespace: "ns".into(),
        name: "a".into(),
    };
    VmState {
        id: "1".into(),
        owner: Some(owner),
        revision,
        power,
        ..VmState::default()
    }
}

#[test]
fn late_and_repeated_words_change_nothing() {
    let mut seen = Observations::default();
    assert!(seen.put(vm(2, PowerState::On)).is_some());
    assert!(seen.put(vm(2, PowerState::On)).is_none());
    assert!(seen.put(vm(1, PowerState::Off)).is_none());
    assert_eq!(seen.get(&"1".into()).expect("there").power, PowerState::On);
    assert!(seen.find(&"me".into()).is_some());
}

#[test]
fn a_deleted_vm_does_not_come_back_by_a_late_word() {
    let mut seen = Observations::default();
    seen.put(vm(2, PowerState::On));
    seen.apply(VmEvent::Gone {
        id: "1".into(),
        identity: None,
        revision: 3,
    });
    assert!(seen.put(vm(2, PowerState::On)).is_none());
    assert!(seen.find(&"me".into()).is_none());
    assert!(seen.put(vm(4, PowerState::On)).is_some());
}

#[test]
fn what_a_new_stream_does_not_tell_is_gone() {
    let mut seen = Observations::default();
    seen.put(vm(2, PowerState::On));
    seen.begin_stream();
    assert!(!seen.synced());
    let concerns = seen.apply(VmEvent::Synced);
    assert!(concerns.contains(&Concerns::Vm("1".into(), Some("me".into()))));
    assert!(concerns.contains(&Concerns::Everyone));
    assert!(seen.is_empty());
}

#[test]
fn a_task_wakes_whoever_waits_whether_it_ends_before_or_after() {
    let mut seen = Observations::default();
    let object = ObjectKey::new("ns", "a");
    seen.await_task(&"t".into(), &object, Timestamp::UNIX_EPOCH);
    let end = VmEvent::Task {
        id: "t".into(),
        state: TaskState::Succeeded,
    };
    assert_eq!(seen.apply(end.clone()), vec![Concerns::Object(object)]);
    assert_eq!(seen.take_task(&"t".into()), Some(TaskState::Succeeded));
    assert!(seen.apply(end).is_empty());
    assert_eq!(seen.take_task(&"t".into()), Some(TaskState::Succeeded));
    assert_eq!(seen.take_task(&"t".into()), None);
}

#[test]
fn a_stream_is_relied_on_until_it_breaks_or_stays_silent() {
    let at = |second| Timestamp::from_second(second).expect("in range");
    let mut seen = Observations::default();
    seen.apply(VmEvent::Synced);
    seen.await_task(&"t".into(), &ObjectKey::new("ns", "a"), at(0));
    assert!(seen.awaits(&"t".into(), at(59)));
    assert!(!seen.awaits(&"t".into(), at(60)));
    seen.begin_stream();
    seen.apply(VmEvent::Synced);
    assert!(
        !seen.awaits(&"t".into(), at(1)),
        "the word may have been lost between the streams"
    );
}

/// A VM of a provider that does not count revisions.
fn uncounted(power: PowerState) -> VmState {
    VmState {
        owner: None,
        ..vm(0, power)
    }
}

#[test]
fn a_list_knows_nothing_new_of_a_vm_that_was_asked_for_since() {
    let mut seen = Observations::default();
    seen.replace(vec![uncounted(PowerState::Off)], Moment::default());
    let asked = seen.moment();
    seen.answer(uncounted(PowerState::On));
    seen.replace(vec![uncounted(PowerState::Off)], asked);
    assert_eq!(seen.get(&"1".into()).expect("there").power, PowerState::On);
    let asked = seen.moment();
    seen.replace(Vec::new(), asked);
    assert!(seen.is_empty(), "a list that was asked for later is newer");
}

#[test]
fn a_vm_that_was_found_while_a_list_was_under_way_is_not_taken_for_gone() {
    let mut seen = Observations::default();
    let asked = seen.moment();
    seen.answer(uncounted(PowerState::On));
    seen.replace(Vec::new(), asked);
    assert!(seen.get(&"1".into()).is_some());
}

#[test]
fn what_is_doubted_comes_back_by_its_last_word_and_not_by_an_older_one() {
    let mut seen = Observations::default();
    seen.put(vm(4, PowerState::On));
    seen.forget(&"1".into());
    assert!(seen.get(&"1".into()).is_none());
    assert!(seen.put(vm(2, PowerState::Off)).is_none());
    assert!(seen.put(vm(4, PowerState::On)).is_some());
}

#[test]
fn a_look_that_finds_nothing_does_not_make_room_for_older_words() {
    let mut seen = Observations::default();
    seen.put(vm(2, PowerState::On));
    seen.apply(VmEvent::Gone {
        id: "1".into(),
        identity: None,
        revision: 4,
    });
    seen.absent(&"1".into());
    assert!(seen.put(vm(3, PowerState::On)).is_none());
}

#[test]
fn a_list_keeps_what_only_a_describe_reports() {
    let described = VmState {
        console_url: "vnc://host:5900".into(),
        ..uncounted(PowerState::On)
    };
    let mut seen = Observations::default();
    seen.answer(described);
    let asked = seen.moment();
    seen.replace(vec![uncounted(PowerState::On)], asked);
    let url = |seen: &Observations| seen.get(&"1".into()).expect("there").console_url.clone();
    assert_eq!(url(&seen), "vnc://host:5900");
    let asked = seen.moment();
    seen.replace(vec![uncounted(PowerState::Off)], asked);
    assert_eq!(url(&seen), "", "another start has another console");
}
