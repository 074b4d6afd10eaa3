//! Which version of an image its origin has, without fetching it.

use reqwest::{Response, StatusCode, Url};

use super::download::{chain, validator};
use super::error::FetchError;
use super::headers::request_headers;
use super::source::public;
use super::{Fetcher, Request, Source, reach, redirect};

impl Fetcher {
    /// What tells the bytes that are there now from any others: the digest that they must have, else what their server says of
    /// them (`ETag`, or `Last-Modified`). `None` if it does not say: they may be others each time.
    pub async fn version(&self, request: &Request) -> Result<Option<String>, FetchError> {
        if let Some(expected) = self.proved(request).await? {
            return Ok(Some(expected.to_string()));
        }
        let url = match &request.source {
            Source::File(_) => return Ok(None),
            Source::Registry(image) => return self.image_version(request, image).await,
            Source::Http(url) => url,
        };
        let told = tokio::time::timeout(self.options.stall_timeout, self.head_of(request, url));
        let stalled = |_| FetchError::Stalled {
            address: public(url),
            after: self.options.stall_timeout,
        };
        let response = told.await.map_err(stalled)??;
        match response.status() {
            status if status.is_success() => {
                Ok(validator(response.headers()).map(|told| told.text().to_owned()))
            }
            // It serves files, and nothing about them.
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => Ok(None),
            status => Err(FetchError::Refused {
                address: public(url),
                status: status.as_u16(),
            }),
        }
    }

    async fn head_of(&self, request: &Request, first: &Url) -> Result<Response, FetchError> {
        let headers = request_headers(&request.headers)?;
        let mut url = first.clone();
        for _ in 0..=redirect::MOST {
            reach::check(self.options.reach, &url).await?;
            let mut head = self.client.head(url.clone());
            if redirect::is_same_server(first, &url) {
                head = head.headers(headers.clone());
            }
            let response = head.send().await.map_err(|e| FetchError::Connect {
                address: public(&url),
                why: chain(&e.without_url()),
            })?;
            match redirect::next(&url, &response)? {
                Some(next) => url = next,
                None => return Ok(response),
            }
        }
        Err(FetchError::BadAnswer {
            address: public(first),
            why: "it redirects without end",
        })
    }
}
