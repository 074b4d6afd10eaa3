//! Messages about what was made, in the fields of the kind that the user has written.

/// One field of ours and what the user has written in its place.
pub type Pair = (String, String);

/// Pairs from a table.
pub fn pairs(table: &[(&str, &str)]) -> Vec<Pair> {
    let owned = |(ours, theirs): &(&str, &str)| ((*ours).to_owned(), (*theirs).to_owned());
    table.iter().map(owned).collect()
}

/// The message with each of our words replaced, the longest that fits at each place. What is replaced is not looked at again, so
/// that a field of theirs which begins like one of ours is left alone.
pub fn translate(message: &str, pairs: &[Pair]) -> String {
    let mut longest_first: Vec<_> = pairs.iter().collect();
    longest_first.sort_by_key(|(ours, _)| std::cmp::Reverse(ours.len()));
    let (mut text, mut rest) = (String::with_capacity(message.len()), message);
    while let Some(next) = rest.chars().next() {
        let begins_word = !text.ends_with(|c: char| c.is_alphanumeric() || c == '.');
        let fits = |(ours, _): &&&Pair| begins_word && rest.starts_with(ours.as_str());
        match longest_first.iter().find(fits) {
            Some((ours, theirs)) => {
                text.push_str(theirs);
                rest = &rest[ours.len()..];
            }
            None => {
                text.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_word_wins_and_is_replaced_once() {
        let pairs = pairs(&[
            ("spec.a", "spec.b"),
            ("spec.a.x", "spec.y"),
            ("spec.b", "spec.c"),
            ("drop: ", ""),
        ]);
        for (ours, theirs) in [
            ("spec.a: wrong", "spec.b: wrong"),
            ("Failed: spec.a.x and spec.a", "Failed: spec.y and spec.b"),
            ("drop: größe spec.b", "größe spec.c"),
            ("other.spec.a", "other.spec.a"),
            ("", ""),
        ] {
            assert_eq!(translate(ours, &pairs), theirs);
        }
    }
}
