//! Names and passwords, step by step.

use crate::rpc::connection::Connection;
use crate::rpc::error::RpcError;
use crate::rpc::procedure::{AUTH_SASL_INIT, AUTH_SASL_START, AUTH_SASL_STEP};
use crate::rpc::xdr::{Decode, Encode, Reader, XdrError};

/// The longest message, as libvirt itself has it.
const MOST_BYTES: u32 = 65_536;

/// What one side says. It has no debug form, for a password may be in it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Encode for Message {
    /// By a whim of the protocol each byte is a word.
    fn encode(&self, to: &mut Vec<u8>) {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX).encode(to);
        for byte in &self.0 {
            i32::from(byte.cast_signed()).encode(to);
        }
    }
}

impl Decode for Message {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        let length = u32::decode(from)?;
        if length > MOST_BYTES {
            return Err(XdrError::TooLong(length as usize));
        }
        let byte = |_| i32::decode(from).map(|word| word.to_be_bytes()[3]);
        Ok(Self((0..length).map(byte).collect::<Result<_, _>>()?))
    }
}

/// What the server says.
pub(crate) struct SaslAnswer {
    pub(crate) is_over: bool,
    pub(crate) says: Message,
}

impl Decode for SaslAnswer {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        let (complete, _nothing) = (i32::decode(from)?, i32::decode(from)?);
        Ok(Self {
            is_over: complete != 0,
            says: Message::decode(from)?,
        })
    }
}

/// That something is said, though it may be empty.
const SAID: i32 = 0;

impl Connection {
    /// The ways that the server offers, with commas between them.
    pub(crate) async fn sasl_ways(&self) -> Result<String, RpcError> {
        self.call(AUTH_SASL_INIT, &()).await
    }

    pub(crate) async fn sasl_start(
        &self,
        way: &str,
        says: &Message,
    ) -> Result<SaslAnswer, RpcError> {
        self.call(AUTH_SASL_START, &(way, SAID, says.clone())).await
    }

    pub(crate) async fn sasl_step(&self, says: &Message) -> Result<SaslAnswer, RpcError> {
        self.call(AUTH_SASL_STEP, &(SAID, says.clone())).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::xdr;

    #[test]
    fn bytes_of_all_values_go_there_and_back() {
        let message = Message((0..=255).collect());
        let written = xdr::write(&message);
        assert_eq!(written.len(), 4 + 256 * 4);
        assert_eq!(
            written[4 + 200 * 4..][..4],
            [255, 255, 255, 200],
            "a signed byte"
        );
        let read: Message = xdr::read(written.into()).expect("sound");
        assert!(read == message);
        assert!(xdr::read::<Message>(bytes::Bytes::from_static(&[255; 4])).is_err());
    }
}
