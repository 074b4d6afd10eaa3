//! Amounts as Kubernetes writes them.

const KI: u64 = 1 << 10;
const MI: u64 = 1 << 20;
const GI: u64 = 1 << 30;

/// Suffixes and what they stand for; the longer ones first.
const UNITS: &[(&str, u64)] = &[
    ("Ki", KI),
    ("Mi", MI),
    ("Gi", GI),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
];

/// Bytes in the largest unit that says them exactly.
pub(crate) fn of_bytes(bytes: u64) -> String {
    let unit = [("Gi", GI), ("Mi", MI), ("Ki", KI)]
        .into_iter()
        .find(|(_, size)| bytes > 0 && bytes.is_multiple_of(*size));
    unit.map_or_else(
        || bytes.to_string(),
        |(name, size)| format!("{}{name}", bytes / size),
    )
}

/// GiB as a quantity.
pub(crate) fn of_gib(gib: u32) -> u64 {
    u64::from(gib) * GI
}

/// The number that a quantity stands for, rounded down; `None` if it is no quantity.
pub(crate) fn parse(text: &str) -> Option<u64> {
    if let Some(thousandths) = text.strip_suffix('m') {
        return thousandths.parse::<u64>().ok().map(|m| m / 1000);
    }
    let unit = UNITS.iter().find(|(name, _)| text.ends_with(name));
    let (number, size) = match unit {
        Some((name, size)) => (text.strip_suffix(name)?, *size),
        None => (text, 1),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(size);
    }
    fraction(number, size)
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a fraction of a unit is not exact in the first place"
)]
fn fraction(number: &str, size: u64) -> Option<u64> {
    let value = number.parse::<f64>().ok()? * size as f64;
    (value.is_finite() && value >= 0.0).then_some(value as u64)
}

/// Billionths of the unit, rounded down: processors are counted so finely.
pub(crate) fn billionths(text: &str) -> Option<u64> {
    let units = [("n", 1), ("u", 1_000), ("m", 1_000_000)];
    let (number, size) = units
        .iter()
        .find_map(|(name, size)| Some((text.strip_suffix(name)?, *size)))
        .unwrap_or((text, 1_000_000_000));
    match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(size),
        Err(_) => fraction(number, size),
    }
}

/// Whole MiB, rounded down.
pub(crate) fn mib(text: &str) -> Option<u64> {
    parse(text).map(|bytes| bytes / MI)
}

/// Whole GiB, rounded up: a disk is never told smaller than it is.
pub(crate) fn gib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(GI)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read() {
        for (text, bytes) in [
            ("2Gi", Some(2 * GI)),
            ("2147483648", Some(2 * GI)),
            ("1.5Gi", Some(3 * GI / 2)),
            ("2G", Some(2_000_000_000)),
            ("1e9", Some(1_000_000_000)),
            ("1500m", Some(1)),
            ("", None),
            ("a few", None),
            ("-1", None),
        ] {
            assert_eq!(parse(text), bytes, "{text}");
        }
    }

    #[test]
    fn processors_are_read() {
        for (text, billionths_of_one) in [
            ("12345678n", Some(12_345_678)),
            ("15u", Some(15_000)),
            ("250m", Some(250_000_000)),
            ("2", Some(2_000_000_000)),
            ("1.5", Some(1_500_000_000)),
            ("0", Some(0)),
            ("", None),
            ("-1", None),
        ] {
            assert_eq!(billionths(text), billionths_of_one, "{text}");
        }
    }

    #[test]
    fn quantities_are_written_exactly() {
        for (bytes, text) in [
            (4 * GI, "4Gi"),
            (1536 * MI, "1536Mi"),
            (MI + KI, "1025Ki"),
            (1_000_001, "1000001"),
            (0, "0"),
        ] {
            assert_eq!(of_bytes(bytes), text);
            assert_eq!(parse(text), Some(bytes));
        }
        assert_eq!(gib(GI + 1), 2);
    }
}
