//! What an operator says of a host for placement: `labels=disktype=ssd;rack=r7` and `zone=north`.

use std::collections::BTreeMap;

/// What [`Labels::parse`] wants.
pub const WANT: &str =
    "key=value for each label, with semicolons between them, as Kubernetes takes labels";
/// What [`zone`] wants.
pub const WANT_ZONE: &str = "a name of letters, digits, -, _ and ., of 63 characters at most";

/// The longest name or value of a label.
const LONGEST: usize = 63;
/// The longest domain before the name of a label.
const LONGEST_PREFIX: usize = 253;

/// Labels of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// Reads `key=value;key=value`; `None` if one cannot be a label, or one is there twice.
    pub fn parse(text: &str) -> Option<Self> {
        let mut all = BTreeMap::new();
        for pair in text.split(';').map(str::trim) {
            let (key, value) = pair.split_once('=')?;
            let fits = is_key(key) && (value.is_empty() || is_word(value));
            if !fits || all.insert(key.to_owned(), value.to_owned()).is_some() {
                return None;
            }
        }
        Some(Self(all))
    }

    /// With what the host tells of itself, which counts where both say something.
    #[must_use]
    pub fn beneath(&self, own: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut all = self.0.clone();
        all.extend(own);
        all
    }
}

/// Reads the name of a zone; `None` if it cannot be one.
pub fn zone(text: &str) -> Option<String> {
    is_word(text).then(|| text.to_owned())
}

fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_prefix(prefix) && is_word(name),
        None => is_word(key),
    }
}

fn is_prefix(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    !text.is_empty() && text.len() <= LONGEST_PREFIX && text.chars().all(fits)
}

fn is_word(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let chars = || text.chars();
    text.len() <= LONGEST && edge(chars().next()) && edge(chars().last()) && chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_of_kubernetes() {
        let long = "x".repeat(64);
        for (text, count) in [
            ("disktype=ssd", Some(1)),
            ("disktype=ssd; example.com/rack=r-7;gpu=", Some(3)),
            ("", None),
            ("disktype", None),
            ("=ssd", None),
            ("a=b;a=c", None),
            ("a b=c", None),
            ("a=b c", None),
            ("-a=b", None),
            ("Example.com/a=b", None),
            ("a/b/c=d", None),
            (long.as_str(), None),
        ] {
            let read = Labels::parse(text).map(|labels| labels.0.len());
            assert_eq!(read, count, "{text}");
        }
        assert_eq!(zone("north-1").as_deref(), Some("north-1"));
        assert_eq!((zone(""), zone("north 1"), zone(&long)), (None, None, None));
    }

    #[test]
    fn a_host_knows_its_own_name_best() {
        let labels = Labels::parse("kubernetes.io/hostname=x;disktype=ssd").expect("labels");
        let own = BTreeMap::from([("kubernetes.io/hostname".to_owned(), "hv-a".to_owned())]);
        let all = labels.beneath(own);
        assert_eq!(all["kubernetes.io/hostname"], "hv-a");
        assert_eq!(all["disktype"], "ssd");
    }
}
