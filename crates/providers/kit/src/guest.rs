//! What a guest's agent says, in the words of the contract, and how often a guest is asked where it is.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use polyvirt_contract::model::{ExecOutput, ExecRequest};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use serde_json::{Value, json};

/// What a command may write.
const MOST_OUTPUT: usize = 1 << 20;
/// Pauses between questions: the first, the longest, and the one after which two equal answers are believed.
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(10);
const SETTLED: Duration = Duration::from_secs(4);
/// How long a guest that says nothing new is asked.
const PATIENCE: Duration = Duration::from_mins(5);

/// Addresses of each card, by its MAC address in small letters; IPv4 first.
pub type Addresses = BTreeMap<String, Vec<String>>;

/// What the guest itself has told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Where it is.
    pub addresses: Addresses,
    /// Its name for itself; empty if it did not say.
    pub hostname: String,
}

impl Told {
    /// Whether each of these cards has an address. A guest without cards has said all.
    pub fn knows_all<'a>(&self, mut macs: impl Iterator<Item = &'a str>) -> bool {
        macs.all(|mac| self.addresses.get(mac).is_some_and(|list| !list.is_empty()))
    }
}

/// Sorts addresses out: IPv4 first, without those that are good on one link only, and without what is no address.
pub fn useful<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let addresses = texts.filter_map(|text| text.parse::<IpAddr>().ok());
    let mut useful: Vec<IpAddr> = addresses.filter(|address| !is_local(address)).collect();
    // IPv4 is less than IPv6.
    useful.sort_unstable();
    useful.dedup();
    useful.iter().map(ToString::to_string).collect()
}

const fn is_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_loopback() || v4.is_unspecified(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_loopback() || v6.is_unspecified(),
    }
}

/// Reads the answer to `guest-network-get-interfaces`.
pub fn addresses(interfaces: &Value) -> Addresses {
    let mut found = Addresses::new();
    for interface in interfaces.as_array().into_iter().flatten() {
        let Some(mac) = interface["hardware-address"].as_str() else {
            continue;
        };
        let list = interface["ip-addresses"].as_array().into_iter().flatten();
        let texts = list.filter_map(|entry| entry["ip-address"].as_str());
        found.insert(mac.to_ascii_lowercase(), useful(texts));
    }
    found.retain(|mac, _| mac != "00:00:00:00:00:00");
    found
}

/// Whether a guest's file systems were made quiet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// Nobody asked the guest.
    NotAsked,
    /// It gave no answer that can be relied on.
    Perhaps,
    /// It said so, and must be let go on.
    Yes,
}

/// The fault of a guest that was not let go on.
pub fn still_quiet(error: &impl std::fmt::Display) -> String {
    format!(
        "The guest's file systems are still frozen after a snapshot, and its programs wait for them: {error}. It is tried again; if that does not help, restart the guest's agent, or the guest"
    )
}

/// The arguments of `guest-exec`.
pub fn exec_arguments(request: &ExecRequest) -> Result<Value> {
    let Some((program, arguments)) = request.command.split_first() else {
        return Err(ProviderError::invalid("command", "Name a program to run"));
    };
    Ok(json!({
        "path": program, "arg": arguments, "capture-output": true,
        "input-data": BASE64.encode(&request.stdin),
    }))
}

/// Reads the answer to `guest-exec-status`; `None` while the command runs.
pub fn exec_output(status: &Value) -> Option<ExecOutput> {
    let text = |key: &str| {
        let encoded = status[key].as_str().unwrap_or_default();
        let mut bytes = BASE64.decode(encoded).unwrap_or_default();
        bytes.truncate(MOST_OUTPUT);
        Bytes::from(bytes)
    };
    let number = |key: &str| status[key].as_i64().and_then(|n| i32::try_from(n).ok());
    let exit_code = number("exitcode").or_else(|| number("signal").map(|signal| 128 + signal));
    (status["exited"].as_bool() == Some(true)).then(|| ExecOutput {
        exit_code: exit_code.unwrap_or(0),
        stdout: text("out-data"),
        stderr: text("err-data"),
    })
}

/// What a shell says of a program that the guest does not have.
pub fn no_program(why: &str) -> ExecOutput {
    ExecOutput {
        exit_code: 127,
        stdout: Bytes::new(),
        stderr: Bytes::from(format!("{why}\n")),
    }
}

/// A command that has not ended when its caller's time was up.
pub fn exec_too_slow() -> ProviderError {
    let message = "The command has not ended in time; allow more time, or look at the guest";
    ProviderError::new(ErrorKind::Timeout, message)
}

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There was none.
    None,
    /// It differs from the one before, or does not have all yet.
    News,
    /// All is there, and as it was before.
    Same,
}

/// When a guest is asked next: with growing pauses, until it has said the same twice. Then nobody asks any more.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pause: Duration,
    spent: Duration,
}

impl Pace {
    /// For a guest to which something happened: addresses come one after the other.
    pub const fn fresh() -> Self {
        Self {
            pause: FIRST,
            spent: Duration::ZERO,
        }
    }

    /// For a guest that is only asked whether all is as it was: one answer is enough.
    pub const fn check() -> Self {
        Self {
            pause: SETTLED,
            spent: Duration::ZERO,
        }
    }

    /// How long to wait after this answer; `None` to rest.
    pub fn after(&mut self, answer: Answer) -> Option<Duration> {
        let settled = answer == Answer::Same && self.pause >= SETTLED;
        if settled || self.spent >= PATIENCE {
            return None;
        }
        let pause = self.pause;
        self.spent += pause;
        self.pause = (pause * 2).min(LONGEST);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_sorted_out() {
        let interfaces = json!([
            {"name": "lo", "hardware-address": "00:00:00:00:00:00", "ip-addresses": [{"ip-address": "127.0.0.1"}]},
            {"name": "eth0", "hardware-address": "02:70:AA:00:00:01", "ip-addresses": [
                {"ip-address": "fe80::1"}, {"ip-address": "fec0::5"}, {"ip-address": "10.0.2.15"}]},
            {"name": "tun"},
        ]);
        let told = Told {
            addresses: addresses(&interfaces),
            hostname: String::new(),
        };
        let mac = "02:70:aa:00:00:01";
        let expected = vec!["10.0.2.15".to_owned(), "fec0::5".to_owned()];
        let expected = BTreeMap::from([(mac.to_owned(), expected)]);
        assert_eq!(told.addresses, expected);
        assert!(told.knows_all([mac].into_iter()));
        assert!(!told.knows_all([mac, "02:70:aa:00:00:02"].into_iter()));
    }

    #[test]
    fn the_end_of_a_command_is_read() {
        let output = |status: Value| exec_output(&status).expect("ended");
        let ended = output(json!({"exited": true, "exitcode": 3, "out-data": "aGk="}));
        assert_eq!((ended.exit_code, ended.stdout), (3, Bytes::from("hi")));
        assert_eq!(output(json!({"exited": true, "signal": 9})).exit_code, 137);
        assert_eq!(exec_output(&json!({"exited": false})), None);
    }

    #[test]
    fn a_guest_is_asked_until_it_has_said_the_same_twice() {
        let mut pace = Pace::fresh();
        let pauses: Vec<_> = [Answer::None, Answer::News, Answer::Same, Answer::Same]
            .into_iter()
            .map_while(|answer| pace.after(answer))
            .map(|pause| pause.as_millis())
            .collect();
        // Two equal answers that lie close together are not believed yet.
        assert_eq!(pauses, [500, 1000, 2000]);
        assert_eq!(Pace::check().after(Answer::Same), None);
        assert!(Pace::check().after(Answer::News).is_some());
    }

    #[test]
    fn a_guest_that_says_nothing_is_not_asked_for_ever() {
        let mut pace = Pace::fresh();
        let pauses: Vec<_> = std::iter::from_fn(|| pace.after(Answer::None)).collect();
        let spent: Duration = pauses.iter().sum();
        assert!(spent >= PATIENCE && spent < PATIENCE + LONGEST, "{spent:?}");
        assert!(pauses.iter().all(|pause| *pause <= LONGEST));
    }
}
