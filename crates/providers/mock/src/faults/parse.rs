//! Rules as text: `fail=Create:Unavailable:3`, `lose=Power:10%`, `latency=50ms..200ms`.

use std::str::FromStr;

use polyvirt_contract::ErrorKind;

use crate::faults::{Effect, Latency, Often, Rule, Stutter};
use crate::rpc::Rpc;
use crate::units;

/// Why a rule could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// There is no such fault.
    #[error("Unknown fault {0:?}; known are {known}", known = Rule::KEYS.join(", "))]
    UnknownFault(String),
    /// There is no such call.
    #[error("Unknown call {0:?}; write a call of the contract such as Create, or * for any")]
    UnknownCall(String),
    /// There is no such kind of error.
    #[error(
        "Unknown error {0:?}; write a kind such as Unavailable, Timeout, Internal or Exhausted"
    )]
    UnknownError(String),
    /// The number of times or the chance makes no sense.
    #[error("Cannot read {0:?} as how often; write a count (3) or a chance (10% or 0.1)")]
    BadOften(String),
    /// The time makes no sense.
    #[error("Cannot read {0:?} as a time; write 50ms, 3s, or a range such as 100ms..600ms")]
    BadTime(String),
    /// The text has no `=`, or too many parts.
    #[error("Cannot read the fault {0:?}; write for example fail=Create:Unavailable:3")]
    BadForm(String),
}

impl Rule {
    /// The words with which a rule begins.
    pub const KEYS: &'static [&'static str] = &[
        "fail",
        "lose",
        "drop",
        "hang",
        "crash",
        "latency",
        "duplicate",
        "late",
        "reorder",
        "break",
        "forget",
        "half",
    ];

    /// Reads `key=value`:
    ///
    /// | text | what happens |
    /// |---|---|
    /// | `fail=Call:Kind[:often]` | refused, nothing done |
    /// | `lose=Call[:Kind][:often]` | done, answered with an error |
    /// | `drop=Call[:often]` | never arrived, answered with `Timeout` |
    /// | `hang=Call[:often]` | never answered |
    /// | `crash=Call[:often]` | done, then the process starts anew |
    /// | `latency=50ms`, `latency=100ms..600ms` | answers take time |
    /// | `duplicate=often`, `reorder=often`, `break=often`, `late=often:2s` | watch messages |
    /// | `forget=often` | tasks are forgotten when they end |
    /// | `half=often` | a create fails and leaves the VM half created |
    ///
    /// `often` is a count (`3`) or a chance (`10%`, `0.1`); without it, always.
    pub fn parse(key: &str, value: &str) -> Result<Self, FaultError> {
        let parts: Vec<&str> = value.split(':').collect();
        match key {
            "latency" => latency(value).map(Self::Latency),
            "forget" => one(&parts, value).and_then(often).map(Self::ForgetTask),
            "half" => one(&parts, value).and_then(often).map(Self::HalfCreate),
            "duplicate" => watch(Stutter::Duplicate, &parts, value),
            "reorder" => watch(Stutter::Reorder, &parts, value),
            "break" => watch(Stutter::Break, &parts, value),
            "late" => late(&parts, value),
            "fail" | "lose" | "drop" | "hang" | "crash" => call(key, &parts, value),
            _ => Err(FaultError::UnknownFault(key.to_owned())),
        }
    }
}

impl FromStr for Rule {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| FaultError::BadForm(text.to_owned()))?;
        Self::parse(key.trim(), value.trim())
    }
}

fn call(key: &str, parts: &[&str], value: &str) -> Result<Rule, FaultError> {
    let bad = || FaultError::BadForm(format!("{key}={value}"));
    let (name, rest) = parts.split_first().ok_or_else(bad)?;
    let (effect, rest) = match (key, rest) {
        ("fail", [word, rest @ ..]) => (Effect::Fail(kind(word)?), rest),
        ("lose", [word, rest @ ..]) if often(word).is_err() => {
            (Effect::LoseReply(kind(word)?), rest)
        }
        ("lose", rest) => (Effect::LoseReply(ErrorKind::Unavailable), rest),
        ("drop", rest) => (Effect::DropRequest, rest),
        ("hang", rest) => (Effect::Hang, rest),
        ("crash", rest) => (Effect::Crash, rest),
        _ => return Err(bad()),
    };
    let often = match rest {
        [] => Often::Always,
        [word] => often(word)?,
        _ => return Err(bad()),
    };
    Ok(Rule::Call {
        rpc: rpc(name)?,
        effect,
        often,
    })
}

fn rpc(name: &str) -> Result<Option<Rpc>, FaultError> {
    if name == "*" {
        return Ok(None);
    }
    Rpc::parse(name)
        .map(Some)
        .ok_or_else(|| FaultError::UnknownCall(name.to_owned()))
}

fn kind(word: &str) -> Result<ErrorKind, FaultError> {
    ErrorKind::ALL
        .into_iter()
        .find(|kind| format!("{kind:?}").eq_ignore_ascii_case(word) || kind.reason() == word)
        .ok_or_else(|| FaultError::UnknownError(word.to_owned()))
}

fn often(word: &str) -> Result<Often, FaultError> {
    if let Ok(times) = word.parse() {
        return Ok(Often::Times(times));
    }
    units::per_million(word)
        .map(Often::Chance)
        .ok_or_else(|| FaultError::BadOften(word.to_owned()))
}

fn one<'a>(parts: &[&'a str], value: &str) -> Result<&'a str, FaultError> {
    match parts {
        [word] => Ok(word),
        _ => Err(FaultError::BadForm(value.to_owned())),
    }
}

fn watch(stutter: Stutter, parts: &[&str], value: &str) -> Result<Rule, FaultError> {
    let often = often(one(parts, value)?)?;
    Ok(Rule::Watch { stutter, often })
}

fn late(parts: &[&str], value: &str) -> Result<Rule, FaultError> {
    let [word, delay] = parts else {
        return Err(FaultError::BadForm(format!("late={value}")));
    };
    let often = often(word)?;
    let stutter = Stutter::Late(time(delay)?);
    Ok(Rule::Watch { stutter, often })
}

fn latency(value: &str) -> Result<Latency, FaultError> {
    let Some((min, max)) = value.split_once("..") else {
        return time(value).map(Latency::fixed);
    };
    let (min, max) = (time(min)?, time(max)?);
    if min > max {
        return Err(FaultError::BadTime(value.to_owned()));
    }
    Ok(Latency { min, max })
}

fn time(word: &str) -> Result<std::time::Duration, FaultError> {
    units::duration(word).ok_or_else(|| FaultError::BadTime(word.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rules_are_read() {
        let second = Duration::from_secs(1);
        let call = |rpc, effect, often| Rule::Call { rpc, effect, often };
        let watch = |stutter, often| Rule::Watch { stutter, often };
        for (text, rule) in [
            (
                "fail=Create:Unavailable:3",
                Rule::fail(Rpc::Create, ErrorKind::Unavailable, Often::Times(3)),
            ),
            (
                "fail=*:CapacityExhausted",
                call(None, Effect::Fail(ErrorKind::Exhausted), Often::Always),
            ),
            ("lose=Create:1", Rule::lose(Rpc::Create, Often::Times(1))),
            (
                "lose=Power:Timeout:10%",
                call(
                    Some(Rpc::Power),
                    Effect::LoseReply(ErrorKind::Timeout),
                    Often::Chance(100_000),
                ),
            ),
            (
                "drop=Delete",
                Rule::call(Rpc::Delete, Effect::DropRequest, Often::Always),
            ),
            (
                "hang=Describe:1",
                Rule::call(Rpc::Describe, Effect::Hang, Often::Times(1)),
            ),
            (
                "crash=Create:1",
                Rule::call(Rpc::Create, Effect::Crash, Often::Times(1)),
            ),
            ("latency=1s", Rule::Latency(Latency::fixed(second))),
            (
                "latency=1s..2s",
                Rule::Latency(Latency {
                    min: second,
                    max: 2 * second,
                }),
            ),
            (
                "duplicate=0.5",
                watch(Stutter::Duplicate, Often::Chance(500_000)),
            ),
            ("late=2:1s", watch(Stutter::Late(second), Often::Times(2))),
            ("break=1", watch(Stutter::Break, Often::Times(1))),
            ("reorder=1%", watch(Stutter::Reorder, Often::Chance(10_000))),
            ("forget=1", Rule::ForgetTask(Often::Times(1))),
            ("half=2", Rule::HalfCreate(Often::Times(2))),
        ] {
            assert_eq!(text.parse(), Ok(rule), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, word) in [
            ("explode=Create", "explode"),
            ("fail=Creat:Unavailable", "Creat"),
            ("fail=Create:Sadness", "Sadness"),
            ("fail=Create", "fail=Create"),
            ("drop=Create:often", "often"),
            ("latency=soon", "soon"),
            ("latency=2s..1s", "2s..1s"),
            ("late=1", "late=1"),
            ("nonsense", "nonsense"),
        ] {
            let error = text.parse::<Rule>().expect_err(text).to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
