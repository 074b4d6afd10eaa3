//! The images that `marketplace://` names. Pure.
//!
//! One entry a name: `https://…`, and behind it, if the bytes are to be proved, `sha256:` with the digest or with the address
//! of the list in which the publisher keeps the digests of the day.

use std::collections::BTreeMap;

use polyvirt_api::infra::{ChecksumType, HttpImageSource};

/// The texts of the catalogue, by name.
pub type Catalogue = BTreeMap<String, String>;

/// Why an entry cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "The entry {name} of the image catalogue is no image: write an http or https URL, and behind it sha256:… or sha512:… with a digest, or with the address of a list of digests, if you have one"
)]
pub struct BadEntry {
    name: String,
}

/// The download that a name stands for; `None` if it is not in the catalogue.
pub fn look_up(catalogue: &Catalogue, name: &str) -> Option<Result<HttpImageSource, BadEntry>> {
    let text = catalogue.get(name)?;
    let bad = || BadEntry {
        name: name.to_owned(),
    };
    Some(entry(text).ok_or_else(bad))
}

fn entry(text: &str) -> Option<HttpImageSource> {
    let mut words = text.split_whitespace();
    let url = words.next().filter(|url| is_url(url))?;
    let mut source = HttpImageSource {
        url: url.to_owned(),
        ..HttpImageSource::default()
    };
    if let Some(digest) = words.next() {
        let (kind, hex) = digest.split_once(':')?;
        source.checksum_type = checksum_type(kind)?;
        let is_hex = !hex.is_empty() && hex.chars().all(|c| c.is_ascii_hexdigit());
        source.checksum = Some(hex.to_owned()).filter(|_| is_hex || is_url(hex));
        source.checksum.as_ref()?;
    }
    words.next().is_none().then_some(source)
}

fn is_url(word: &str) -> bool {
    let host = word
        .strip_prefix("https://")
        .or_else(|| word.strip_prefix("http://"));
    host.is_some_and(|rest| !rest.is_empty())
}

fn checksum_type(word: &str) -> Option<ChecksumType> {
    match word {
        "sha256" => Some(ChecksumType::Sha256),
        "sha512" => Some(ChecksumType::Sha512),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_url_and_perhaps_a_digest() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        let catalogue: Catalogue = [
            ("plain", "https://images.example/a.img".to_owned()),
            ("proved", format!("https://images.example/b.img {digest}\n")),
            ("short", "a.img".to_owned()),
            ("odd", "https://images.example/c.img crc:1".to_owned()),
            (
                "long",
                "https://images.example/c.img sha256:ab more".to_owned(),
            ),
            ("empty", String::new()),
        ]
        .map(|(name, text)| (name.to_owned(), text))
        .into();
        let plain = look_up(&catalogue, "plain").expect("known").expect("good");
        assert_eq!(plain.url, "https://images.example/a.img");
        assert_eq!(plain.checksum, None);
        let proved = look_up(&catalogue, "proved").expect("known").expect("good");
        assert_eq!(proved.checksum, Some("ab".repeat(32)));
        for bad in ["short", "odd", "long", "empty"] {
            let found = look_up(&catalogue, bad).expect("known");
            assert!(found.is_err(), "{bad}");
        }
        assert_eq!(look_up(&catalogue, "unknown"), None);
    }
}
