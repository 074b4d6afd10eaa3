//! The rules of the planner of snapshots: over random facts, and over random accidents in a whole life.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests are tests too"
)]

mod facts;
mod revert;
mod units;
mod world;

use polyvirt_contract::model::SnapshotState;
use polyvirt_plan::snapshot::{Done, Intent, Life, Release, Step};
use polyvirt_plan::virtual_machine::{Attention, Claim, Force};
use proptest::prelude::*;

use facts::{Any, Sight, any_facts};
use world::{World, any_world};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn nothing_is_taken_before_it_is_written_down(any in any_facts()) {
        if any.plan() == Step::Create {
            prop_assert_eq!(any.object.claim, Claim::Held);
            prop_assert_eq!(any.object.attention, Attention::Active);
            prop_assert!(any.record.vm.is_some());
            prop_assert!(any.identity || any.intent == Intent::JustWritten);
            prop_assert!(!matches!(any.sight, Sight::Unknown | Sight::Silent | Sight::NoVm));
        }
    }

    #[test]
    fn ready_is_what_the_provider_lists_or_gave_an_id_for(any in any_facts()) {
        if any.record.completed.is_none() && any.plan() == Step::Done(Done::Ready) {
            let believed = any.sight == Sight::Untold && any.record.id.is_some();
            prop_assert!(any.sight == Sight::Ours || believed);
            prop_assert!(any.record.operation.as_ref().is_none_or(|o| o.task.is_none()));
        }
    }

    #[test]
    fn the_finalizer_goes_only_for_a_reason(any in any_facts()) {
        let Step::Release(release) = any.plan() else { return Ok(()) };
        prop_assert_eq!((any.object.life, any.object.claim), (Life::Deleting, Claim::Held));
        match release {
            Release::Proved => prop_assert!(matches!(any.sight, Sight::Others | Sight::Gone)),
            Release::VmGone => prop_assert_eq!(any.sight, Sight::NoVm),
            Release::NeverTaken => prop_assert!(any.record.vm.is_none() || any.record.id.is_none()),
            Release::Forced => prop_assert_eq!(any.object.force, Force::Yes),
        }
    }

    #[test]
    fn a_snapshot_is_deleted_only_with_its_object(any in any_facts()) {
        if any.plan() == Step::Delete {
            prop_assert_eq!((any.object.life, any.object.claim), (Life::Deleting, Claim::Held));
            prop_assert!(matches!(any.sight, Sight::Ours | Sight::Untold));
        }
    }

    #[test]
    fn a_pause_holds_everything(any in any_facts()) {
        let mut paused = any;
        paused.object.attention = Attention::Paused;
        paused.object.force = Force::No;
        let step = paused.plan();
        prop_assert!(matches!(step, Step::Done(Done::Paused | Done::NothingToRelease)), "{step:?}");
    }

    #[test]
    fn a_snapshot_that_was_taken_costs_no_calls_while_its_vm_has_an_object(any in any_facts()) {
        let rests = Any { vm: polyvirt_plan::snapshot::VmFacts::Made, ..any };
        if rests.record.completed.is_some() && rests.object.life == Life::Alive {
            let step = rests.plan();
            prop_assert!(matches!(step, Step::Done(_) | Step::DeleteObject(_)), "{step:?}");
        }
    }

    #[test]
    fn whatever_goes_wrong_there_is_one_snapshot_and_then_none(mut world in any_world()) {
        world.take()?;
        if world.identity {
            prop_assert_eq!(world.made, 1, "{:?}", world);
        }
        prop_assert!(world.ready(), "{:?}", world);
        world.delete()?;
        let left: Vec<&SnapshotState> = world.ours();
        prop_assert!(left.is_empty() || world.may_leave(), "{:?}", world);
    }

    #[test]
    fn an_object_that_goes_at_any_moment_leaves_nothing_behind(
        mut world in any_world(),
        passes in 0..5_usize,
    ) {
        world.take_some(passes);
        world.delete()?;
        prop_assert!(world.ours().is_empty() || world.may_leave(), "{:?}", world);
    }
}

/// Without this a strategy that builds only dull worlds would prove nothing.
#[test]
fn the_random_worlds_are_worth_it() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut lost, mut crashed, mut failed) = (0, 0, 0);
    for _ in 0..500 {
        let tree = any_world().new_tree(&mut runner).expect("a world");
        let mut world: World = proptest::strategy::ValueTree::current(&tree);
        world.take().expect("it ends");
        lost += world.seen.lost;
        crashed += world.seen.crashed;
        failed += world.seen.failed;
    }
    assert!(lost > 50 && crashed > 50 && failed > 50);
}
