//! The name of a VM: its UUID, which is also its owner's identity where that is one.

use std::fmt::Write as _;
use std::io::Read as _;

use polyvirt_contract::{Identity, VmId};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A UUID in its usual lower-case form. Its text is safe as the name of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// Reads the form with hyphens, in either case; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let groups: Vec<&str> = text.split('-').collect();
        let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
        if lengths != [8, 4, 4, 4, 12] {
            return None;
        }
        let digits = groups.concat();
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u128::from_str_radix(&digits, 16)
            .ok()
            .map(|number| Self(number.to_be_bytes()))
    }

    /// The UUID that these bytes are.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes, as they travel.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// The UUID of whoever has this identity: the identity itself, or one that is always made from it in the same way.
    pub fn of_identity(identity: &Identity) -> Self {
        Self::parse(identity.as_str()).unwrap_or_else(|| Self::from_name(identity.as_str()))
    }

    fn from_name(name: &str) -> Self {
        let digest = Sha256::new()
            .chain_update(b"polyvirt identity\0")
            .chain_update(name.as_bytes())
            .finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        Self::versioned(bytes, 8)
    }

    /// One that nobody has, for a VM without an owner.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self::versioned(bytes, 4))
    }

    const fn versioned(mut bytes: [u8; 16], version: u8) -> Self {
        bytes[6] = (bytes[6] & 0x0f) | (version << 4);
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }

    /// The VM as the contract names it.
    pub fn vm_id(self) -> VmId {
        VmId::from(self.to_string())
    }

    /// A MAC address of this VM's card of that name: always the same, locally administered, unicast.
    pub fn mac(self, nic: &str) -> String {
        let digest = Sha256::new()
            .chain_update(self.0)
            .chain_update(nic.as_bytes())
            .finalize();
        let [a, b, c, d] = [digest[0], digest[1], digest[2], digest[3]];
        // The second byte keeps clear of the prefix that QEMU itself gives to cards.
        format!("02:70:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
    }

    /// A few digits for names that have little room, such as those of network devices.
    pub fn short(self) -> String {
        let digest = Sha256::digest(self.0);
        hex(&digest[..4])
    }
}

/// Bytes as lower-case digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl std::fmt::Display for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl TryFrom<String> for Uuid {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is no UUID"))
    }
}

impl From<Uuid> for String {
    fn from(uuid: Uuid) -> Self {
        uuid.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_that_is_a_uuid_is_the_uuid() {
        let text = "0A1b2c3d-0000-4000-8000-00000000000f";
        let uuid = Uuid::of_identity(&Identity::from(text));
        assert_eq!(uuid.to_string(), text.to_ascii_lowercase());
    }

    #[test]
    fn another_identity_always_gives_the_same_uuid() {
        let of = |text: &str| Uuid::of_identity(&Identity::from(text));
        assert_eq!(of("default/web"), of("default/web"));
        assert_ne!(of("default/web"), of("default/db"));
        assert_eq!(of("../../etc").to_string().len(), 36);
        assert!(Uuid::parse(&of("x").to_string()).is_some());
    }

    #[test]
    fn what_is_no_uuid_is_refused() {
        for text in [
            "",
            "vm-1",
            "../x",
            "0a1b2c3d00004000800000000000000f",
            "0a1b2c3d-0000-4000-8000-00000000000g",
        ] {
            assert_eq!(Uuid::parse(text), None, "{text}");
        }
    }

    #[test]
    fn macs_are_local_unicast_and_stable() {
        let uuid = Uuid::of_identity(&Identity::from("a"));
        assert_eq!(uuid.mac("eth0"), uuid.mac("eth0"));
        assert_ne!(uuid.mac("eth0"), uuid.mac("eth1"));
        assert!(uuid.mac("eth0").starts_with("02:"));
    }
}
