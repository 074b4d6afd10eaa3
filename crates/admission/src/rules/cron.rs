//! When something recurs.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use polyvirt_plan::Problem;

use super::invalid;

/// What the schema cannot tell of a schedule: whether its numbers exist.
pub(super) fn problem(field: &str, text: &str) -> Option<Problem> {
    if text.starts_with('@') {
        return None;
    }
    let parser = CronParser::builder()
        .seconds(Seconds::Optional)
        .year(Year::Optional)
        .build();
    let read: Result<Cron, _> = parser.parse(text);
    read.err().map(|error| {
        invalid(
            field,
            format!("{text:?} is no schedule ({error}). Write five fields such as 0 3 * * *"),
        )
    })
}

/// Whether a time zone exists. A system without a list of them knows none, and refuses none.
pub(super) fn zone_problem(field: &str, name: &str) -> Option<Problem> {
    let zones = jiff::tz::db();
    let known = name.is_empty() || name == "UTC" || zones.is_definitively_empty();
    (!known && zones.get(name).is_err()).then(|| {
        invalid(
            field,
            format!("There is no time zone {name:?}. Write one such as Europe/Oslo or UTC"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_exist() {
        for text in [
            "0 3 * * *",
            "*/5 * * * 1-5",
            "0 0 3 * * *",
            "0 0 L * *",
            "@daily",
            "@every 6h",
            "0 3 * jan mon",
        ] {
            assert_eq!(problem("f", text), None, "{text}");
        }
        for text in [
            "61 3 * * *",
            "0 25 * * *",
            "0 3 32 * *",
            "0 3 * 13 *",
            "a b c d e",
            "0 3 * *",
        ] {
            assert!(problem("f", text).is_some(), "{text}");
        }
    }

    #[test]
    fn time_zones_exist() {
        assert_eq!(zone_problem("f", "UTC"), None);
        if !jiff::tz::db().is_definitively_empty() {
            assert_eq!(zone_problem("f", "Europe/Oslo"), None);
            assert!(zone_problem("f", "Europe/Atlantis").is_some());
        }
    }
}
