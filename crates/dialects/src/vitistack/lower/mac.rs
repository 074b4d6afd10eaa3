//! Hardware addresses: given, known from before, or made from the UID of the Machine.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// So often is another address tried. After that the last one is taken: two of 2^32 rarely meet.
const TRIES: u32 = 64;

/// What an address is made from.
pub(super) struct Maker<'a> {
    /// UID of the Machine.
    pub uid: &'a str,
    /// The second byte.
    pub set: u8,
    /// Addresses that were given out before, by interface.
    pub known: &'a BTreeMap<String, String>,
    /// Whether somebody else has it.
    pub is_taken: &'a (dyn Fn(&str) -> bool + Sync),
}

impl Maker<'_> {
    /// The address of an interface.
    pub fn address(&self, given: Option<&str>, name: &str, index: usize) -> String {
        if let Some(given) = given.filter(|mac| !mac.is_empty()) {
            return normal(given);
        }
        if let Some(known) = self.known.get(name) {
            return normal(known);
        }
        let tries = (0..TRIES).map(|attempt| self.made(index, attempt));
        let mut free = tries.filter(|mac| !(self.is_taken)(mac));
        free.next().unwrap_or_else(|| self.made(index, TRIES))
    }

    /// 02 says that nobody sells cards with it.
    fn made(&self, index: usize, attempt: u32) -> String {
        let digest = Sha256::digest(format!("{}/{index}/{attempt}", self.uid).as_bytes());
        let [a, b, c, d] = [digest[0], digest[1], digest[2], digest[3]];
        format!("02:{:02x}:{a:02x}:{b:02x}:{c:02x}:{d:02x}", self.set)
    }
}

/// As everybody compares them.
pub(super) fn normal(mac: &str) -> String {
    mac.to_ascii_lowercase().replace('-', ":")
}
