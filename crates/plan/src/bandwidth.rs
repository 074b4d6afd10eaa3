//! How much may be sent in a second.

use crate::quantity;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const ADVICE: &str = "Write bits a second such as 10Gbps, or bytes a second such as 500MB/s or 1Gi";

/// Bytes a second of a text: bits with `bps` behind them, else bytes.
pub fn bytes_per_second(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let wrong = || format!("{text:?} is no bandwidth. {ADVICE}");
    let rate = match bits(text) {
        Some(number) => scaled(&upper(number)).map(|bits| bits / 8),
        None => scaled(bytes(text)),
    };
    rate.filter(|rate| *rate > 0).ok_or_else(wrong)
}

/// The number before `bps`, `bit/s` or `b/s`.
fn bits(text: &str) -> Option<&str> {
    ["bps", "bit/s", "b/s"]
        .iter()
        .find_map(|unit| text.strip_suffix(unit))
}

/// Nobody means a thousandth of a bit by `m`.
fn upper(number: &str) -> String {
    let number = number.trim_end();
    match number.strip_suffix(['g', 'm', 't']) {
        Some(rest) => format!("{rest}{}", number[rest.len()..].to_ascii_uppercase()),
        None => number.to_owned(),
    }
}

/// The number before `Bps`, `B/s`, `/s` or nothing.
fn bytes(text: &str) -> &str {
    let units = ["Bps", "B/s", "/s", "B"];
    let found = units.iter().find_map(|unit| text.strip_suffix(unit));
    found.unwrap_or(text)
}

/// A quantity, with a space before its unit and K for k as people write it.
fn scaled(number: &str) -> Option<u64> {
    let number: String = number.split_whitespace().collect();
    let number = match number.strip_suffix('K') {
        Some(rest) => format!("{rest}k"),
        None => number,
    };
    quantity::bytes_ceil(&Quantity(number)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_bytes_are_told_apart() {
        for (text, expected) in [
            ("10Gbps", 1_250_000_000),
            ("1Gbps", 125_000_000),
            ("2.5Gbps", 312_500_000),
            ("100Mbps", 12_500_000),
            ("10gbps", 1_250_000_000),
            ("100mbps", 12_500_000),
            ("8Kbps", 1000),
            ("8kbps", 1000),
            ("1Gbit/s", 125_000_000),
            ("800 Mbps", 100_000_000),
            ("500MB/s", 500_000_000),
            ("500MBps", 500_000_000),
            ("1Gi", 1 << 30),
            ("64Mi/s", 64 << 20),
            ("1GiB/s", 1 << 30),
            ("1000000", 1_000_000),
        ] {
            assert_eq!(bytes_per_second(text), Ok(expected), "{text}");
        }
        for text in ["", "fast", "0", "-1Gbps", "10 apples", "bps", "1e400"] {
            let why = bytes_per_second(text).expect_err(text);
            assert!(why.contains("10Gbps"), "{why}");
        }
    }
}
