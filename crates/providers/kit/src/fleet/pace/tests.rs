use super::*;

const MIB: u64 = 1 << 20;
const STEP: Duration = Duration::from_millis(10);
/// How often whoever moves a guest looks.
const LOOKS: u32 = 50;
/// As fast as a source reads its memory, by step.
const READS: u64 = 20 * MIB;

/// What lies between two hosts.
#[derive(Clone, Copy)]
struct Way {
    /// Bytes that the target works off in a second.
    takes: u64,
    /// Bytes that lie on the way if nobody minds.
    holds: u64,
}

/// A guest on its way, as QEMU sends it.
struct Guest {
    memory: u64,
    /// Bytes that it changes in a second.
    writes: u64,
}

/// How it ended.
#[derive(Debug)]
struct Stop {
    /// For how long the target works off what lies on the way when the guest is stopped.
    behind: Duration,
    after: Duration,
}

fn by_step(bytes: u64) -> u64 {
    bytes / 100
}

fn millis(bytes: u64, speed: u64) -> Duration {
    Duration::from_millis(bytes * 1000 / speed)
}

/// Sends the guest until QEMU stops it, with looks or without.
fn send(guest: &Guest, way: Way, mut pace: Option<Pace>) -> Stop {
    let begun = Instant::now();
    let none = Terms {
        speed: None,
        downtime: Duration::from_millis(20),
    };
    let mut terms = pace.as_ref().map_or(none, Pace::begin);
    let (mut pass, mut left, mut sent, mut lies, mut changed) = (1, guest.memory, 0, 0_u64, 0);
    for step in 0_u32.. {
        let given = terms.speed.map_or(READS, by_step).min(READS);
        let goes = given.min(way.holds.saturating_sub(lies)).min(left);
        (left, sent, lies) = (left - goes, sent + goes, lies + goes);
        lies = lies.saturating_sub(by_step(way.takes));
        changed += by_step(guest.writes);
        let at = begun + STEP * step;
        if left == 0 {
            let rest = u64::try_from(terms.downtime.as_millis()).expect("short") * given / 10;
            if changed <= rest {
                let (behind, after) = (millis(lies, way.takes), at - begun);
                return Stop { behind, after };
            }
            (left, changed, pass) = (changed.min(guest.memory), 0, pass + 1);
        }
        if step % LOOKS == 0
            && let Some(pace) = &mut pace
        {
            let look = Look {
                at,
                pass,
                left,
                sent,
            };
            terms = pace.after(look);
        }
        assert!(step < 1_000_000, "it never ends");
    }
    unreachable!("it ends before")
}

/// From a slow link to a fast one: what they take, and what lies on them.
const WAYS: [Way; 4] = [
    Way {
        takes: 11 * MIB,
        holds: 4 * MIB,
    },
    Way {
        takes: 112 * MIB,
        holds: 8 * MIB,
    },
    Way {
        takes: 250 * MIB,
        holds: 20 * MIB,
    },
    Way {
        takes: 1200 * MIB,
        holds: 20 * MIB,
    },
];

#[test]
fn nothing_lies_on_the_way_when_a_guest_is_stopped() {
    for way in WAYS {
        for memory in [192 * MIB, 4096 * MIB, 65536 * MIB] {
            let guest = Guest {
                memory,
                writes: way.takes / 20,
            };
            let (held, let_go) = (
                send(&guest, way, Some(Pace::new(None))),
                send(&guest, way, None),
            );
            let takes = way.takes / MIB;
            let most = let_go.behind.min(Duration::from_millis(12));
            assert!(held.behind <= most, "{takes} {memory} {held:?} {let_go:?}");
            let patience = let_go.after * 5 / 4 + Duration::from_secs(6);
            assert!(held.after <= patience, "{takes} {held:?} {let_go:?}");
        }
    }
}

#[test]
fn a_guest_that_writes_much_is_not_held_back_for_long() {
    let way = WAYS[2];
    let guest = Guest {
        memory: 8192 * MIB,
        writes: 180 * MIB,
    };
    let (held, let_go) = (
        send(&guest, way, Some(Pace::new(None))),
        send(&guest, way, None),
    );
    assert!(held.after <= let_go.after * 2, "{held:?} {let_go:?}");
}

#[test]
fn what_somebody_allows_is_never_exceeded() {
    let mut pace = Pace::new(Some(6 * MIB));
    assert_eq!(pace.begin().speed, Some(6 * MIB));
    let begun = Instant::now();
    let mut look = Look {
        at: begun,
        pass: 1,
        left: 65536 * MIB,
        sent: 0,
    };
    for second in 0..20 {
        look.at = begun + Duration::from_secs(second);
        look.sent = second * 6 * MIB;
        look.left -= 6 * MIB;
        assert_eq!(pace.after(look).speed, Some(6 * MIB), "its own limit");
    }
    (look.pass, look.at) = (9, look.at + Duration::from_secs(1));
    assert_eq!(pace.after(look).speed, Some(6 * MIB));
}

#[test]
fn a_small_guest_is_sent_gently_and_a_large_one_as_fast_as_can_be() {
    let look = |left| Look {
        at: Instant::now(),
        pass: 1,
        left,
        sent: 0,
    };
    assert_eq!(Pace::new(None).begin().speed, Some(GENTLE));
    let small = Pace::new(None).after(look(SMALL));
    assert_eq!(small.speed, Some(GENTLE));
    let large = Pace::new(None).after(look(SMALL + 1));
    assert_eq!(large.speed, None);
}

#[test]
fn a_guest_that_writes_much_may_stand_still_longer() {
    let aims = [0, 1, 2, 3, 5, 6, 90].map(|vain| aim_after(vain).as_millis());
    assert_eq!(aims, [20, 20, 20, 100, 100, 300, 300]);
}
