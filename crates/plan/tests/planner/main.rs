//! The rules of the planner, over random facts: what may be done when, and that planning and acting in turn ends.
#![allow(clippy::expect_used, reason = "helpers of tests are tests too")]

mod facts;
mod world;

use std::time::Duration;

use polyvirt_plan::virtual_machine::{
    Answer, Attention, Claim, DeletionPolicy, Done, Force, ImageReadiness, Intent, Life, Operation,
    OperationKind, Placing, Release, RevertState, Sent, Step, WaitFor, next_step,
};
use proptest::prelude::*;

use facts::{Any, Sight, any_facts, at};
use world::{World, any_world};

fn wait_for(what: WaitFor) -> Step {
    Step::wait_at_most(what, Duration::from_secs(2))
}

fn changes_a_vm(step: &Step) -> bool {
    step.operation().is_some()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn a_vm_of_somebody_else_is_never_touched(any in any_facts(Just(Sight::Stranger))) {
        let step = any.plan();
        prop_assert!(!changes_a_vm(&step), "{step:?}");
    }

    #[test]
    fn nothing_is_done_to_a_vm_that_was_not_seen(any in any_facts(Just(Sight::Unknown))) {
        let step = any.plan();
        prop_assert!(!changes_a_vm(&step), "{step:?}");
    }

    #[test]
    fn a_vm_is_created_only_where_none_is(any in any_facts(Sight::any())) {
        if any.plan() == Step::Create {
            prop_assert!(any.sight == Sight::Absent || any.is_half_created());
            prop_assert_eq!(any.claim, Claim::Held);
            prop_assert_eq!(any.life, Life::Alive);
            prop_assert_eq!(any.attention, Attention::Active);
            prop_assert_eq!(&any.desired.image, &ImageReadiness::Ready);
            prop_assert!(any.identity_known() || matches!(any.intent, Intent::JustWritten(_)));
        }
    }

    #[test]
    fn a_vm_that_is_half_created_is_created_again_unless_a_task_is_under_way(
        any in any_facts(Just(Sight::Present))
    ) {
        let step = any.plan();
        let task = any.record.operation.as_ref().is_some_and(|o| o.task.is_some());
        // A guest that takes too long to stop is no longer waited for.
        let stopping = |o: &Operation| o.kind == OperationKind::GracefulStop;
        let overdue = any.record.operation.as_ref().is_some_and(stopping);
        if step == Step::Create {
            prop_assert!(any.is_half_created() && (!task || overdue));
            let sent = Sent {
                kind: OperationKind::Create,
                at: at(995),
                request: None,
                answer: Answer::Open,
            };
            // Neither what was just sent nor what was just accepted is sent again.
            prop_assert_eq!(any.plan_after(&sent, at(900)), wait_for(WaitFor::Answer));
            let taken = Sent { answer: Answer::Taken, ..sent };
            let effect = WaitFor::Effect(OperationKind::Create);
            prop_assert_eq!(any.plan_after(&taken, at(996)), wait_for(effect));
        } else if any.is_half_created() && any.life == Life::Alive && any.claim == Claim::Held {
            prop_assert!(task || any.desired.image != ImageReadiness::Ready, "{step:?}");
        }
    }

    #[test]
    fn a_create_that_went_unanswered_is_sent_again_at_once_when_its_provider_has_come_back(
        any in any_facts(Just(Sight::Absent))
    ) {
        let sent = Sent {
            kind: OperationKind::Create,
            at: at(995),
            request: None,
            answer: Answer::Open,
        };
        if any.plan() == Step::Create {
            prop_assert!(matches!(any.plan_after(&sent, at(900)), Step::Wait(_)));
            let again = any.plan_after(&sent, at(996));
            // Where create makes a second VM, only time tells that the first was not made.
            prop_assert_eq!(again == Step::Create, any.identity_known(), "{:?}", again);
            let taken = Sent { answer: Answer::Taken, ..sent };
            prop_assert!(matches!(any.plan_after(&taken, at(996)), Step::Wait(_)));
        }
    }

    #[test]
    fn a_vm_is_created_only_where_it_was_placed(any in any_facts(Sight::any())) {
        let open = any.plan_with(Placing::Open);
        prop_assert!(!matches!(open, Step::Create | Step::RecordIntent), "{open:?}");
        if open == Step::Place {
            prop_assert!(matches!(
                any.plan(),
                Step::Create | Step::RecordIntent | Step::RecordDrift(_) | Step::Wait(_)
            ));
        } else {
            prop_assert_eq!(open, any.plan());
        }
        prop_assert_eq!(any.plan_with(Placing::Decided), any.plan());
    }

    #[test]
    fn a_correction_is_recorded_before_it_is_sent(mut any in any_facts(Sight::any())) {
        if let Step::RecordDrift(found) = any.plan() {
            prop_assert_eq!(any.life, Life::Alive);
            any.record.begin_correction(found, at(1000));
            let next = any.plan();
            let sent = matches!(next, Step::Power(_) | Step::Reconfigure | Step::Create | Step::RecordIntent);
            prop_assert!(sent, "recorded once: {next:?}");
        }
    }

    #[test]
    fn a_vm_is_deleted_only_with_its_object(any in any_facts(Sight::any())) {
        if any.plan() == Step::Delete {
            prop_assert_eq!(any.life, Life::Deleting(DeletionPolicy::Delete));
            prop_assert_eq!((any.sight, any.claim), (Sight::Present, Claim::Held));
        }
    }

    #[test]
    fn a_vm_goes_back_only_as_it_was_written_down_and_once(any in any_facts(Sight::any())) {
        let Step::Revert(_) = any.plan() else { return Ok(()) };
        let (wish, last) = (any.revert.expect("a wish"), any.record.revert.expect("a note"));
        prop_assert_eq!(wish.name, last.name);
        prop_assert_eq!(wish.target.expect("usable").uid, last.uid);
        prop_assert_eq!(last.state, RevertState::Begun);
        prop_assert_eq!((any.sight, any.claim, any.life), (Sight::Present, Claim::Held, Life::Alive));
    }

    #[test]
    fn the_finalizer_goes_only_for_a_reason(any in any_facts(Sight::any())) {
        let Step::Release(release) = any.plan() else { return Ok(()) };
        prop_assert!(matches!(any.life, Life::Deleting(_)));
        match release {
            Release::Proved => prop_assert!(any.sight == Sight::Absent || any.was_never_created()),
            Release::Retained => prop_assert_eq!(any.life, Life::Deleting(DeletionPolicy::Retain)),
            Release::Forced => prop_assert_eq!(any.force, Force::Yes),
            Release::NotOurs => {
                prop_assert!(any.sight == Sight::Stranger || any.claim == Claim::Disputed);
            }
        }
    }

    #[test]
    fn a_pause_holds_everything(any in any_facts(Sight::any())) {
        let paused = Any { attention: Attention::Paused, force: Force::No, ..any };
        let step = paused.plan();
        prop_assert!(!changes_a_vm(&step) && step != Step::Claim, "{step:?}");
        if paused.life == Life::Alive {
            prop_assert_eq!(step, Step::Done(Done::Paused));
        }
    }

    #[test]
    fn nothing_is_changed_before_the_object_is_claimed(any in any_facts(Sight::any())) {
        let unclaimed = Any { claim: Claim::Missing, ..any };
        prop_assert!(!changes_a_vm(&unclaimed.plan()));
    }

    #[test]
    fn the_same_facts_give_the_same_step(any in any_facts(Sight::any())) {
        prop_assert_eq!(any.plan(), any.plan());
    }

    #[test]
    fn planning_and_acting_in_turn_ends_as_declared(mut world in any_world()) {
        world.run_to_the_end()?;
        prop_assert!(world.created <= 1 + world.lost, "{world:?}");
        world.check_end()?;
        let step = next_step(&world.facts());
        prop_assert!(!changes_a_vm(&step), "the end is an end: {step:?}");
    }
}

/// Without this a strategy that builds only dull worlds would prove nothing.
#[test]
fn the_random_worlds_are_worth_it() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut ends = std::collections::BTreeMap::<&str, usize>::new();
    for _ in 0..2000 {
        let tree = any_world().new_tree(&mut runner).expect("a world");
        let mut world: World = proptest::strategy::ValueTree::current(&tree);
        world.run_to_the_end().expect("it ends");
        *ends.entry(world.end_word()).or_default() += 1;
        if world.resumed > 0 {
            *ends.entry("after half a VM").or_default() += 1;
        }
    }
    for word in [
        "as declared",
        "released",
        "drifted",
        "stopped",
        "restart needed",
        "after half a VM",
    ] {
        assert!(ends.contains_key(word), "no world ends {word}: {ends:?}");
    }
}
