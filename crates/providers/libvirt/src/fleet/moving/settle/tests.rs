//! Every pair of sights has a verdict, and none of them ends a guest that runs.

use super::*;

const OFF: Sight = Sight::Off { by_guest: false };
const ENDED: Sight = Sight::Off { by_guest: true };
const ALL: [Sight; 7] = [
    Sight::Absent,
    OFF,
    ENDED,
    Sight::Waits,
    Sight::Split,
    Sight::Paused,
    Sight::Runs,
];

#[test]
fn libvirt_numbers_are_read() {
    for (state, sight) in [
        ((1, 1), Sight::Runs),
        ((1, 10), Sight::Split),
        ((3, 1), Sight::Paused),
        ((3, 2), Sight::Waits),
        ((3, 12), Sight::Split),
        ((5, 1), ENDED),
        ((5, 0), OFF),
        ((5, 2), OFF),
    ] {
        assert_eq!(Sight::of(state), sight, "{state:?}");
    }
}

#[test]
fn a_guest_that_runs_is_never_cleared_away() {
    for source in ALL {
        for target in ALL {
            for mark in [Mark::Comes, Mark::None] {
                let decided = verdict(source, target, mark);
                let case = format!("{source:?} {target:?} {mark:?}: {decided:?}");
                if target == Sight::Runs {
                    assert_ne!(decided, Verdict::Source, "{case}");
                }
                if source == Sight::Runs {
                    assert_ne!(decided, Verdict::Target, "{case}");
                }
                if target == Sight::Absent {
                    assert_eq!(decided, Verdict::Source, "{case}");
                }
            }
        }
    }
}

#[test]
fn one_that_stands_still_at_the_source_goes_on_unless_the_target_had_it() {
    for (source, target, expected) in [
        (Sight::Waits, OFF, Verdict::Source),
        (Sight::Waits, ENDED, Verdict::Target),
        (Sight::Waits, Sight::Runs, Verdict::Target),
        (Sight::Paused, Sight::Paused, Verdict::Target),
        (OFF, OFF, Verdict::Target),
        (Sight::Absent, OFF, Verdict::Target),
        (Sight::Waits, Sight::Waits, Verdict::Wait),
        (Sight::Split, Sight::Split, Verdict::Wait),
        (Sight::Runs, Sight::Runs, Verdict::Both),
    ] {
        let decided = verdict(source, target, Mark::Comes);
        assert_eq!(decided, expected, "{source:?} {target:?}");
    }
    assert_eq!(verdict(OFF, OFF, Mark::None), Verdict::Target);
}
