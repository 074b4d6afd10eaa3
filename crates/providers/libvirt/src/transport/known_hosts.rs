//! Whether a host is the one that we know, by a file as OpenSSH writes it.

use std::io::Write as _;

use russh::keys::known_hosts::known_host_keys_path;
use russh::keys::{HashAlg, PublicKey};

/// What a file says of a host's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is in the file.
    Known,
    /// Nothing is said of the host, or of this kind of key.
    Unknown(String),
    /// The host had another key of this kind. Somebody may be in between.
    Changed(String),
    /// The key is marked as stolen.
    Revoked(String),
    /// The file cannot be read.
    Unreadable(String),
}

impl Verdict {
    /// What to tell; `None` if all is well.
    pub(super) fn trouble(&self) -> Option<String> {
        let advice = "compare it with the host's own (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then put the line of ssh-keyscan into known_hosts of the credentials";
        match self {
            Self::Known => None,
            Self::Unknown(print) => Some(format!("its host key {print} is not known; {advice}")),
            Self::Changed(print) => Some(format!(
                "its host key is {print} and not the one in known_hosts: somebody may be in between; if the host was set up anew, {advice}"
            )),
            Self::Revoked(print) => Some(format!("its host key {print} is revoked in known_hosts")),
            Self::Unreadable(why) => Some(format!("known_hosts of the credentials: {why}")),
        }
    }
}

/// Holds a host's key against the file.
pub(super) fn check(file: &str, host: &str, port: u16, key: &PublicKey) -> Verdict {
    let print = key.fingerprint(HashAlg::Sha256).to_string();
    let mut revoked = file.lines().filter(|line| line.starts_with("@revoked"));
    if revoked.any(|line| names(line, key)) {
        return Verdict::Revoked(print);
    }
    let known = match recorded(file, host, port) {
        Ok(known) => known,
        Err(why) => return Verdict::Unreadable(why),
    };
    if known.iter().any(|known| known.key_data() == key.key_data()) {
        return Verdict::Known;
    }
    if known
        .iter()
        .any(|known| known.algorithm() == key.algorithm())
    {
        return Verdict::Changed(print);
    }
    Verdict::Unknown(print)
}

fn names(line: &str, key: &PublicKey) -> bool {
    let word = line.split_whitespace().nth(3);
    let named = word.and_then(|word| russh::keys::parse_public_key_base64(word).ok());
    named.is_some_and(|named| named.key_data() == key.key_data())
}

/// The library reads files only.
fn recorded(text: &str, host: &str, port: u16) -> Result<Vec<PublicKey>, String> {
    let mut file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    // It knows one space between words and no more.
    let one_space = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.lines().map(one_space).collect();
    let written = file
        .write_all((lines.join("\n") + "\n").as_bytes())
        .and_then(|()| file.flush());
    written.map_err(|error| error.to_string())?;
    let found = known_host_keys_path(host, port, file.path());
    let found = found.map_err(|error| error.to_string())?;
    Ok(found.into_iter().map(|(_, key)| key).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    const B: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIA6rWI3G1sz07DnfFlrouTcysQlj2P+jpNSOEWD9OJ3X";

    fn key(text: &str) -> PublicKey {
        russh::keys::parse_public_key_base64(text).expect("a key")
    }

    fn verdict(file: &str, host: &str, port: u16) -> Verdict {
        check(file, host, port, &key(A))
    }

    #[test]
    fn a_host_is_known_by_name_and_port() {
        let file = format!(
            "# mine\nhv1,10.0.0.1 ssh-ed25519 {A} root@hv1\n[hv2]:2222   ssh-ed25519 {A}\n"
        );
        assert_eq!(verdict(&file, "hv1", 22), Verdict::Known);
        assert_eq!(verdict(&file, "10.0.0.1", 22), Verdict::Known);
        assert_eq!(verdict(&file, "hv2", 2222), Verdict::Known);
        assert!(matches!(verdict(&file, "hv1", 2222), Verdict::Unknown(_)));
        assert!(matches!(verdict(&file, "hv2", 22), Verdict::Unknown(_)));
        assert!(matches!(verdict("", "hv1", 22), Verdict::Unknown(_)));
    }

    #[test]
    fn another_key_and_a_revoked_one_are_refused_with_the_fingerprint() {
        let changed = verdict(&format!("hv1 ssh-ed25519 {B}\n"), "hv1", 22);
        let text = changed.trouble().expect("trouble");
        assert!(
            text.contains("SHA256:") && text.contains("in between"),
            "{text}"
        );
        let file = format!("hv1 ssh-ed25519 {A}\n@revoked * ssh-ed25519 {A}\n");
        assert!(matches!(verdict(&file, "hv1", 22), Verdict::Revoked(_)));
    }
}
