//! Messages on the wire: a length, six words, and a body.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::xdr::{self, Decode as _, Encode as _, Reader};

/// The largest message that libvirt sends or takes.
const MOST_BYTES: usize = 32 << 20;
const HEADER_BYTES: usize = 28;
/// The most bytes of a stream in one message.
pub(crate) const MOST_STREAM_BYTES: usize = 262_120;

/// Calls and events of all hypervisors.
pub(crate) const REMOTE: u32 = 0x2000_8086;
/// Calls of QEMU alone.
pub(crate) const QEMU: u32 = 0x2000_8087;
/// Signs of life.
pub(crate) const KEEPALIVE: u32 = 0x6b65_6570;
const VERSION: u32 = 1;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A question of ours.
    Call = 0,
    /// The answer to it.
    Reply = 1,
    /// Something that nobody asked for.
    Message = 2,
    /// A piece of a stream.
    Stream = 3,
}

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Well; of a stream, its end.
    Ok = 0,
    /// Badly: the body says why.
    Error = 1,
    /// More of a stream follows.
    Continue = 2,
}

/// What is said before a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) program: u32,
    pub(crate) procedure: u32,
    pub(crate) kind: Kind,
    pub(crate) serial: u32,
    pub(crate) status: Status,
}

/// Why no message could be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The connection broke.
    #[error("{0}")]
    Broken(#[from] std::io::Error),
    /// The other side is no libvirt, or the bytes are damaged.
    #[error("the other side sent what is no message of libvirt: {0}")]
    Garbage(String),
}

impl Header {
    /// The whole message.
    pub(crate) fn with(self, body: &[u8]) -> Bytes {
        let length = u32::try_from(HEADER_BYTES + body.len()).unwrap_or(u32::MAX);
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        let words = (length, self.program, VERSION);
        words.encode(&mut bytes);
        (self.procedure, self.kind as u32, self.serial).encode(&mut bytes);
        (self.status as u32).encode(&mut bytes);
        bytes.extend_from_slice(body);
        Bytes::from(bytes)
    }

    fn read(from: &mut Reader) -> Result<Self, FrameError> {
        let garbage = |error: xdr::XdrError| FrameError::Garbage(error.to_string());
        let words = <(u32, u32, u32, u32, u32, u32)>::decode(from).map_err(garbage)?;
        let (program, version, procedure, kind, serial, status) = words;
        let unknown = |what: &str, word: u32| FrameError::Garbage(format!("{what} {word}"));
        if version != VERSION {
            return Err(unknown("version", version));
        }
        Ok(Self {
            program,
            procedure,
            kind: kind_of(kind).ok_or_else(|| unknown("kind", kind))?,
            serial,
            status: status_of(status).ok_or_else(|| unknown("status", status))?,
        })
    }
}

const fn kind_of(word: u32) -> Option<Kind> {
    Some(match word {
        0 => Kind::Call,
        1 => Kind::Reply,
        2 => Kind::Message,
        3 => Kind::Stream,
        _ => return None,
    })
}

const fn status_of(word: u32) -> Option<Status> {
    Some(match word {
        0 => Status::Ok,
        1 => Status::Error,
        2 => Status::Continue,
        _ => return None,
    })
}

/// The next message.
pub(crate) async fn next(
    from: &mut (impl AsyncRead + Unpin),
) -> Result<(Header, Bytes), FrameError> {
    let length = usize::try_from(from.read_u32().await?).unwrap_or(usize::MAX);
    if !(HEADER_BYTES..=MOST_BYTES).contains(&length) {
        return Err(FrameError::Garbage(format!("length {length}")));
    }
    let mut bytes = BytesMut::zeroed(length - 4);
    from.read_exact(&mut bytes).await?;
    let mut bytes = bytes.freeze();
    let body = bytes.split_off(HEADER_BYTES - 4);
    let header = Header::read(&mut Reader::new(bytes))?;
    Ok((header, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Header = Header {
        program: REMOTE,
        procedure: 318,
        kind: Kind::Message,
        serial: 9,
        status: Status::Ok,
    };

    #[tokio::test]
    async fn a_message_is_read_as_it_was_written() {
        let bytes = SAMPLE.with(b"body");
        let mut from = &bytes[..];
        let (header, body) = next(&mut from).await.expect("whole");
        assert_eq!((header, &body[..]), (SAMPLE, &b"body"[..]));
        assert!(matches!(next(&mut from).await, Err(FrameError::Broken(_))));
    }

    #[tokio::test]
    async fn what_is_no_message_is_refused() {
        for bytes in [
            &b"SSH-2.0-OpenSSH"[..],
            b"\0\0\0\x03",
            b"\x7f\xff\xff\xff",
            b"\0\0\0\x1c\x20\0\x80\x86\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0",
        ] {
            let mut from = bytes;
            let refused = next(&mut from).await;
            assert!(matches!(refused, Err(FrameError::Garbage(_))), "{bytes:?}");
        }
    }
}
