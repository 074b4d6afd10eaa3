//! Digests of images. One of the wrong length never matches.

use polyvirt_api::infra::{ChecksumType, VMImageSource};
use polyvirt_plan::Problem;

use super::invalid;

/// What is wrong with the digests of a source.
pub(super) fn problems(field: &str, source: &VMImageSource) -> Vec<Problem> {
    let libvirt = source.libvirt.as_ref();
    let vsphere = source.vsphere.as_ref();
    let http = source.http.as_ref();
    let given = [
        ("libvirt", libvirt.map(|s| (&s.checksum, s.checksum_type))),
        ("vsphere", vsphere.map(|s| (&s.checksum, s.checksum_type))),
        ("http", http.map(|s| (&s.checksum, s.checksum_type))),
    ];
    let given = given.into_iter().filter_map(|(member, given)| {
        let (text, kind) = given?;
        wrong(text.as_deref()?, kind).map(|why| invalid(format!("{field}.{member}.checksum"), why))
    });
    given.collect()
}

const fn digits(kind: ChecksumType) -> usize {
    match kind {
        ChecksumType::Md5 => 32,
        ChecksumType::Sha1 => 40,
        ChecksumType::Sha256 => 64,
        ChecksumType::Sha512 => 128,
    }
}

/// The address of a list of digests.
fn is_list(text: &str) -> bool {
    let address = text.strip_prefix("https://");
    let address = address.or_else(|| text.strip_prefix("http://"));
    address.is_some_and(|rest| !rest.is_empty())
}

/// The word before a colon, as in `sha256:…`, is allowed.
fn wrong(text: &str, kind: ChecksumType) -> Option<String> {
    if text.is_empty() || is_list(text) {
        return None;
    }
    let digest = text.rsplit_once(':').map_or(text, |(_, digest)| digest);
    let hexadecimal = digest.bytes().all(|b| b.is_ascii_hexdigit());
    (!hexadecimal || digest.len() != digits(kind)).then(|| {
        format!(
            "A {} digest has {} hexadecimal digits, or is the address of a list of them. Correct it, or checksumType",
            polyvirt_plan::image::checksum_word(kind),
            digits(kind)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_have_the_length_of_their_kind() {
        for (text, kind, ok) in [
            ("a".repeat(64), ChecksumType::Sha256, true),
            (
                format!("sha256:{}", "A".repeat(64)),
                ChecksumType::Sha256,
                true,
            ),
            ("a".repeat(128), ChecksumType::Sha512, true),
            ("a".repeat(32), ChecksumType::Md5, true),
            (String::new(), ChecksumType::Sha256, true),
            (
                "https://images.example/SHA256SUMS".to_owned(),
                ChecksumType::Sha256,
                true,
            ),
            ("https://".to_owned(), ChecksumType::Sha256, false),
            ("a".repeat(40), ChecksumType::Sha256, false),
            ("g".repeat(64), ChecksumType::Sha256, false),
        ] {
            assert_eq!(wrong(&text, kind).is_none(), ok, "{text}");
        }
    }
}
