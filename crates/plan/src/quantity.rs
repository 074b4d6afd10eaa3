//! Kubernetes quantities (`4Gi`, `1.5G`, `500m`, `2e9`), read exactly and rounded up to whole units.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const NANOS: i128 = 1_000_000_000;
const NANOS_EXPONENT: i32 = 9;
const MIB: i128 = 1 << 20;
const GIB: i128 = 1 << 30;

/// Why a quantity is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not follow the notation.
    #[error(
        "Quantity {0:?} cannot be read: write a number and its unit without a space, such as 512Mi, 4Gi or 1.5Gi"
    )]
    Malformed(String),
    /// Less than nothing.
    #[error("Quantity {0:?} is negative: write a size such as 4Gi")]
    Negative(String),
    /// Too large or too precise to be counted.
    #[error("Quantity {0:?} is beyond any size that can be counted: write a size such as 4Gi")]
    OutOfRange(String),
}

/// The size in MiB. A part of a MiB counts as a whole one.
pub fn mebibytes(quantity: &Quantity) -> Result<u64, QuantityError> {
    in_units_of(MIB, quantity)
}

/// The size in GiB. A part of a GiB counts as a whole one.
pub fn gibibytes_ceil(quantity: &Quantity) -> Result<u64, QuantityError> {
    in_units_of(GIB, quantity)
}

/// The size in bytes. A part of a byte counts as a whole one.
pub fn bytes_ceil(quantity: &Quantity) -> Result<u64, QuantityError> {
    in_units_of(1, quantity)
}

/// A size for people, in three digits at most, rounded up: `1.43Gi`, `512Mi`, `4Ki`.
pub fn rounded(bytes: u64) -> Quantity {
    let units = [
        (1_u64 << 40, "Ti"),
        (1 << 30, "Gi"),
        (1 << 20, "Mi"),
        (1 << 10, "Ki"),
    ];
    let Some((unit, word)) = units.into_iter().find(|(unit, _)| bytes >= *unit) else {
        return Quantity(bytes.to_string());
    };
    let whole = bytes / unit;
    let digits: u32 = match whole {
        0..10 => 2,
        10..100 => 1,
        _ => 0,
    };
    let parts = 10_u128.pow(digits);
    let scaled = (u128::from(bytes) * parts).div_ceil(u128::from(unit));
    let (whole, part) = (scaled / parts, scaled % parts);
    let fraction = format!("{part:0width$}", width = digits as usize);
    let fraction = fraction.trim_end_matches('0');
    Quantity(match fraction {
        "" => format!("{whole}{word}"),
        fraction => format!("{whole}.{fraction}{word}"),
    })
}

fn in_units_of(unit: i128, quantity: &Quantity) -> Result<u64, QuantityError> {
    let text = quantity.0.as_str();
    let units = divide_up(nano_bytes(text)?, unit * NANOS);
    u64::try_from(units).map_err(|_| QuantityError::OutOfRange(text.to_owned()))
}

/// Thousand-millionths of a byte, never negative: the finest that a quantity can say.
fn nano_bytes(text: &str) -> Result<i128, QuantityError> {
    let malformed = || QuantityError::Malformed(text.to_owned());
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
    let (whole, fraction) = split_number(number).ok_or_else(malformed)?;
    let unit = Unit::parse(suffix).ok_or_else(malformed)?;
    let nanos = unit
        .nanos(whole, fraction)
        .ok_or_else(|| QuantityError::OutOfRange(text.to_owned()))?;
    if text.starts_with('-') && nanos > 0 {
        return Err(QuantityError::Negative(text.to_owned()));
    }
    Ok(nanos)
}

/// The digits before and after the point; there must be some, and one point at most.
fn split_number(number: &str) -> Option<(&str, &str)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let has_digits = !whole.is_empty() || !fraction.is_empty();
    (has_digits && !fraction.contains('.')).then(|| (whole, fraction.trim_end_matches('0')))
}

#[derive(Clone, Copy)]
enum Unit {
    /// A power of 2.
    Binary(u32),
    /// A power of 10.
    Decimal(i32),
}

impl Unit {
    fn parse(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "Ki" => Self::Binary(10),
            "Mi" => Self::Binary(20),
            "Gi" => Self::Binary(30),
            "Ti" => Self::Binary(40),
            "Pi" => Self::Binary(50),
            "Ei" => Self::Binary(60),
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "" => Self::Decimal(0),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            exponent => Self::Decimal(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
        })
    }

    fn nanos(self, whole: &str, fraction: &str) -> Option<i128> {
        let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
        let places = i32::try_from(fraction.len()).ok()?;
        match self {
            Self::Binary(power) => {
                let scaled = digits.checked_mul(1_i128.checked_shl(power)?)?;
                times_power_of_ten(scaled, NANOS_EXPONENT - places)
            }
            Self::Decimal(power) => {
                let power = power.checked_add(NANOS_EXPONENT)?.checked_sub(places)?;
                times_power_of_ten(digits, power)
            }
        }
    }
}

/// `None` if the result is too large. A negative power divides and rounds up.
fn times_power_of_ten(value: i128, power: i32) -> Option<i128> {
    if value == 0 {
        return Some(0);
    }
    let factor = 10_i128.checked_pow(power.unsigned_abs());
    if power >= 0 {
        return value.checked_mul(factor?);
    }
    // A divisor too large to be counted leaves something tiny, which rounds up to one.
    Some(factor.map_or(1, |divisor| divide_up(value, divisor)))
}

/// For a value that is not negative.
const fn divide_up(value: i128, divisor: i128) -> i128 {
    value / divisor + if value % divisor == 0 { 0 } else { 1 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mib(text: &str) -> Result<u64, QuantityError> {
        mebibytes(&Quantity(text.to_owned()))
    }

    #[test]
    fn every_notation_is_read() {
        for (text, expected) in [
            ("4Gi", 4096),
            ("512Mi", 512),
            ("1.5Gi", 1536),
            (".5Gi", 512),
            ("2.Gi", 2048),
            ("+1Gi", 1024),
            ("0.1Gi", 103),
            ("1024Ki", 1),
            ("1Ti", 1 << 20),
            ("1Pi", 1 << 30),
            ("1Ei", 1 << 40),
            ("1048576", 1),
            ("1048577", 2),
            ("1", 1),
            ("1M", 1),
            ("2M", 2),
            ("1G", 954),
            ("1T", 953_675),
            ("1P", 953_674_317),
            ("1E", 953_674_316_407),
            ("1e9", 954),
            ("1E9", 954),
            ("1e+9", 954),
            ("1.5e9", 1431),
            ("10000000000e-1", 954),
            ("1048576000m", 1),
            ("1048576001m", 2),
            ("1048576000000u", 1),
            ("1048576000000000n", 1),
            ("1n", 1),
            ("1e-400", 1),
            ("0", 0),
            ("0e999", 0),
            ("-0", 0),
            ("0.000Gi", 0),
            ("1.00000000000000000000000000000000000000000000000Gi", 1024),
        ] {
            assert_eq!(mib(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_advice() {
        for text in [
            "", ".", "Gi", "4 Gi", "4gi", "4GB", "4GiB", "1.2.3", "1e", "1e1.5", "e3", "--1",
            "0x10", "1_000", "٣Gi", "1K",
        ] {
            assert_eq!(mib(text), Err(QuantityError::Malformed(text.to_owned())));
        }
        assert_eq!(mib("-4Gi"), Err(QuantityError::Negative("-4Gi".to_owned())));
        for text in ["1e400", "99999999999999999999Ei", "1e2147483647"] {
            assert_eq!(mib(text), Err(QuantityError::OutOfRange(text.to_owned())));
        }
        for text in ["4GB", "-1", "1e400"] {
            let advice = mib(text).unwrap_err().to_string();
            assert!(
                advice.starts_with("Quantity") && advice.contains("4Gi"),
                "{advice}"
            );
        }
    }

    #[test]
    fn gibibytes_round_up() {
        for (text, expected) in [("40Gi", 40), ("40.1Gi", 41), ("1", 1), ("1G", 1), ("0", 0)] {
            assert_eq!(
                gibibytes_ceil(&Quantity(text.to_owned())),
                Ok(expected),
                "{text}"
            );
        }
    }

    const UNITS: [(&str, f64); 15] = [
        ("", 1.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("e7", 1e7),
        ("E-2", 1e-2),
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
    ];

    proptest! {
        #[test]
        #[allow(clippy::cast_precision_loss, reason = "the tolerance allows for it")]
        fn agrees_with_floating_point(whole in 0_u32..1_000_000, fraction in "[0-9]{0,6}", unit in 0..UNITS.len()) {
            let (suffix, factor) = UNITS[unit];
            let number = format!("{whole}.{fraction}");
            let expected = number.parse::<f64>().unwrap() * factor / 1_048_576.0;
            let found = mib(&format!("{number}{suffix}")).unwrap() as f64;
            let tolerance = expected * 1e-12;
            prop_assert!(found >= expected - tolerance && found <= expected + 1.0 + tolerance, "{found} {expected}");
        }

        #[test]
        fn any_text_is_read_or_answered_with_advice(text in "\\PC{0,12}") {
            if let Err(advice) = mib(&text) {
                prop_assert!(advice.to_string().contains("4Gi"));
            }
        }
    }

    #[test]
    fn sizes_for_people_are_short_and_never_too_small() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (4096, "4Ki"),
            (1_500_000, "1.44Mi"),
            (10_737_418_241, "10.1Gi"),
            (1 << 30, "1Gi"),
            (805_306_368, "768Mi"),
            (1 << 50, "1024Ti"),
        ] {
            assert_eq!(rounded(bytes).0, text);
            assert!(bytes_ceil(&rounded(bytes)).expect("a size") >= bytes);
        }
    }
}
