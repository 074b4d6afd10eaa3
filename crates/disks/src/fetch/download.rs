//! From a web server, over as many connections as it takes.

use std::future::Future;

use bytes::{Bytes, BytesMut};
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, ETAG, HeaderMap, HeaderValue, IF_RANGE, LAST_MODIFIED, RANGE,
};
use reqwest::{Response, StatusCode, Url};

use super::error::FetchError;
use super::headers::{content_range, request_headers};
use super::partial::{Partial, Shared, Validator};
use super::source::public;
use super::{CHUNK_BYTES, Fetcher, Progress, Request, within};
use super::{reach, redirect};

/// What a connection must bring for the next one not to count as a further failure.
const WORTHWHILE: u64 = 256 << 10;

/// Whether the server can be asked for a part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ranges {
    Trusted,
    /// It sent another part than it was asked for.
    Untrusted,
}

pub(super) struct Download<'a> {
    fetcher: &'a Fetcher,
    url: &'a Url,
    headers: HeaderMap,
    max_bytes: u64,
    progress: &'a (dyn Fn(Progress) + Send + Sync),
    partial: Shared,
    total: Option<u64>,
    ranges: Ranges,
}

impl<'a> Download<'a> {
    pub(super) fn new(
        fetcher: &'a Fetcher,
        request: &Request,
        url: &'a Url,
        partial: Shared,
        progress: &'a (dyn Fn(Progress) + Send + Sync),
    ) -> Result<Self, FetchError> {
        Ok(Self {
            fetcher,
            url,
            headers: request_headers(&request.headers)?,
            max_bytes: request.max_bytes,
            progress,
            partial,
            total: None,
            ranges: Ranges::Trusted,
        })
    }

    /// Connects until all is here, or another connection makes no sense.
    pub(super) async fn run(mut self) -> Result<(), FetchError> {
        let (mut best, mut failures) = (self.partial.len(), 0);
        loop {
            let Err(error) = self.connection().await else {
                return Ok(());
            };
            self.partial.run(Partial::checkpoint).await?;
            let worthwhile = self.partial.len() >= best + WORTHWHILE;
            failures = if worthwhile { 1 } else { failures + 1 };
            best = best.max(self.partial.len());
            if !error.is_interruption() || failures >= self.fetcher.options.attempts {
                return Err(error);
            }
            tracing::info!(%error, failures, "The download is tried again");
            let longer = 2_u32.saturating_pow(failures - 1);
            tokio::time::sleep(self.fetcher.options.pause.saturating_mul(longer)).await;
        }
    }

    async fn connection(&mut self) -> Result<(), FetchError> {
        let resumed_at = self.resume_point();
        let response = self.follow(resumed_at.as_ref()).await?;
        self.check_encoding(&response)?;
        match (response.status(), resumed_at) {
            (StatusCode::OK, _) => self.begin(&response).await?,
            (StatusCode::PARTIAL_CONTENT, Some((offset, validator))) => {
                self.go_on(&response, offset, &validator)?;
            }
            (StatusCode::PARTIAL_CONTENT, None) => {
                return Err(self.bad_answer("it sent a part, and was asked for all"));
            }
            // The part asked for does not exist, so the file is another one by now.
            (StatusCode::RANGE_NOT_SATISFIABLE, Some(_)) => {
                return Err(self.distrust("the part asked for does not exist"));
            }
            (status, _) => {
                return Err(FetchError::Refused {
                    address: public(self.url),
                    status: status.as_u16(),
                });
            }
        }
        self.receive(response).await
    }

    /// A compressed answer is no image, and parts of it fit to nothing.
    fn check_encoding(&self, response: &Response) -> Result<(), FetchError> {
        match response.headers().get(CONTENT_ENCODING) {
            Some(encoding) if encoding != "identity" => {
                Err(self.bad_answer("it compresses the image though it was asked not to"))
            }
            _ => Ok(()),
        }
    }

    /// What is here already, if the server can be asked to go on from there.
    fn resume_point(&self) -> Option<(u64, Validator)> {
        let (len, validator) = self
            .partial
            .look(|partial| (partial.len(), partial.validator().cloned()));
        (len > 0 && self.ranges == Ranges::Trusted)
            .then_some(len)
            .zip(validator)
    }

    /// Asks, and asks again where the server points to.
    async fn follow(&self, resumed_at: Option<&(u64, Validator)>) -> Result<Response, FetchError> {
        let mut url = self.url.clone();
        for _ in 0..=redirect::MOST {
            reach::check(self.fetcher.options.reach, &url).await?;
            let response = self.ask(&url, resumed_at).await?;
            match redirect::next(&url, &response)? {
                Some(next) => url = next,
                None => return Ok(response),
            }
        }
        Err(self.bad_answer("it redirects without end"))
    }

    async fn ask(
        &self,
        url: &Url,
        resumed_at: Option<&(u64, Validator)>,
    ) -> Result<Response, FetchError> {
        let mut request = self.fetcher.client.get(url.clone());
        if redirect::is_same_server(self.url, url) {
            request = request.headers(self.headers.clone());
        }
        request = request.header(ACCEPT_ENCODING, "identity");
        if let Some((offset, validator)) = resumed_at {
            request = request
                .header(RANGE, format!("bytes={offset}-"))
                .header(IF_RANGE, validator.text());
        }
        let answer = self.patiently(request.send()).await?;
        answer.map_err(|e| FetchError::Connect {
            address: public(url),
            why: chain(&e.without_url()),
        })
    }

    async fn patiently<T>(&self, work: impl Future<Output = T>) -> Result<T, FetchError> {
        let after = self.fetcher.options.stall_timeout;
        let in_time = tokio::time::timeout(after, work).await;
        in_time.map_err(|_| FetchError::Stalled {
            address: public(self.url),
            after,
        })
    }

    /// The whole file comes, whatever was here before.
    async fn begin(&mut self, response: &Response) -> Result<(), FetchError> {
        self.total = response.content_length();
        within(self.max_bytes, self.total.unwrap_or_default())?;
        let validator = validator(response.headers());
        self.partial
            .run(move |partial| partial.restart(validator))
            .await
    }

    /// The rest comes, if it is what was asked for.
    fn go_on(
        &mut self,
        response: &Response,
        offset: u64,
        expected: &Validator,
    ) -> Result<(), FetchError> {
        let Some(range) = content_range(response.headers()) else {
            return Err(self.distrust("it does not say which part it sends"));
        };
        let found = validator(response.headers());
        if range.first != offset
            || self
                .total
                .is_some_and(|total| range.total.is_some_and(|found| found != total))
        {
            return Err(self.distrust("it sent another part than it was asked for"));
        }
        if found.is_some_and(|found| found != *expected) {
            return Err(self.distrust("it sent a part of another version"));
        }
        self.total = range.total.or(self.total);
        within(self.max_bytes, self.total.unwrap_or_default())
    }

    /// From now on the whole file is asked for.
    fn distrust(&mut self, why: &str) -> FetchError {
        self.ranges = Ranges::Untrusted;
        self.interrupted(why)
    }

    /// Writes what comes. What came before a failure is kept.
    async fn receive(&mut self, mut response: Response) -> Result<(), FetchError> {
        let mut buffer = BytesMut::with_capacity(CHUNK_BYTES);
        let ended = loop {
            match self.patiently(response.chunk()).await {
                Ok(Ok(Some(bytes))) => buffer.extend_from_slice(&bytes),
                Ok(Ok(None)) => break Ok(()),
                Ok(Err(e)) => break Err(chain(&e.without_url())),
                Err(stalled) => {
                    self.write(buffer.split().freeze()).await?;
                    return Err(stalled);
                }
            }
            if buffer.len() >= CHUNK_BYTES {
                self.write(buffer.split().freeze()).await?;
            }
        };
        self.write(buffer.freeze()).await?;
        ended.map_err(|why| self.interrupted(&why))?;
        match self.total {
            Some(total) if total != self.partial.len() => {
                Err(self.interrupted("it ended too early"))
            }
            _ => Ok(()),
        }
    }

    async fn write(&self, bytes: Bytes) -> Result<(), FetchError> {
        within(self.max_bytes, self.partial.len() + bytes.len() as u64)?;
        self.partial
            .run(move |partial| partial.append(&bytes))
            .await?;
        (self.progress)(Progress {
            bytes: self.partial.len(),
            total: self.total,
        });
        Ok(())
    }

    fn interrupted(&self, why: &str) -> FetchError {
        FetchError::Interrupted {
            address: public(self.url),
            bytes: self.partial.len(),
            why: why.to_owned(),
        }
    }

    fn bad_answer(&self, why: &'static str) -> FetchError {
        FetchError::BadAnswer {
            address: public(self.url),
            why,
        }
    }
}

/// A weak tag stands for files that are alike, not equal: parts of them do not fit together.
pub(super) fn validator(headers: &HeaderMap) -> Option<Validator> {
    let text = |value: &HeaderValue| value.to_str().ok().map(ToOwned::to_owned);
    let tag = headers
        .get(ETAG)
        .and_then(text)
        .filter(|tag| tag.starts_with('"'));
    let date = || {
        headers
            .get(LAST_MODIFIED)
            .and_then(text)
            .map(Validator::LastModified)
    };
    tag.map(Validator::Etag).or_else(date)
}

/// An error with what caused it: the outermost text alone says "error sending request".
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
