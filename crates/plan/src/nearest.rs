//! Which name was probably meant by a mistyped one.

/// Letters that may differ. One more would suggest names that merely have the same length.
const MOST_EDITS: usize = 2;
/// Longer names are not compared, and neither are more names than this: the cost is bounded whatever exists.
const LONGEST: usize = 63;
const MOST_NAMES: usize = 1000;

/// The name that differs least from the mistyped one, by at most two letters and less than half of them; the first by the
/// alphabet of several.
pub fn nearest<'a>(mistyped: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = MOST_EDITS.min(mistyped.len().saturating_sub(1) / 2);
    let names = names.into_iter().take(MOST_NAMES);
    let near = names.filter_map(|name| Some((distance(mistyped, name, most)?, name)));
    near.min().map(|(_, name)| name)
}

/// How many letters must be inserted, removed, replaced or swapped with their neighbour; `None` if more than `most`.
fn distance(a: &str, b: &str, most: usize) -> Option<usize> {
    if a.len() > LONGEST || b.len() > LONGEST || a.len().abs_diff(b.len()) > most {
        return None;
    }
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut rows: [Vec<usize>; 3] = [Vec::new(), Vec::new(), (0..=b.len()).collect()];
    for i in 0..a.len() {
        rows.rotate_left(1);
        rows[2] = next_row(a, b, i, &rows[0], &rows[1]);
    }
    rows[2].last().copied().filter(|edits| *edits <= most)
}

/// The row of the table for the first `i + 1` letters of `a`, from the two rows before it.
fn next_row(a: &[u8], b: &[u8], i: usize, two_before: &[usize], before: &[usize]) -> Vec<usize> {
    let mut row = vec![i + 1];
    for j in 0..b.len() {
        let replaced = before[j] + usize::from(a[i] != b[j]);
        let mut least = replaced.min(before[j + 1] + 1).min(row[j] + 1);
        if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
            least = least.min(two_before[j - 1] + 1);
        }
        row.push(least);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_its_name() {
        let names = ["local", "playground", "small", "tiny"];
        for (mistyped, expected) in [
            ("playgroud", Some("playground")),
            ("palyground", Some("playground")),
            ("plagroudn", Some("playground")),
            ("smal", Some("small")),
            ("locals", Some("local")),
            ("elsewhere", None),
            ("x", None),
            ("", None),
            ("ti", None),
        ] {
            assert_eq!(nearest(mistyped, names), expected, "{mistyped}");
        }
    }

    #[test]
    fn the_first_of_two_that_are_as_near_is_taken() {
        assert_eq!(nearest("web-3", ["web-2", "web-1"]), Some("web-1"));
    }

    #[test]
    fn long_names_are_not_compared() {
        let long = "a".repeat(300);
        assert_eq!(nearest(&long, [long.as_str()]), None);
    }
}
