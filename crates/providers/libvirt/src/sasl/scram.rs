//! SCRAM (RFC 5802, RFC 7677), our half of it. Pure but for what ring computes.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2};

/// Without a channel that both sides name.
const HEADER: &str = "n,,";
/// A server that asks for less makes guessing cheap, one that asks for more only wants our time.
const ROUNDS: std::ops::RangeInclusive<u32> = 4096..=1_000_000;

/// What is computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    pub(super) const fn mechanism(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    fn salted(self, password: &str, salt: &[u8], rounds: NonZeroU32) -> Vec<u8> {
        let (by, length) = match self {
            Self::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, digest::SHA256_OUTPUT_LEN),
            Self::Sha512 => (pbkdf2::PBKDF2_HMAC_SHA512, digest::SHA512_OUTPUT_LEN),
        };
        let mut out = vec![0; length];
        pbkdf2::derive(by, rounds, salt, password.as_bytes(), &mut out);
        out
    }

    fn keyed(self, key: &[u8], text: &str) -> Vec<u8> {
        let by = match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        let tag = hmac::sign(&hmac::Key::new(by, key), text.as_bytes());
        tag.as_ref().to_vec()
    }

    fn plain(self, bytes: &[u8]) -> Vec<u8> {
        let by = match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        };
        digest::digest(by, bytes).as_ref().to_vec()
    }
}

/// Why a server is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScramError {
    #[error("it does not take username and password of the credentials ({0})")]
    Refused(String),
    #[error("its answer to our name cannot be read")]
    Unreadable,
    #[error(
        "it asks for {0} rounds of hashing, which is too few to be safe or too many to be meant"
    )]
    Rounds(u32),
    #[error("it does not know the password either: it is not who it says")]
    Impostor,
}

/// How far we are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// We have said our name.
    Named,
    /// We have shown that we know the password; the server is to show that in these bytes.
    Proved(Vec<u8>),
    Known,
}

/// One exchange. It has no debug form, for it holds the password.
pub(super) struct Scram {
    hash: Hash,
    password: String,
    nonce: String,
    named: String,
    stage: Stage,
}

impl Scram {
    pub(super) fn begin(hash: Hash, user: &str, password: &str, nonce: &str) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Self {
            hash,
            password: password.to_owned(),
            nonce: nonce.to_owned(),
            named: format!("n={user},r={nonce}"),
            stage: Stage::Named,
        }
    }

    pub(super) fn first(&self) -> String {
        format!("{HEADER}{}", self.named)
    }

    pub(super) fn knows_the_server(&self) -> bool {
        self.stage == Stage::Known
    }

    /// What is said to that.
    pub(super) fn hears(&mut self, says: &str) -> Result<String, ScramError> {
        if let Some(why) = part(says, 'e') {
            return Err(ScramError::Refused(why.to_owned()));
        }
        match &self.stage {
            Stage::Named => self.prove(says),
            Stage::Proved(expected) => {
                let shown = part(says, 'v').and_then(|text| BASE64.decode(text).ok());
                if shown.as_ref() != Some(expected) {
                    return Err(ScramError::Impostor);
                }
                self.stage = Stage::Known;
                Ok(String::new())
            }
            Stage::Known => Ok(String::new()),
        }
    }

    fn prove(&mut self, says: &str) -> Result<String, ScramError> {
        let unreadable = ScramError::Unreadable;
        let nonce = part(says, 'r').filter(|nonce| nonce.len() > self.nonce.len());
        let nonce = nonce.filter(|nonce| nonce.starts_with(&self.nonce));
        let nonce = nonce.ok_or_else(|| unreadable.clone())?;
        let salt = part(says, 's').and_then(|text| BASE64.decode(text).ok());
        let rounds = part(says, 'i').and_then(|text| text.parse::<u32>().ok());
        let (Some(salt), Some(rounds)) = (salt, rounds) else {
            return Err(unreadable);
        };
        let many = NonZeroU32::new(rounds).filter(|_| ROUNDS.contains(&rounds));
        let salted = self.hash.salted(
            &self.password,
            &salt,
            many.ok_or(ScramError::Rounds(rounds))?,
        );
        let bare = format!("c={},r={nonce}", BASE64.encode(HEADER));
        let all = format!("{},{says},{bare}", self.named);
        let key = self.hash.keyed(&salted, "Client Key");
        let signature = self.hash.keyed(&self.hash.plain(&key), &all);
        let proof: Vec<u8> = key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let theirs = self.hash.keyed(&salted, "Server Key");
        self.stage = Stage::Proved(self.hash.keyed(&theirs, &all));
        Ok(format!("{bare},p={}", BASE64.encode(proof)))
    }
}

/// The part of a message with that letter.
fn part(message: &str, letter: char) -> Option<&str> {
    let mut parts = message.split(',').filter_map(|part| part.split_once('='));
    parts.find_map(|(key, value)| key.eq(&letter.to_string()).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    fn exchange() -> Scram {
        Scram::begin(Hash::Sha256, "user", "pencil", NONCE)
    }

    /// The example of RFC 7677.
    #[test]
    fn the_example_of_the_standard_comes_out() {
        let mut scram = exchange();
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let proof = scram.hears(SERVER).expect("sound");
        assert_eq!(
            proof,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert!(!scram.knows_the_server());
        let last = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(scram.hears(last), Ok(String::new()));
        assert!(scram.knows_the_server());
    }

    #[test]
    fn a_server_that_does_not_know_the_password_is_not_believed() {
        let mut scram = exchange();
        scram.hears(SERVER).expect("sound");
        assert_eq!(scram.hears("v=AAAA"), Err(ScramError::Impostor));
        for (says, error) in [
            ("r=other,s=W22Z,i=4096", ScramError::Unreadable),
            (
                "r=rOprNGfwEbeRWgbNEkqO,s=W22Z,i=4096",
                ScramError::Unreadable,
            ),
            ("r=rOprNGfwEbeRWgbNEkqOx,s=W22Z,i=1", ScramError::Rounds(1)),
            (
                "r=rOprNGfwEbeRWgbNEkqOx,s=W22Z,i=4000000000",
                ScramError::Rounds(4_000_000_000),
            ),
            (
                "e=unknown-user",
                ScramError::Refused("unknown-user".to_owned()),
            ),
            ("", ScramError::Unreadable),
        ] {
            assert_eq!(exchange().hears(says), Err(error), "{says}");
        }
    }

    #[test]
    fn a_name_cannot_break_out_of_its_part() {
        let scram = Scram::begin(Hash::Sha512, "a,=b", "p", "x");
        assert_eq!(scram.first(), "n,,n=a=2C=3Db,r=x");
    }
}
