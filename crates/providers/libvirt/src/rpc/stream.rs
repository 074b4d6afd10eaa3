//! Streams: bytes into a volume, and a console's bytes both ways.

use bytes::Bytes;
use tokio::time::timeout;

use super::connection::{Connection, Piece, StreamEnd};
use super::error::RpcError;
use super::frame::{MOST_STREAM_BYTES, Status};
use super::procedure::Procedure;
use super::xdr::Encode;

/// How long the other side may take for one piece.
const STALLED: std::time::Duration = std::time::Duration::from_secs(120);

/// A stream. Dropping it before its end takes it down, and the other side hears that.
pub(crate) struct Stream {
    end: StreamEnd,
    procedure: u32,
}

impl Stream {
    pub(crate) async fn open(
        connection: &Connection,
        procedure: Procedure,
        arguments: &impl Encode,
    ) -> Result<Self, RpcError> {
        Ok(Self {
            end: connection.open_stream(procedure, arguments).await?,
            procedure: procedure.number,
        })
    }

    /// Sends bytes in pieces that fit. Waits while the other side does not take them.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Result<(), RpcError> {
        for piece in bytes.chunks(MOST_STREAM_BYTES) {
            let sent = timeout(STALLED, self.end.send(Status::Continue, piece)).await;
            sent.map_err(|_| RpcError::Late(self.procedure))??;
        }
        Ok(())
    }

    /// The next bytes of the other side; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, RpcError> {
        match self.end.pieces.recv().await {
            // By an empty piece the other side says that it has no more.
            Some(Piece::Data(bytes)) if bytes.is_empty() => Ok(None),
            Some(Piece::Data(bytes)) => Ok(Some(bytes)),
            Some(Piece::End) => Ok(None),
            Some(Piece::Failed(error)) => Err(error.into()),
            None => Err(self.end.broken()),
        }
    }

    /// Why the other side has ended the stream, if it has.
    pub(crate) fn failed(&mut self) -> Option<RpcError> {
        match self.end.pieces.try_recv() {
            Ok(Piece::Failed(error)) => Some(error.into()),
            _ => None,
        }
    }

    /// Says that all has been sent, and waits until the other side has taken it.
    pub(crate) async fn finish(mut self) -> Result<(), RpcError> {
        self.end.send(Status::Ok, &[]).await?;
        let ended = timeout(STALLED, async {
            while self.next().await?.is_some() {}
            Ok(())
        });
        ended.await.unwrap_or(Err(RpcError::Late(self.procedure)))
    }
}
