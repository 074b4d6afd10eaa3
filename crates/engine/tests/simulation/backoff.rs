//! An operation that fails is sent less and less often, whatever the provider publishes of the VM meanwhile.

use std::time::Duration;

use polyvirt_provider_mock::{Offer, TaskMode};
use serde_json::json;

use crate::objects::{self, LAB};
use crate::scenario::Scenario;
use crate::setting::Setting;
use crate::world::Noise;

/// Pauses of half a second that double: seven attempts in the first minute, and room for a few that a change permits.
const MOST_STARTS: u64 = 10;

fn story_of(noise: Noise, tasks: TaskMode) -> Scenario {
    let mut story = Scenario::new(Setting::quiet(Offer::Full, tasks));
    story.sim.world().failing_starts = Some(noise);
    story.create(&objects::vm(LAB, "a"), objects::plain_vm());
    story.run_for(Duration::from_secs(60));
    story
}

#[test]
fn news_of_a_failed_start_does_not_start_it_again() {
    for noise in [Noise::Revision, Noise::Power] {
        let mut story = story_of(noise, TaskMode::Immediate);
        let tried = story.sim.world().starts_tried;
        assert!((3..=MOST_STARTS).contains(&tried), "{noise:?}: {tried}");
        story.sim.world().failing_starts = None;
        story.conclude();
        assert_eq!(story.reason(&objects::vm(LAB, "a")), "ReconcileSuccess");
    }
}

#[test]
fn an_edit_starts_it_again_at_once() {
    let mut story = story_of(Noise::Revision, TaskMode::Immediate);
    let tried = story.sim.world().starts_tried;
    story.edit(&objects::vm(LAB, "a"), |vm| {
        vm["spec"]["deletionPolicy"] = json!("Delete");
    });
    story.run_for(Duration::from_secs(1));
    assert_eq!(story.sim.world().starts_tried, tried + 1);
}
