//! Names that are made from other names.

use sha2::{Digest, Sha256};

/// The first hexadecimal digits of a digest.
pub fn short_hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let [a, b, c, d] = [digest[0], digest[1], digest[2], digest[3]];
    format!("{a:02x}{b:02x}{c:02x}{d:02x}")
}

/// A text as a DNS label: lower case, and a dash for whatever is no letter or digit.
pub fn label(text: &str) -> String {
    let plain: String = text
        .chars()
        .map(|c| match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => c,
            _ => '-',
        })
        .collect();
    plain.trim_matches('-').to_owned()
}

/// Cuts a text to a length; what is cut off leaves a hash, so that two long names stay two.
pub fn shortened(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let hash = short_hash(text);
    let room = longest.saturating_sub(hash.len() + 1);
    let head: String = text.chars().take(room).collect();
    format!("{}-{hash}", head.trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_stay_apart() {
        let (one, two) = ("a".repeat(40) + "1", "a".repeat(40) + "2");
        assert_eq!(shortened(&one, 32).len(), 32);
        assert_ne!(shortened(&one, 32), shortened(&two, 32));
        assert_eq!(shortened("short", 32), "short");
    }

    #[test]
    fn labels_are_labels() {
        assert_eq!(label("Data Disk_1"), "data-disk-1");
        assert_eq!(label("-x-"), "x");
    }
}
