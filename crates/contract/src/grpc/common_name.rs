//! The common name in a certificate. The certificate was verified by the TLS handshake; this only reads it.

use std::ops::ControlFlow;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xA0;
/// 2.5.4.3, with its tag and length.
const COMMON_NAME: &[u8] = &[0x06, 0x03, 0x55, 0x04, 0x03];

/// The common name of the subject; `None` if there is none, or what we read is no certificate.
pub fn common_name(certificate: &[u8]) -> Option<String> {
    let (_, whole, _) = element(certificate)?;
    let (_, content, _) = element(whole)?;
    let subject = subject(content)?;
    let found = each(subject, |tag, set| {
        if tag != SET {
            return ControlFlow::Continue(());
        }
        each(set, |_, pair| match pair.strip_prefix(COMMON_NAME) {
            Some(value) => ControlFlow::Break(element(value).map(|(_, text, _)| text.to_vec())),
            None => ControlFlow::Continue(()),
        })
    });
    match found {
        ControlFlow::Break(Some(text)) => String::from_utf8(text).ok(),
        _ => None,
    }
}

/// The fields before are: an optional version, the number, the algorithm, the issuer, the dates.
fn subject(content: &[u8]) -> Option<&[u8]> {
    let mut rest = content;
    if rest.first() == Some(&VERSION) {
        rest = element(rest)?.2;
    }
    for _ in 0..4 {
        rest = element(rest)?.2;
    }
    let (tag, subject, _) = element(rest)?;
    (tag == SEQUENCE).then_some(subject)
}

fn each<T>(mut bytes: &[u8], mut look: impl FnMut(u8, &[u8]) -> ControlFlow<T>) -> ControlFlow<T> {
    while let Some((tag, content, rest)) = element(bytes) {
        look(tag, content)?;
        bytes = rest;
    }
    ControlFlow::Continue(())
}

/// The tag and content of the first element, and what comes after it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        long_length(usize::from(first & 0x7F), rest)?
    };
    let (content, after) = rest.split_at_checked(length)?;
    Some((tag, content, after))
}

fn long_length(bytes_of_length: usize, rest: &[u8]) -> Option<(usize, &[u8])> {
    if !(1..=4).contains(&bytes_of_length) {
        return None;
    }
    let (length, rest) = rest.split_at_checked(bytes_of_length)?;
    let length = length
        .iter()
        .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    Some((length, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind.clone(), *value);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn is_found_among_the_names_of_the_subject() {
        let both = [
            (DnType::OrganizationName, "system:masters"),
            (DnType::CommonName, "front-proxy-client"),
        ];
        let read = common_name(&certificate(&both));
        assert_eq!(read.as_deref(), Some("front-proxy-client"));
        let long = "n".repeat(200);
        let read = common_name(&certificate(&[(DnType::CommonName, &long)]));
        assert_eq!(read.as_deref(), Some(long.as_str()));
    }

    #[test]
    fn a_group_is_no_name_and_rubbish_is_nothing() {
        let group = certificate(&[(DnType::OrganizationName, "front-proxy-client")]);
        assert_eq!(common_name(&group), None);
        let whole = certificate(&[(DnType::CommonName, "x")]);
        for length in 0..whole.len() {
            let _ = common_name(&whole[..length]);
        }
        assert_eq!(common_name(&[0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF]), None);
        assert_eq!(common_name(&[0xFF; 64]), None);
    }
}
