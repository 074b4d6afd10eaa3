//! Words of a configuration: durations, sizes, how often.

use std::time::Duration;

/// `250ms`, `3s`, `2m`, `1h`; `0` needs no unit.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().ok()?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// `512Mi`, `256Gi`, `2Ti`, in MiB.
pub(crate) fn memory_mib(text: &str) -> Option<u64> {
    let (number, factor) = match text.split_at_checked(text.len().checked_sub(2)?)? {
        (number, "Mi") => (number, 1),
        (number, "Gi") => (number, 1024),
        (number, "Ti") => (number, 1024 * 1024),
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// `true` or `false`.
pub(crate) fn truth(text: &str) -> Option<bool> {
    text.parse().ok()
}

/// `10%`, `0.5%` or `0.1`, in parts per million; a whole number is not a chance.
pub(crate) fn per_million(text: &str) -> Option<u32> {
    let share: f64 = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok()? / 100.0,
        None if text.contains('.') => text.parse().ok()?,
        None => return None,
    };
    if !(0.0..=1.0).contains(&share) {
        return None;
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the share is between 0 and 1"
    )]
    let parts = (share * 1_000_000.0).round() as u32;
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("50ms", 50),
            ("3s", 3000),
            ("1.5s", 1500),
            ("2m", 120_000),
            ("0", 0),
        ] {
            assert_eq!(
                duration(text),
                Some(Duration::from_millis(millis)),
                "{text}"
            );
        }
        for text in ["", "5", "s", "5 s", "-1s", "1d"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(memory_mib("512Mi"), Some(512));
        assert_eq!(memory_mib("2Gi"), Some(2048));
        for text in ["", "Gi", "2G", "2", "-1Gi"] {
            assert_eq!(memory_mib(text), None, "{text}");
        }
    }

    #[test]
    fn chances() {
        assert_eq!(per_million("10%"), Some(100_000));
        assert_eq!(per_million("0.25"), Some(250_000));
        for text in ["3", "120%", "1.5", "x"] {
            assert_eq!(per_million(text), None, "{text}");
        }
    }
}
