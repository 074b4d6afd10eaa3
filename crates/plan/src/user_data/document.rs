//! One document as the user gave it, and where it came from.

use bytes::Bytes;
use polyvirt_api::infra::{CloudInit, Ignition, LocalRef};

use super::{MAX_BYTES, Secrets};
use crate::problem::Problem;
use crate::reason::Reason;

/// A kind of document: the fields that can hold it, and the keys under which a Secret does, in the order of trial.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kind {
    parent: &'static str,
    inline: &'static str,
    secret: &'static str,
    keys: &'static [&'static str],
}

macro_rules! kind {
    ($parent:literal, $keys:expr) => {
        Kind {
            parent: $parent,
            inline: concat!($parent, ".inline"),
            secret: concat!($parent, ".secretRef.name"),
            keys: &$keys,
        }
    };
}

pub(super) static USER_DATA: Kind = kind!(
    "spec.userData.cloudInit",
    [
        "userdata",
        "userData",
        "user-data",
        "cloud-init",
        "cloud-config"
    ]
);
pub(super) static META_DATA: Kind = kind!(
    "spec.metaData.cloudInit",
    ["metadata", "meta-data", "meta_data"]
);
pub(super) static NETWORK_DATA: Kind = kind!(
    "spec.networkData.cloudInit",
    [
        "network-config",
        "networkdata",
        "network-data",
        "network_config"
    ]
);
static IGNITION: Kind = kind!(
    "spec.userData.ignition",
    [
        "ignition",
        "config.ign",
        "userdata",
        "userData",
        "user-data"
    ]
);

/// A place in the manifest for one kind of document.
#[derive(Clone, Copy)]
pub(super) struct Slot<'a> {
    kind: &'static Kind,
    inline: Option<&'a str>,
    secret: Option<&'a LocalRef>,
    /// The key that the user names, in place of the usual ones.
    key: Option<&'a str>,
}

impl<'a> Slot<'a> {
    pub(super) fn cloud_init(kind: &'static Kind, given: &'a CloudInit) -> Self {
        Self {
            kind,
            inline: given.inline.as_deref(),
            secret: given.secret_ref.as_ref(),
            key: given.secret_key.as_deref(),
        }
    }

    pub(super) fn ignition(given: &'a Ignition) -> Self {
        Self {
            kind: &IGNITION,
            inline: given.inline.as_deref(),
            secret: given.secret_ref.as_ref(),
            key: None,
        }
    }

    pub(super) fn secret_needed(&self) -> Option<(&'static str, &'a str)> {
        self.secret
            .map(|secret| (self.kind.secret, secret.name.as_str()))
    }

    /// One or two documents, the inline one first; none of them is empty.
    pub(super) fn documents(&self, secrets: &Secrets) -> Result<Vec<Document>, Problem> {
        let inline = self
            .inline
            .map(|text| Ok(Document::inline(self.kind, text)));
        let secret = self.secret.map(|named| self.look_up(&named.name, secrets));
        let documents: Vec<Document> =
            inline.into_iter().chain(secret).collect::<Result<_, _>>()?;
        if documents.is_empty() {
            let message = "Nothing is given here. Set inline or secretRef, or remove the field";
            return Err(Problem::new(
                Reason::UserDataInvalid,
                self.kind.parent,
                message,
            ));
        }
        documents.iter().try_for_each(Document::check_size)?;
        Ok(documents)
    }

    fn look_up(&self, name: &str, secrets: &Secrets) -> Result<Document, Problem> {
        let invalid = |message| Problem::new(Reason::SecretInvalid, self.kind.secret, message);
        let Some(data) = secrets.get(name).and_then(Option::as_ref) else {
            return Err(invalid(format!(
                "There is no Secret {name} in the namespace of the VirtualMachine. Create it or correct the name"
            )));
        };
        let keys: Vec<&str> = match self.key {
            Some(named) => vec![named],
            None => self.kind.keys.to_vec(),
        };
        let found = keys.iter().find_map(|key| data.get_key_value(*key));
        let Some((key, bytes)) = found else {
            return Err(invalid(format!(
                "Secret {name} has none of the keys {}; {}. Rename the key that holds the document",
                keys.join(", "),
                present(data.keys()),
            )));
        };
        Ok(Document {
            kind: self.kind,
            secret: Some((name.to_owned(), key.clone())),
            bytes: bytes.clone(),
        })
    }

    pub(super) fn too_large(&self, size: usize) -> Problem {
        Problem::new(
            Reason::UserDataInvalid,
            self.kind.parent,
            size_message(size),
        )
    }
}

fn present<'k>(keys: impl ExactSizeIterator<Item = &'k String>) -> String {
    if keys.len() == 0 {
        return "it has no keys at all".to_owned();
    }
    let names: Vec<_> = keys.map(String::as_str).collect();
    format!("it has {}", names.join(", "))
}

fn size_message(size: usize) -> String {
    format!(
        "This is {size} bytes, and a guest is given at most {MAX_BYTES}. Shorten it, or let it fetch the rest with #include"
    )
}

/// One document and where it came from. It may hold secrets, so it has no debug text.
#[derive(Clone)]
pub(super) struct Document {
    kind: &'static Kind,
    secret: Option<(String, String)>,
    bytes: Bytes,
}

impl Document {
    fn inline(kind: &'static Kind, text: &str) -> Self {
        Self {
            kind,
            secret: None,
            bytes: Bytes::copy_from_slice(text.as_bytes()),
        }
    }

    pub(super) const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(super) fn text(&self) -> Result<&str, Problem> {
        std::str::from_utf8(&self.bytes).map_err(|error| {
            self.problem(format!(
                "Byte {} is no part of a UTF-8 text. Store it as UTF-8, or compressed with gzip where that is allowed",
                error.valid_up_to()
            ))
        })
    }

    /// A problem with what this document says.
    pub(super) fn problem(&self, message: impl Into<String>) -> Problem {
        let message = message.into();
        match &self.secret {
            None => Problem::new(Reason::UserDataInvalid, self.kind.inline, message),
            Some((name, key)) => Problem::new(
                Reason::UserDataInvalid,
                self.kind.secret,
                format!("Secret {name}, key {key}: {message}"),
            ),
        }
    }

    fn check_size(&self) -> Result<(), Problem> {
        if self.bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(self.problem("This is empty. Write the document, or remove the field"));
        }
        if self.bytes.len() > MAX_BYTES {
            return Err(self.problem(size_message(self.bytes.len())));
        }
        Ok(())
    }
}

/// For kinds of which a guest reads one.
pub(super) fn only_one(documents: &[Document]) -> Result<&Document, Problem> {
    match documents {
        [one] => Ok(one),
        [.., last] => Err(Problem::new(
            Reason::UserDataInvalid,
            last.kind.parent,
            "Two documents of this kind cannot be joined. Give either inline or secretRef",
        )),
        [] => Err(Problem::new(
            Reason::UserDataInvalid,
            "spec.userData",
            "Nothing is given here. Remove the field",
        )),
    }
}

#[cfg(test)]
impl Document {
    /// The inline user data of a test.
    pub(super) fn for_test(bytes: impl Into<Bytes>) -> Self {
        Self {
            kind: &USER_DATA,
            secret: None,
            bytes: bytes.into(),
        }
    }
}
