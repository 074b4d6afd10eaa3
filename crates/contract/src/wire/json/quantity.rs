//! Kubernetes quantities (`4Gi`, `1.5G`, `1e9`), as far as sizes need them.

/// Bytes, rounded up; `None` if the text is not a quantity or is negative or beyond any size.
pub(super) fn bytes(text: &str) -> Option<u128> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '+')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (digits, decimals) = mantissa(number)?;
    let (factor, divisor) = scale(suffix)?;
    let divisor = divisor.checked_mul(10u128.checked_pow(decimals)?)?;
    Some(digits.checked_mul(factor)?.div_ceil(divisor))
}

/// The digits without the point, and how many of them stood behind it.
fn mantissa(number: &str) -> Option<(u128, u32)> {
    let number = number.strip_prefix('+').unwrap_or(number);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, u32::try_from(fraction.len()).ok()?))
}

fn scale(suffix: &str) -> Option<(u128, u128)> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    const SMALL: [&str; 4] = ["", "m", "u", "n"];
    let position = |list: &[&str]| list.iter().position(|s| *s == suffix);
    if let Some(i) = position(&BINARY) {
        return Some((1 << (10 * (i + 1)), 1));
    }
    if let Some(i) = position(&DECIMAL) {
        return Some((1000u128.pow(u32::try_from(i).ok()?), 1));
    }
    if let Some(i) = position(&SMALL) {
        return Some((1, 1000u128.pow(u32::try_from(i).ok()?)));
    }
    exponent(suffix.strip_prefix(['e', 'E'])?.parse().ok()?)
}

fn exponent(power: i32) -> Option<(u128, u128)> {
    let factor = 10u128.checked_pow(power.unsigned_abs())?;
    Some(if power < 0 { (1, factor) } else { (factor, 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_bytes() {
        for (text, expected) in [
            ("4Gi", Some(4 << 30)),
            ("512Mi", Some(512 << 20)),
            ("1.5Gi", Some(1536 << 20)),
            ("+2G", Some(2_000_000_000)),
            ("1e9", Some(1_000_000_000)),
            ("5E-1", Some(1)),
            ("1E", Some(1_000_000_000_000_000_000)),
            ("128", Some(128)),
            (".5Ki", Some(512)),
            ("1500m", Some(2)),
            ("0", Some(0)),
            ("-1Gi", None),
            ("", None),
            (".", None),
            ("4 Gi", None),
            ("4gi", None),
            ("1.2.3", None),
            ("99999999999999999999999999999999999999Ei", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
