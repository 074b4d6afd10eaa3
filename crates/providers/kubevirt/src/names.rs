//! Names that follow from other names: the same ones always give the same.

use sha2::{Digest as _, Sha256};

/// The longest name of a volume, a card or a namespace.
const LONGEST_LABEL: usize = 63;
/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// Whether it can name a namespace, a volume or a card.
pub(crate) fn is_label(text: &str) -> bool {
    text.len() <= LONGEST_LABEL && is_part(text)
}

/// Whether it can name an object.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= LONGEST_NAME && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let edge = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let inside = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    edge(text.bytes().next()) && edge(text.bytes().last()) && text.bytes().all(inside)
}

/// Whether it is a MAC address of one card.
pub(crate) fn is_mac(text: &str) -> bool {
    let bytes: Vec<&str> = text.split([':', '-']).collect();
    let hex = |part: &&str| part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit());
    let one_card = |part: &str| u8::from_str_radix(part, 16).is_ok_and(|byte| byte & 1 == 0);
    bytes.len() == 6 && bytes.iter().all(hex) && one_card(bytes[0])
}

/// A MAC address that belongs to one card of one VM: local, and the same whenever it is asked for.
pub(crate) fn mac(identity: &str, card: &str) -> String {
    let hash = Sha256::digest(format!("{identity}/{card}"));
    let bytes: Vec<String> = hash[..5].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("02:{}", bytes.join(":"))
}

/// So many letters that stand for a text, and for no other.
pub(crate) fn hash(text: &str, letters: usize) -> String {
    let bytes = Sha256::digest(text);
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut hex = hex.concat();
    hex.truncate(letters);
    hex
}

/// One name of two that fits; what is cut off stays in a hash.
pub(crate) fn joined(first: &str, second: &str) -> String {
    let whole = format!("{first}-{}", cleaned(second));
    let whole = whole.trim_end_matches('-').to_owned();
    if whole.len() <= LONGEST_LABEL && cleaned(second) == second {
        return whole;
    }
    let end = whole.floor_char_boundary(LONGEST_LABEL - 9);
    let head = whole[..end].trim_end_matches(['-', '.']);
    format!("{head}-{}", hash(&format!("{first}/{second}"), 8))
}

fn cleaned(text: &str) -> String {
    let letter = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    text.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_kubernetes_takes() {
        for (text, fits) in [
            ("web", true),
            ("a-1", true),
            ("", false),
            ("Web", false),
            ("-a", false),
            ("a_b", false),
            ("a.b", false),
        ] {
            assert_eq!(is_label(text), fits, "{text}");
        }
        assert!(is_name("a.b") && !is_name("a..b") && !is_name(&"a".repeat(254)));
    }

    #[test]
    fn a_card_keeps_its_address() {
        let address = mac("id", "eth0");
        assert!(is_mac(&address), "{address}");
        assert_eq!(address, mac("id", "eth0"));
        assert_ne!(address, mac("id", "eth1"));
        assert!(!is_mac("01:00:00:00:00:00") && !is_mac("02:00:00:00:00") && !is_mac("xx"));
    }

    #[test]
    fn joined_names_fit_and_do_not_meet() {
        assert_eq!(joined("web", "data"), "web-data");
        let (a, b) = (
            joined("web", "Before Update"),
            joined("web", "before-update"),
        );
        assert_ne!(a, b);
        assert!(is_name(&a), "{a}");
        assert!(joined(&"a".repeat(63), "x").len() <= LONGEST_LABEL);
    }
}
