//! Sizes as people write them.

/// Exactly so many bytes, in the largest unit that has no fraction.
pub fn binary_quantity(bytes: u64) -> String {
    let units = [
        (1 << 40, "Ti"),
        (1 << 30, "Gi"),
        (1 << 20, "Mi"),
        (1 << 10, "Ki"),
    ];
    let fitting = units
        .into_iter()
        .find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    fitting.map_or_else(
        || bytes.to_string(),
        |(unit, word)| format!("{}{word}", bytes / unit),
    )
}
