//! What all calls have in common: a deadline, an owner, and errors of one type.

use std::future::Future;
use std::time::Duration;

use tonic::{Request, Response, Status};

use crate::error::{ErrorKind, ProviderError};
use crate::model::Owner;
use crate::provider::Result;

use super::super::deadline::Call;
use super::super::metadata;
use super::super::status::{from_status, lacks_method};
use super::Client;

impl Client {
    /// A message for the call, which tells the peer how long we wait.
    pub(super) fn request<T>(&self, call: Call, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.deadlines.of(call));
        request
    }

    /// The same, on behalf of an owner.
    pub(super) fn request_for<T>(
        &self,
        call: Call,
        message: T,
        owner: Option<&Owner>,
    ) -> Request<T> {
        let mut request = self.request(call, message);
        metadata::put_owner(request.metadata_mut(), owner);
        request
    }

    /// The answer, or why there is none.
    pub(super) async fn answer<T>(
        &self,
        call: Call,
        sent: impl Future<Output = std::result::Result<Response<T>, Status>>,
    ) -> Result<T> {
        within(self.deadlines.of(call), sent)
            .await?
            .map(Response::into_inner)
            .map_err(|status| from_status(&status))
    }

    /// The answer of an extension; `None` if the peer does not have it, whatever was believed before.
    pub(super) async fn extended<T>(
        &self,
        limit: Duration,
        sent: impl Future<Output = std::result::Result<Response<T>, Status>>,
    ) -> Result<Option<T>> {
        match within(limit, sent).await? {
            Ok(response) => Ok(Some(response.into_inner())),
            Err(status) if lacks_method(&status) => {
                self.peer.forget();
                Ok(None)
            }
            Err(status) => Err(from_status(&status)),
        }
    }
}

/// The channel's own timer ends with the headers of an answer; a peer that stops after them must not hold us.
pub(super) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(limit, work).await.map_err(|_| {
        let text = format!("The provider did not answer within {limit:?}");
        ProviderError::new(ErrorKind::Timeout, text)
    })
}
