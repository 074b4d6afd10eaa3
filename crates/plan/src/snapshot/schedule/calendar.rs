//! The times of a schedule. Whoever asks, whenever, hears of the same slots.

use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use polyvirt_api::GoDuration;

use crate::problem::Problem;
use crate::reason::Reason;

/// Nothing recurs more often: a hypervisor needs its time.
const SHORTEST: Duration = Duration::from_secs(60);

/// How far back the last slot is looked for, in hours, nearest first. Slots that are dense are near.
const WINDOWS: [i64; 4] = [2, 3 * 24, 70 * 24, 5 * 366 * 24];

const CRON: &str = "spec.schedule.cronSpec";
const ZONE: &str = "spec.schedule.timezone";

/// The times of a schedule.
#[derive(Clone, Debug)]
pub struct Calendar {
    rule: Rule,
}

#[derive(Clone, Debug)]
enum Rule {
    Cron(Box<Cron>, TimeZone),
    Every(SignedDuration, Timestamp),
}

impl Calendar {
    /// Reads what a user has written. Intervals are counted from the anchor.
    pub fn parse(text: &str, zone: &str, anchor: Timestamp) -> Result<Self, Problem> {
        let (own, text) = split_zone(text);
        let zone = match own {
            Some(own) => time_zone(one_of(own, zone)?, CRON)?,
            None => time_zone(zone, ZONE)?,
        };
        let rule = match text.strip_prefix("@every ") {
            Some(interval) => Rule::Every(every(interval)?, anchor),
            None => Rule::Cron(Box::new(cron(text)?), zone),
        };
        Ok(Self { rule })
    }

    /// The first slot after a moment. `None` if there is none any more.
    pub fn next_after(&self, moment: Timestamp) -> Option<Timestamp> {
        match &self.rule {
            Rule::Cron(cron, zone) => {
                let from = moment.to_zoned(zone.clone());
                let next = cron.find_next_occurrence(&from, false).ok()?;
                Some(next.timestamp()).filter(|slot| *slot > moment)
            }
            Rule::Every(interval, anchor) => {
                let passed = moment.duration_since(*anchor).as_secs();
                let number = passed.div_euclid(interval.as_secs()).max(0) + 1;
                let since = interval.as_secs().checked_mul(number)?;
                anchor.checked_add(SignedDuration::from_secs(since)).ok()
            }
        }
    }

    /// The last slot after one moment and not after another.
    pub fn last_between(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        WINDOWS.iter().find_map(|hours| {
            let window = until.checked_sub(SignedDuration::from_hours(*hours));
            let from = window.map_or(after, |window| window.max(after));
            self.slots(from, until).last()
        })
    }

    /// All slots after one moment and not after another.
    pub fn slots(&self, after: Timestamp, until: Timestamp) -> impl Iterator<Item = Timestamp> {
        let first = self.next_after(after);
        std::iter::successors(first, |slot| self.next_after(*slot)).take_while(move |s| *s <= until)
    }
}

/// The time zone that stands before the fields, as many crons take it (`TZ=Europe/Oslo 0 3 * * *`), and the rest.
pub fn split_zone(text: &str) -> (Option<&str>, &str) {
    let text = text.trim();
    let named = text.strip_prefix("CRON_TZ=");
    let named = named.or_else(|| text.strip_prefix("TZ="));
    match named.and_then(|rest| rest.split_once(char::is_whitespace)) {
        Some((zone, fields)) if !zone.is_empty() => (Some(zone), fields.trim()),
        _ => (None, text),
    }
}

/// A schedule has one time zone. That of the field is UTC if nobody has written it.
fn one_of<'a>(own: &'a str, field: &str) -> Result<&'a str, Problem> {
    if field.is_empty() || field == "UTC" || field == own {
        return Ok(own);
    }
    let text = format!(
        "The time zone {own} stands before the fields, and timezone says {field}. Write it once"
    );
    Err(Problem::new(Reason::InvalidSpec, CRON, text))
}

fn cron(text: &str) -> Result<Cron, Problem> {
    let fields = match text {
        "@midnight" => "@daily",
        "@reboot" => return Err(no_schedule(text, "a hypervisor does not start every day")),
        other => other,
    };
    let parser = CronParser::builder()
        .seconds(Seconds::Optional)
        .year(Year::Optional)
        .build();
    let read = parser.parse(fields).map_err(|e| no_schedule(text, &e))?;
    let often = fields.split_whitespace().count() > 5 && !fields.starts_with("0 ");
    if often {
        return Err(no_schedule(text, "seconds can only be 0"));
    }
    Ok(read)
}

fn no_schedule(text: &str, why: impl std::fmt::Display) -> Problem {
    let message = format!("{text:?} is no schedule ({why}). Write five fields such as 0 3 * * *");
    Problem::new(Reason::InvalidSpec, CRON, message)
}

fn every(text: &str) -> Result<SignedDuration, Problem> {
    let interval = GoDuration::new(text.trim()).parse();
    let interval = interval.map_err(|e| Problem::new(Reason::InvalidSpec, CRON, e.to_string()))?;
    if interval < SHORTEST {
        let text = "The interval is too short. Write @every 1m or longer";
        return Err(Problem::new(Reason::InvalidSpec, CRON, text));
    }
    let seconds = i64::try_from(interval.as_secs()).unwrap_or(i64::MAX);
    Ok(SignedDuration::from_secs(seconds))
}

fn time_zone(name: &str, field: &str) -> Result<TimeZone, Problem> {
    if name.is_empty() || name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    TimeZone::get(name).map_err(|_| {
        let text = if jiff::tz::db().is_definitively_empty() {
            format!("Time zone {name:?} cannot be looked up: this system has no list of time zones. Install tzdata, or write UTC")
        } else {
            format!("There is no time zone {name:?}. Write one such as Europe/Oslo or UTC")
        };
        Problem::new(Reason::InvalidSpec, field, text)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn calendar(text: &str, zone: &str) -> Calendar {
        Calendar::parse(text, zone, at("2026-01-01T00:00:30Z")).expect("a schedule")
    }

    #[test]
    fn schedules_are_read() {
        for text in [
            "0 3 * * *",
            "*/5 * * * 1-5",
            "0 0 3 * * *",
            "0 0 L * *",
            "@daily",
            "@midnight",
            "@every 6h",
            "0 3 * jan mon",
        ] {
            assert!(
                Calendar::parse(text, "UTC", at("2026-01-01T00:00:00Z")).is_ok(),
                "{text}"
            );
        }
        for text in [
            "61 3 * * *",
            "0 25 * * *",
            "0 3 32 * *",
            "0 3 * 13 *",
            "a b c d e",
            "0 3 * *",
            "* * * * * *",
            "@reboot",
            "@every 5s",
            "@every soon",
        ] {
            let problem = Calendar::parse(text, "UTC", at("2026-01-01T00:00:00Z"));
            assert_eq!(problem.expect_err(text).field, CRON, "{text}");
        }
        let atlantis = Calendar::parse("@daily", "Europe/Atlantis", at("2026-01-01T00:00:00Z"));
        assert_eq!(atlantis.expect_err("no such place").field, ZONE);
    }

    #[test]
    fn a_time_zone_may_stand_before_the_fields() {
        let read = |text: &str, zone: &str| {
            let read = Calendar::parse(text, zone, at("2026-01-01T00:00:00Z"));
            read.map(|calendar| calendar.next_after(at("2026-07-01T00:00:00Z")))
        };
        let three = Some(at("2026-07-01T01:00:00Z"));
        for (text, zone) in [
            ("TZ=Europe/Oslo 0 3 * * *", "UTC"),
            ("CRON_TZ=Europe/Oslo  0 3 * * *", ""),
            ("TZ=Europe/Oslo 0 3 * * *", "Europe/Oslo"),
        ] {
            assert_eq!(read(text, zone), Ok(three), "{text} {zone}");
        }
        let midnight = Some(at("2026-07-01T22:00:00Z"));
        assert_eq!(read("TZ=Europe/Oslo @daily", "UTC"), Ok(midnight));
        for (text, zone) in [
            ("TZ=Europe/Oslo 0 3 * * *", "Asia/Tokyo"),
            ("TZ=Europe/Atlantis 0 3 * * *", "UTC"),
            ("TZ=Europe/Oslo", "UTC"),
            ("TZ= 0 3 * * *", "UTC"),
        ] {
            let problem = read(text, zone).expect_err(text);
            assert_eq!(problem.field, CRON, "{text}");
        }
    }

    #[test]
    fn a_time_of_day_is_that_of_its_zone() {
        for (zone, moment, slot) in [
            ("UTC", "2026-07-01T00:00:00Z", "2026-07-01T03:00:00Z"),
            (
                "Europe/Oslo",
                "2026-07-01T00:00:00Z",
                "2026-07-01T01:00:00Z",
            ),
            (
                "Europe/Oslo",
                "2026-01-01T00:00:00Z",
                "2026-01-01T02:00:00Z",
            ),
        ] {
            assert_eq!(
                calendar("0 3 * * *", zone).next_after(at(moment)),
                Some(at(slot)),
                "{zone}"
            );
        }
    }

    /// 29 March 2026: 02:00 becomes 03:00. 25 October 2026: 03:00 becomes 02:00.
    #[test]
    fn a_day_has_one_night_however_long_it_is() {
        let nightly = calendar("30 2 * * *", "Europe/Oslo");
        for (from, until) in [
            ("2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z"),
            ("2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z"),
        ] {
            assert_eq!(nightly.slots(at(from), at(until)).count(), 1, "{from}");
        }
        let often = calendar("*/30 * * * *", "Europe/Oslo");
        let all: Vec<_> = often
            .slots(at("2026-10-24T23:59:00Z"), at("2026-10-25T02:00:00Z"))
            .collect();
        assert_eq!(
            all.len(),
            5,
            "the hour that comes twice has its slots twice: {all:?}"
        );
    }

    #[test]
    fn intervals_are_counted_from_the_anchor() {
        let every = calendar("@every 6h", "UTC");
        let next = |text| every.next_after(at(text));
        assert_eq!(
            next("2025-12-31T00:00:00Z"),
            Some(at("2026-01-01T06:00:30Z"))
        );
        assert_eq!(
            next("2026-01-01T06:00:30Z"),
            Some(at("2026-01-01T12:00:30Z"))
        );
        assert_eq!(
            next("2026-01-01T06:00:29Z"),
            Some(at("2026-01-01T06:00:30Z"))
        );
    }

    #[test]
    fn a_day_that_never_comes_has_no_slot() {
        let never = calendar("0 0 30 2 *", "UTC");
        assert_eq!(never.next_after(at("2026-01-01T00:00:00Z")), None);
        assert_eq!(
            never.last_between(at("2020-01-01T00:00:00Z"), at("2026-01-01T00:00:00Z")),
            None
        );
    }

    proptest! {
        #[test]
        fn the_last_slot_is_the_last_of_all(
            rule in prop::sample::select(vec!["*/7 * * * *", "30 2 * * *", "0 3 * * 1", "0 0 1 * *", "@every 95m"]),
            zone in prop::sample::select(vec!["UTC", "Europe/Oslo", "America/New_York", "Australia/Lord_Howe"]),
            start in 1_767_225_600_i64..1_830_000_000,
            length in 0_i64..40 * 86_400,
        ) {
            let calendar = calendar(rule, zone);
            let from = Timestamp::from_second(start).expect("a time");
            let until = Timestamp::from_second(start + length).expect("a time");
            let all: Vec<_> = calendar.slots(from, until).collect();
            prop_assert_eq!(calendar.last_between(from, until), all.last().copied());
            prop_assert!(all.is_sorted_by(|a, b| a < b));
        }

        #[test]
        fn slots_do_not_depend_on_when_they_are_asked_for(
            zone in prop::sample::select(vec!["UTC", "Europe/Oslo", "America/New_York"]),
            start in 1_767_225_600_i64..1_830_000_000,
            offset in 1_i64..3 * 86_400,
        ) {
            let calendar = calendar("*/30 2 * * *", zone);
            let from = Timestamp::from_second(start).expect("a time");
            let later = Timestamp::from_second(start + offset).expect("a time");
            let end = Timestamp::from_second(start + 5 * 86_400).expect("a time");
            let seen: Vec<_> = calendar.slots(from, end).filter(|s| *s > later).collect();
            let again: Vec<_> = calendar.slots(later, end).collect();
            prop_assert_eq!(seen, again);
        }
    }
}
