//! Durations as Kubernetes users write them: `90s`, `1h30m`, `250ms`.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::cel::rule;

const RULE: &str = "duration(self) >= duration('0s')";

/// A length of time in the notation of Go, kept as written so that it reads back unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GoDuration(String);

/// The text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidDuration(String);

impl fmt::Display for InvalidDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is no duration: write it like 90s or 1h30m",
            self.0
        )
    }
}

impl std::error::Error for InvalidDuration {}

impl GoDuration {
    /// Takes the text as it is; [`GoDuration::parse`] tells whether it is a duration.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn literal(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// The text as the user wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The length of time, to the nanosecond.
    pub fn parse(&self) -> Result<Duration, InvalidDuration> {
        parse(&self.0).ok_or_else(|| InvalidDuration(self.0.clone()))
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for GoDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "x-kubernetes-validations": [rule(RULE, "Write a duration like 90s or 1h30m")],
        })
    }
}

fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return None;
    }
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let (part, tail) = take_part(rest)?;
        sum = sum.checked_add(part)?;
        rest = tail;
    }
    Some(sum)
}

fn take_part(text: &str) -> Option<(Duration, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(end);
    let (unit_nanos, tail) = UNITS
        .iter()
        .find_map(|(name, nanos)| Some((*nanos, rest.strip_prefix(name)?)))?;
    Some((Duration::from_nanos(scale(number, unit_nanos)?), tail))
}

/// Longer names first, so that `ms` is not read as `m`.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

fn scale(number: &str, unit_nanos: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let nanos = whole.checked_mul(unit_nanos)?;
    nanos.checked_add(fraction_nanos(fraction, unit_nanos)?)
}

fn fraction_nanos(digits: &str, unit_nanos: u64) -> Option<u64> {
    let mut nanos = 0_u64;
    let mut place = unit_nanos;
    for digit in digits.chars() {
        place /= 10;
        nanos += place * u64::from(digit.to_digit(10)?);
    }
    Some(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, millis) in [
            ("0", 0),
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("1.s", 1_000),
            ("250ms", 250),
            ("1m1s1ms", 61_001),
            ("2000us", 2),
            ("+5s", 5_000),
        ] {
            let parsed = GoDuration::new(text).parse();
            assert_eq!(parsed, Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_duration() {
        for text in [
            "",
            "5",
            "s",
            ".s",
            "1d",
            "-5s",
            "5 s",
            "1.2.3s",
            "9999999999999h",
            "1h1",
        ] {
            let error = GoDuration::new(text).parse().expect_err(text);
            assert!(error.to_string().contains("write it like 90s"), "{error}");
        }
    }
}
