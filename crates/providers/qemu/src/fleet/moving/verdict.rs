//! Who has the VM: decided from what it looks like on both hosts, and from nothing else. Pure.

use polyvirt_contract::MoveId;
use polyvirt_contract::model::{MoveRole, MoveSight, MoveState};

/// Where the VM is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Source,
    Target,
    /// It is not decided yet.
    Wait,
    /// The guest runs on both hosts. Nobody may do that, and nothing is touched.
    Both,
}

/// One side of a move, as its host told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The host has nothing of the VM.
    Absent,
    /// It has the VM, and the mark of this move.
    Marked(MoveSight),
    /// It has the VM for good, or for another move.
    Settled(MoveSight),
}

impl Side {
    /// What a host has answered, seen from this move.
    pub(super) fn of(told: Option<&MoveState>, id: &MoveId) -> Self {
        match told {
            None => Self::Absent,
            Some(state) if state.role != MoveRole::None && state.id == *id => {
                Self::Marked(state.sight)
            }
            Some(state) => Self::Settled(state.sight),
        }
    }

    const fn sight(self) -> Option<MoveSight> {
        match self {
            Self::Absent => None,
            Self::Marked(sight) | Self::Settled(sight) => Some(sight),
        }
    }

    const fn runs(self) -> bool {
        matches!(self.sight(), Some(MoveSight::Runs))
    }
}

/// Decides.
pub(super) const fn verdict(source: Side, target: Side) -> Verdict {
    use MoveSight as S;
    match (source, target) {
        _ if source.runs() && target.runs() => Verdict::Both,
        // The target had it before, so the source is only to be cleared away.
        (_, Side::Settled(_)) if source.runs() => Verdict::Both,
        (_, Side::Settled(_)) => Verdict::Target,
        // It is still being sent, or nobody knows: that passes.
        (Side::Marked(S::Sends | S::Unknown), _) | (_, Side::Marked(S::Unknown)) => Verdict::Wait,
        // The source has settled this move, so the target has what was too late.
        (Side::Settled(_), Side::Marked(S::Runs)) => Verdict::Both,
        (_, Side::Absent) | (Side::Settled(_), Side::Marked(_)) => Verdict::Source,
        (_, Side::Marked(S::Split)) => split(source, S::Split),
        (Side::Marked(S::Split), Side::Marked(sight)) => split(source, sight),
        (_, Side::Marked(sight)) => decided(source, sight),
    }
}

/// Split between both: whoever is left of it has the newer half, and that is the target.
const fn split(source: Side, target: MoveSight) -> Verdict {
    use MoveSight as S;
    match (source, target) {
        (Side::Marked(S::Split), S::Runs | S::Ended | S::Off)
        | (Side::Absent | Side::Marked(S::Off | S::Ended), S::Split) => Verdict::Target,
        _ => Verdict::Wait,
    }
}

/// The source has the mark, or nothing, and the target has the mark.
const fn decided(source: Side, target: MoveSight) -> Verdict {
    use MoveSight as S;
    match (source, target) {
        (_, S::Runs) | (Side::Absent, S::Ended | S::Off) | (Side::Marked(S::Sent), S::Ended) => {
            Verdict::Target
        }
        (Side::Marked(S::Runs | S::Paused), _) => Verdict::Source,
        // All of it was sent. It was never told to run there unless it runs, or has ended there.
        (_, S::Arrived | S::Paused) => Verdict::Target,
        (Side::Marked(S::Sent), S::Waits | S::Sends | S::Sent) => Verdict::Wait,
        _ => Verdict::Source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGHTS: [MoveSight; 10] = [
        MoveSight::Unknown,
        MoveSight::Off,
        MoveSight::Ended,
        MoveSight::Waits,
        MoveSight::Sends,
        MoveSight::Split,
        MoveSight::Sent,
        MoveSight::Arrived,
        MoveSight::Paused,
        MoveSight::Runs,
    ];

    fn sides() -> Vec<Side> {
        let of = |make: fn(MoveSight) -> Side| SIGHTS.into_iter().map(make);
        let all = of(Side::Marked).chain(of(Side::Settled));
        all.chain([Side::Absent]).collect()
    }

    #[test]
    fn a_guest_that_runs_is_never_cleared_away_and_never_runs_twice() {
        for source in sides() {
            for target in sides() {
                let decided = verdict(source, target);
                let case = format!("{source:?} {target:?}: {decided:?}");
                if target.runs() {
                    assert_ne!(decided, Verdict::Source, "{case}");
                }
                if source.runs() {
                    assert_ne!(decided, Verdict::Target, "{case}");
                }
                if source.runs() && target.runs() {
                    assert_eq!(decided, Verdict::Both, "{case}");
                }
            }
        }
    }

    #[test]
    fn what_is_settled_at_the_target_is_never_taken_away_there() {
        for source in sides() {
            for sight in SIGHTS {
                let decided = verdict(source, Side::Settled(sight));
                assert!(
                    matches!(decided, Verdict::Target | Verdict::Both),
                    "{source:?} {sight:?}: {decided:?}"
                );
            }
        }
    }

    #[test]
    fn the_only_copy_is_never_cleared_away() {
        for side in sides().into_iter().filter(|side| *side != Side::Absent) {
            let decided = verdict(side, Side::Absent);
            assert_ne!(decided, Verdict::Target, "{side:?}");
        }
        for sight in [MoveSight::Arrived, MoveSight::Runs, MoveSight::Ended] {
            let decided = verdict(Side::Absent, Side::Marked(sight));
            assert_eq!(decided, Verdict::Target, "{sight:?}");
        }
    }

    #[test]
    fn nothing_is_decided_while_it_is_sent_or_unknown() {
        for sight in SIGHTS.into_iter().filter(|sight| *sight != MoveSight::Runs) {
            for open in [MoveSight::Sends, MoveSight::Unknown] {
                let source = verdict(Side::Marked(open), Side::Marked(sight));
                assert_eq!(source, Verdict::Wait, "{open:?} {sight:?}");
            }
        }
    }

    #[test]
    fn one_that_stands_still_goes_on_where_all_of_it_is() {
        use MoveSight as S;
        for (source, target, expected) in [
            (S::Runs, S::Waits, Verdict::Source),
            (S::Runs, S::Off, Verdict::Source),
            (S::Runs, S::Arrived, Verdict::Source),
            (S::Paused, S::Arrived, Verdict::Source),
            (S::Sent, S::Arrived, Verdict::Target),
            (S::Sent, S::Runs, Verdict::Target),
            (S::Sent, S::Waits, Verdict::Wait),
            // QEMU has ended at the target before the guest ran there: it goes on at the source.
            (S::Sent, S::Off, Verdict::Source),
            (S::Sent, S::Ended, Verdict::Target),
            // QEMU has ended at the source, after all was there, or before.
            (S::Off, S::Arrived, Verdict::Target),
            (S::Off, S::Waits, Verdict::Source),
            (S::Off, S::Off, Verdict::Source),
            (S::Ended, S::Off, Verdict::Source),
            (S::Split, S::Split, Verdict::Wait),
            (S::Split, S::Runs, Verdict::Target),
            (S::Off, S::Split, Verdict::Target),
        ] {
            let decided = verdict(Side::Marked(source), Side::Marked(target));
            assert_eq!(decided, expected, "{source:?} {target:?}");
        }
        // A place that was made too late.
        let late = verdict(Side::Settled(S::Runs), Side::Marked(S::Waits));
        assert_eq!(late, Verdict::Source);
    }
}
