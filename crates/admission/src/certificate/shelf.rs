//! What is kept, and what is due. Pure but for the making of keys.

use std::time::Duration;

use jiff::Timestamp;

use super::pair::Pair;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long things last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// How long a certificate is valid.
    pub valid: Duration,
    /// How long before its end the next one is made.
    pub renew_before: Duration,
    /// How long everybody gets to learn of a step.
    pub overlap: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            valid: 90 * DAY,
            renew_before: 30 * DAY,
            overlap: Duration::from_secs(3600),
        }
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing.
    Nothing,
    /// Make the next one, so that its authority becomes trusted.
    Announce,
    /// Show the next one.
    Promote,
    /// Trust the last one no longer.
    Forget,
    /// Make a new one at once: this one is of no use.
    Replace,
}

/// What is kept.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Shelf {
    /// The one that is shown.
    pub current: Pair,
    /// The one that will be.
    pub next: Option<Pair>,
    /// Who vouched for the one before.
    pub retired_ca: Option<Vec<u8>>,
    /// What the current one was made for.
    pub names: Vec<String>,
}

impl Shelf {
    /// With one certificate.
    pub fn new(names: &[String], now: Timestamp, valid: Duration) -> Result<Self, rcgen::Error> {
        Ok(Self {
            current: Pair::issue(names, now, valid)?,
            next: None,
            retired_ca: None,
            names: names.to_vec(),
        })
    }

    /// All authorities that are to be trusted, the shown one's first.
    pub fn bundle(&self) -> Vec<u8> {
        let next = self.next.as_ref().map(|next| &next.ca);
        let all = [Some(&self.current.ca), next, self.retired_ca.as_ref()];
        let all: Vec<&[u8]> = all.into_iter().flatten().map(Vec::as_slice).collect();
        all.concat()
    }

    /// What is to be done now.
    pub fn due(&self, names: &[String], now: Timestamp, last: &Lifetimes) -> Due {
        let age = |pair: &Pair| {
            Duration::try_from(now.duration_since(pair.issued)).unwrap_or(Duration::ZERO)
        };
        let own = age(&self.current);
        if self.names != names || own >= last.valid {
            return Due::Replace;
        }
        match &self.next {
            Some(next) if age(next) >= last.overlap => return Due::Promote,
            None if own >= last.valid.saturating_sub(last.renew_before) => return Due::Announce,
            _ => {}
        }
        // It was announced for as long as it has been shown now.
        if self.retired_ca.is_some() && own >= 2 * last.overlap {
            return Due::Forget;
        }
        Due::Nothing
    }

    /// What is kept when that is done.
    pub fn after(
        self,
        due: Due,
        names: &[String],
        now: Timestamp,
        last: &Lifetimes,
    ) -> Result<Self, rcgen::Error> {
        Ok(match due {
            Due::Nothing => self,
            Due::Announce => Self {
                next: Some(Pair::issue(names, now, last.valid)?),
                ..self
            },
            Due::Promote => self.promoted(),
            Due::Forget => Self {
                retired_ca: None,
                ..self
            },
            Due::Replace => Self {
                retired_ca: Some(self.current.ca),
                ..Self::new(names, now, last.valid)?
            },
        })
    }

    fn promoted(self) -> Self {
        let Some(next) = self.next else { return self };
        Self {
            retired_ca: Some(self.current.ca),
            current: next,
            next: None,
            names: self.names,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: Lifetimes = Lifetimes {
        valid: Duration::from_secs(90),
        renew_before: Duration::from_secs(30),
        overlap: Duration::from_secs(5),
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("a time")
    }

    fn names() -> Vec<String> {
        vec!["a.b.svc".to_owned(), "127.0.0.1".to_owned()]
    }

    fn authorities(shelf: &Shelf) -> usize {
        let text = String::from_utf8(shelf.bundle()).expect("PEM");
        text.matches("BEGIN CERTIFICATE").count()
    }

    #[test]
    fn a_renewal_goes_step_by_step() {
        let shelf = Shelf::new(&names(), at(0), LAST.valid).expect("made");
        let steps = [
            (59, Due::Nothing, 1),
            (60, Due::Announce, 2),
            (64, Due::Nothing, 2),
            (65, Due::Promote, 2),
            (69, Due::Nothing, 2),
            (70, Due::Forget, 1),
            (119, Due::Nothing, 1),
            (120, Due::Announce, 2),
        ];
        let mut now = shelf.clone();
        for (second, due, trusted) in steps {
            assert_eq!(now.due(&names(), at(second), &LAST), due, "at {second}");
            now = now.after(due, &names(), at(second), &LAST).expect("done");
            assert_eq!(authorities(&now), trusted, "at {second}");
        }
        assert!(now.current != shelf.current);
    }

    #[test]
    fn what_is_shown_is_always_trusted_before_and_after() {
        let old = Shelf::new(&names(), at(0), LAST.valid).expect("made");
        let announced = old.clone().after(Due::Announce, &names(), at(60), &LAST);
        let announced = announced.expect("made");
        assert!(announced.current == old.current);
        let promoted = announced
            .clone()
            .after(Due::Promote, &names(), at(65), &LAST);
        let promoted = promoted.expect("made");
        assert!(Some(&promoted.current) == announced.next.as_ref());
        assert_eq!(promoted.retired_ca, Some(old.current.ca));
    }

    #[test]
    fn one_that_is_of_no_use_is_replaced_at_once() {
        let shelf = Shelf::new(&names(), at(0), LAST.valid).expect("made");
        assert_eq!(shelf.due(&names(), at(90), &LAST), Due::Replace);
        let other = vec!["c.d.svc".to_owned()];
        assert_eq!(shelf.due(&other, at(1), &LAST), Due::Replace);
        let replaced = shelf
            .after(Due::Replace, &other, at(1), &LAST)
            .expect("made");
        assert_eq!(replaced.due(&other, at(1), &LAST), Due::Nothing);
        assert_eq!(authorities(&replaced), 2);
    }

    #[test]
    fn a_clock_that_went_back_does_no_harm() {
        let shelf = Shelf::new(&names(), at(0), LAST.valid).expect("made");
        assert_eq!(shelf.due(&names(), at(-1000), &LAST), Due::Nothing);
    }
}
