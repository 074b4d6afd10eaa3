//! What arrived for the guest's first boot, kept so that tests can see that it did.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// First-boot data of one VM. It may hold secrets, so its debug form tells the digest only.
///
/// The bytes are copied out of the request: a slice of it would keep the whole message of the wire in memory.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Seed {
    pub(crate) ignition: bool,
    #[serde(with = "text", default)]
    pub(crate) user_data: Box<[u8]>,
    #[serde(with = "text", default)]
    pub(crate) meta_data: Box<[u8]>,
    #[serde(with = "text", default)]
    pub(crate) network_data: Box<[u8]>,
    pub(crate) user_data_digest: Box<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub(crate) hostname: Box<str>,
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Seed").field(&self.user_data_digest).finish()
    }
}

impl Seed {
    pub(crate) fn new(ignition: bool, user_data: &[u8], meta: &[u8], network: &[u8]) -> Self {
        let hostname = hostname_in(meta).or_else(|| hostname_in(user_data));
        Self {
            ignition,
            user_data_digest: digest(user_data).into(),
            hostname: hostname.unwrap_or_default().into(),
            user_data: user_data.into(),
            meta_data: meta.into(),
            network_data: network.into(),
        }
    }

    /// The word for the kind of user data; `None` if there is none.
    pub(crate) fn kind(&self) -> Option<&'static str> {
        match (self.user_data.is_empty(), self.ignition) {
            (true, _) => None,
            (false, true) => Some("ignition"),
            (false, false) => Some("cloud-init"),
        }
    }
}

/// The first 16 hex digits of the SHA-256: what the mock shows of user data instead of the data.
pub fn digest(bytes: &[u8]) -> String {
    let mut hex = sha256(bytes);
    hex.truncate(16);
    hex
}

/// The SHA-256 in hex.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

/// The value of `local-hostname:` or `hostname:` at the beginning of a line, which is how cloud-init data says it.
pub(crate) fn hostname_in(yaml: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(yaml).ok()?;
    let value = |line: &str| {
        let rest = line
            .strip_prefix("local-hostname:")
            .or_else(|| line.strip_prefix("hostname:"))?;
        let name = rest.trim().trim_matches(['"', '\'']);
        (!name.is_empty()).then(|| name.to_owned())
    };
    text.lines().find_map(value)
}

/// Bytes in JSON: readable where they are text, hex where they are not.
mod text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    enum Form<'a> {
        Text(#[serde(borrow)] std::borrow::Cow<'a, str>),
        Hex(String),
    }

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], out: S) -> Result<S::Ok, S::Error> {
        let form = match std::str::from_utf8(bytes) {
            Ok(text) => Form::Text(text.into()),
            Err(_) => Form::Hex(super::hex(bytes)),
        };
        form.serialize(out)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Box<[u8]>, D::Error> {
        match Form::deserialize(input)? {
            Form::Text(text) => Ok(text.into_owned().into_bytes().into()),
            Form::Hex(hex) => (0..hex.len())
                .step_by(2)
                .map(|at| {
                    hex.get(at..at + 2)
                        .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                })
                .collect::<Option<Box<[u8]>>>()
                .ok_or_else(|| D::Error::custom("bytes are not in hex")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hostname_is_found_in_meta_data_before_user_data() {
        let user = b"#cloud-config\nhostname: from-user\n";
        let meta = b"instance-id: a\nlocal-hostname: \"from-meta\"\n";
        assert_eq!(&*Seed::new(false, user, meta, b"").hostname, "from-meta");
        assert_eq!(&*Seed::new(false, user, b"", b"").hostname, "from-user");
        assert_eq!(hostname_in(b"  hostname: nested\n"), None);
    }

    #[test]
    fn bytes_survive_json_whether_they_are_text_or_not() {
        for bytes in [&b"#cloud-config\n\"q\"\n"[..], &[0xff, 0x00, 0x9f]] {
            let seed = Seed::new(true, bytes, b"", b"");
            let json = serde_json::to_string(&seed).expect("serializable");
            assert_eq!(serde_json::from_str::<Seed>(&json).expect("readable"), seed);
        }
    }

    #[test]
    fn digests_are_those_of_sha256() {
        assert_eq!(digest(b"abc"), "ba7816bf8f01cfea");
        assert_eq!(sha256(b"abc").len(), 64);
    }
}
