//! A certificate of the authority, renewed before it expires, and what is noted of it where it is kept.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::authority::{Issued, PkiError, Subject, mark};
use crate::keyring::Keyring;
use crate::rotation::Lifetimes;

const UNTIL: &str = "polyvirt.io/certificate-valid-until";
const MADE_FOR: &str = "polyvirt.io/certificate-made-for";
const BUNDLE: &str = "polyvirt.io/certificate-trusts";

/// What a Secret says of the certificate in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notes {
    /// Until when it is valid.
    pub until: Timestamp,
    /// For whom, and by which CA.
    made_for: String,
    /// Which CAs are beside it.
    bundle: String,
}

/// What is to be done to a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// Other CAs are to be trusted; the certificate stays.
    Bundle,
    /// A new certificate.
    Renewal,
}

impl Notes {
    /// Of a certificate for the subject, valid until then.
    pub fn new(keyring: &Keyring, subject: &Subject, until: Timestamp) -> Self {
        Self {
            until,
            made_for: made_for(keyring, subject),
            bundle: mark(keyring.bundle().as_bytes()),
        }
    }

    /// As a Secret has them; `None` if they are not all there.
    pub fn read(annotations: &BTreeMap<String, String>) -> Option<Self> {
        Some(Self {
            until: annotations.get(UNTIL)?.parse().ok()?,
            made_for: annotations.get(MADE_FOR)?.clone(),
            bundle: annotations.get(BUNDLE)?.clone(),
        })
    }

    /// As a Secret has them.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (UNTIL.to_owned(), self.until.to_string()),
            (MADE_FOR.to_owned(), self.made_for.clone()),
            (BUNDLE.to_owned(), self.bundle.clone()),
        ])
    }
}

/// What is to be done to a Secret that says this, if it is there at all.
pub fn due(
    found: Option<&Notes>,
    keyring: &Keyring,
    subject: &Subject,
    lifetimes: &Lifetimes,
    now: Timestamp,
) -> Due {
    let Some(found) = found else {
        return Due::Renewal;
    };
    if found.made_for != made_for(keyring, subject) || now >= lifetimes.renewal(found.until) {
        Due::Renewal
    } else if found.bundle != mark(keyring.bundle().as_bytes()) {
        Due::Bundle
    } else {
        Due::Nothing
    }
}

/// A new certificate, and what is to be noted of it.
pub fn issue(
    keyring: &Keyring,
    subject: &Subject,
    lifetimes: &Lifetimes,
    now: Timestamp,
) -> Result<(Issued, Notes), PkiError> {
    let validity = lifetimes.leaf_from(now);
    let issued = keyring.signing().issue(subject, validity)?;
    Ok((issued, Notes::new(keyring, subject, validity.until)))
}

fn made_for(keyring: &Keyring, subject: &Subject) -> String {
    mark(format!("{} {subject:?}", keyring.signing().mark()).as_bytes())
}
