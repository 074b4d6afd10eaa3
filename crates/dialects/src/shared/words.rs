//! Messages of the engine in the fields of the kind that the user wrote.

/// Replaces each field path in a message: the longest beginning in the table that is the path or goes to one of its parts, by what
/// stands beside it; the rest of the path stays. Paths that the table does not know stay as they are.
///
/// ```text
/// ("spec.userData", "spec.template.spec.userData")
/// "Edit spec.userData.cloudInit" ─► "Edit spec.template.spec.userData.cloudInit"
/// ```
///
/// An entry with a `!` at its end stands for the path and all of its parts: the rest is dropped.
pub fn in_fields_of(message: &str, table: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = begin(rest) {
        let (before, from) = rest.split_at(at);
        let (path, after) = from.split_at(length(from));
        text.push_str(before);
        text.push_str(&translated(path, table));
        rest = after;
    }
    text.push_str(rest);
    text
}

/// Where the next path begins: at a word, not inside one.
fn begin(text: &str) -> Option<usize> {
    const ROOTS: [&str; 3] = ["spec.", "class.", "network."];
    // A full stop after the word "class" ends a sentence.
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase());
    let starts = |at: usize| {
        let mut rests = ROOTS
            .iter()
            .filter_map(|root| text[at..].strip_prefix(root));
        rests.any(goes_on)
    };
    let mut inside = false;
    for (at, c) in text.char_indices() {
        if !inside && starts(at) {
            return Some(at);
        }
        inside = c.is_ascii_alphanumeric() || c == '.' || c == '_' || c == '-';
    }
    None
}

/// How long the path is that the text begins with. A full stop at its end is that of the sentence.
fn length(text: &str) -> usize {
    let mut depth = 0_usize;
    let end = text.char_indices().find(|(_, c)| match c {
        '[' => {
            depth += 1;
            false
        }
        ']' => {
            depth = depth.saturating_sub(1);
            false
        }
        c => depth == 0 && !c.is_ascii_alphanumeric() && *c != '.',
    });
    let end = end.map_or(text.len(), |(at, _)| at);
    text[..end].trim_end_matches('.').len()
}

fn translated(path: &str, table: &[(&str, &str)]) -> String {
    let rest = |ours: &str| {
        let rest = path.strip_prefix(ours)?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
    };
    let known = table.iter().filter(|(ours, _)| rest(ours).is_some());
    let Some((ours, theirs)) = known.max_by_key(|(ours, _)| ours.len()) else {
        return path.to_owned();
    };
    match theirs.strip_suffix('!') {
        Some(whole) => whole.to_owned(),
        None => format!("{theirs}{}", rest(ours).unwrap_or_default()),
    }
}

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
        if let Some((ours, theirs)) = longest_first.iter().find(fits) {
            text.push_str(theirs);
            rest = &rest[ours.len()..];
        } else {
            text.push(next);
            rest = &rest[next.len_utf8()..];
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

    const TABLE: [(&str, &str); 4] = [
        ("spec.userData", "spec.template.spec.userData!"),
        ("spec.networks", "spec.template.spec.networks"),
        ("spec.image", "spec.template.spec.image.source!"),
        ("spec.imageRef", "spec.template.spec.image.source!"),
    ];

    #[test]
    fn every_path_of_a_message_is_translated() {
        for (ours, theirs) in [
            ("The VM is running", "The VM is running"),
            (
                "spec.userData.cloudInit.secretRef.name: Secret x does not exist",
                "spec.template.spec.userData: Secret x does not exist",
            ),
            (
                "These have no effect: spec.imageRef (read at creation), spec.networks[eth0].ipAddress. Revert",
                "These have no effect: spec.template.spec.image.source (read at creation), spec.template.spec.networks[eth0].ipAddress. Revert",
            ),
            ("See spec.image.", "See spec.template.spec.image.source."),
            (
                "spec.imagePullPolicy and prefix-spec.image",
                "spec.imagePullPolicy and prefix-spec.image",
            ),
            (
                "spec.template.spec.userData: x",
                "spec.template.spec.userData: x",
            ),
            ("Not in this network. Try", "Not in this network. Try"),
            ("Größe: spec.networks", "Größe: spec.template.spec.networks"),
        ] {
            assert_eq!(in_fields_of(ours, &TABLE), theirs);
        }
    }
}
