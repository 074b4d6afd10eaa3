//! RSA keys for SSH. ring signs with them, which is in the program anyway: the crate `rsa`, with which russh would, tells a
//! patient listener of its secrets by the time that it takes (RUSTSEC-2023-0071).

use num_bigint::BigUint;
use ring::rand::SystemRandom;
use ring::rsa::{KeyPairComponents, PublicKeyComponents};
use ring::signature::{RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaEncoding, RsaKeyPair};
use russh::keys::agent::AgentIdentity;
use russh::keys::ssh_key::public::{KeyData, RsaPublicKey};
use russh::keys::ssh_key::{Mpint, private};
use russh::keys::{HashAlg, PrivateKey, PublicKey};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

/// A key that signs.
pub(super) struct RsaKey {
    pair: RsaKeyPair,
    pub(super) public: PublicKey,
}

impl RsaKey {
    /// A key in one of the forms of OpenSSL (`BEGIN RSA PRIVATE KEY`, `BEGIN PRIVATE KEY`); `None` if it is none of RSA.
    pub(super) fn from_pem(text: &str) -> Option<Self> {
        let pair = match PrivateKeyDer::from_pem_slice(text.as_bytes()).ok()? {
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
            PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
            _ => return None,
        };
        Self::of(pair.ok()?)
    }

    /// A key in the form of OpenSSH; `None` if it is none of RSA, or of less than 2048 bits.
    pub(super) fn from_openssh(key: &PrivateKey) -> Option<Self> {
        let private::KeypairData::Rsa(pair) = key.key_data() else {
            return None;
        };
        let (public, secret) = (pair.public(), pair.private());
        let bytes = |number: &Mpint| number.as_positive_bytes().map(<[u8]>::to_vec);
        let [d, p, q] = [secret.d(), secret.p(), secret.q()].map(bytes);
        let (d, p, q) = (d?, p?, q?);
        let components = KeyPairComponents {
            public_key: PublicKeyComponents {
                n: bytes(public.n())?,
                e: bytes(public.e())?,
            },
            dP: exponent(&d, &p),
            dQ: exponent(&d, &q),
            qInv: bytes(secret.iqmp())?,
            d,
            p,
            q,
        };
        Self::of(RsaKeyPair::from_components(&components).ok()?)
    }

    fn of(pair: RsaKeyPair) -> Option<Self> {
        let parts = PublicKeyComponents::<Vec<u8>>::from(pair.public());
        let [e, n] = [parts.e, parts.n].map(|bytes| Mpint::from_positive_bytes(&bytes));
        let public = KeyData::Rsa(RsaPublicKey::new(e, n).ok()?);
        Some(Self {
            pair,
            public: public.into(),
        })
    }

    /// The signature as SSH has it: its name and itself, each with its length before it, and that again.
    fn sign(&self, hash: Option<HashAlg>, message: &[u8]) -> Option<Vec<u8>> {
        let (name, encoding): (_, &'static dyn RsaEncoding) = match hash {
            Some(HashAlg::Sha512) => ("rsa-sha2-512", &RSA_PKCS1_SHA512),
            _ => ("rsa-sha2-256", &RSA_PKCS1_SHA256),
        };
        let mut signature = vec![0; self.pair.public().modulus_len()];
        let signed = self
            .pair
            .sign(encoding, &SystemRandom::new(), message, &mut signature);
        signed.ok()?;
        let both = [with_length(name.as_bytes()), with_length(&signature)].concat();
        Some(with_length(&both))
    }
}

/// `d` modulo `prime - 1`.
fn exponent(d: &[u8], prime: &[u8]) -> Vec<u8> {
    let [d, prime] = [d, prime].map(BigUint::from_bytes_be);
    // Of nothing there is no rest; ring refuses such a key.
    if prime <= BigUint::from(1_u32) {
        return Vec::new();
    }
    (d % (prime - 1_u32)).to_bytes_be()
}

fn with_length(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], bytes].concat()
}

/// Why nothing was signed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SignError {
    #[error("the connection was lost")]
    Lost(#[from] russh::SendError),
    #[error("the key of the credentials does not sign")]
    Unsound,
}

impl russh::Signer for RsaKey {
    type Error = SignError;

    /// What is to be signed, and behind it the signature.
    async fn auth_sign(
        &mut self,
        _: &AgentIdentity,
        hash: Option<HashAlg>,
        mut message: Vec<u8>,
    ) -> Result<Vec<u8>, Self::Error> {
        let signature = self.sign(hash, &message);
        message.extend(signature.ok_or(SignError::Unsound)?);
        Ok(message)
    }
}
