//! Questions to a registry, with the proof that it wants to see.

use bytes::Bytes;
use polyvirt_contract::model::Headers;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use serde::Deserialize;

use super::challenge::Challenge;
use super::manifest::ACCEPTED;
use super::reference::{Pin, Reference, digest_of};
use crate::checksum::{Checksum, Hasher};
use crate::fetch::download::chain;
use crate::fetch::error::FetchError;
use crate::fetch::source::public;
use crate::fetch::{Fetcher, reach, redirect};

/// The longest manifest that is read; registries take none that is longer.
const MOST_BYTES: usize = 4 << 20;
const DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// What a server of tokens answers.
#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: String,
    #[serde(default)]
    access_token: String,
}

/// One image, and what its registry wants to see.
pub(super) struct Asker<'a> {
    fetcher: &'a Fetcher,
    reference: &'a Reference,
    /// Who we are, as the user has said it.
    secret: Option<HeaderValue>,
    /// What the registry was content with.
    proof: Option<HeaderValue>,
}

impl<'a> Asker<'a> {
    pub(super) fn new(
        fetcher: &'a Fetcher,
        reference: &'a Reference,
        headers: &Headers,
    ) -> Result<Self, FetchError> {
        let headers = crate::fetch::headers::request_headers(headers)?;
        let secret = headers.get(AUTHORIZATION).cloned();
        let is_token = |given: &HeaderValue| given.as_bytes().starts_with(b"Bearer ");
        Ok(Self {
            fetcher,
            reference,
            proof: secret.clone().filter(is_token),
            secret,
        })
    }

    /// What a download of a layer is to send along.
    pub(super) fn headers(&self) -> Headers {
        let text = self.proof.as_ref().and_then(|proof| proof.to_str().ok());
        let pair = text.map(|text| (AUTHORIZATION.to_string(), text.to_owned()));
        Headers(pair.into_iter().collect())
    }

    /// Gets a new token, for they live for minutes only.
    pub(super) async fn renew(&mut self) -> Result<(), FetchError> {
        self.proof = None;
        self.digest(&self.reference.pin).await.map(drop)
    }

    /// Which bytes a name stands for now, if the registry tells without sending them.
    pub(super) async fn digest(&mut self, pin: &Pin) -> Result<Option<Checksum>, FetchError> {
        let url = self.reference.manifest(pin)?;
        let response = self.ask(Method::HEAD, &url).await?;
        let told = response.headers().get(DIGEST);
        Ok(told.and_then(|told| digest_of(told.to_str().ok()?)))
    }

    /// The manifest of that name, and its digest. Bytes that are not what a digest names are refused.
    pub(super) async fn manifest(&mut self, pin: &Pin) -> Result<(Bytes, Checksum), FetchError> {
        let url = self.reference.manifest(pin)?;
        let response = self.ask(Method::GET, &url).await?;
        let bytes = self.body(&url, response).await?;
        let algorithm = match pin {
            Pin::Digest(expected) => expected.algorithm(),
            Pin::Tag(_) => crate::checksum::Algorithm::Sha256,
        };
        let mut hasher = Hasher::new(algorithm);
        hasher.update(&bytes);
        let found = hasher.finish();
        match pin {
            Pin::Digest(expected) if *expected != found => Err(FetchError::Checksum {
                expected: expected.clone(),
                found,
            }),
            _ => Ok((bytes, found)),
        }
    }

    async fn ask(&mut self, method: Method, url: &Url) -> Result<Response, FetchError> {
        let mut response = self.send(&method, url, self.proof.as_ref()).await?;
        let mut asked_for = None;
        if response.status() == StatusCode::UNAUTHORIZED {
            asked_for = Challenge::of(response.headers());
        }
        if let Some(challenge) = asked_for
            && self.prove(url, challenge).await?
        {
            response = self.send(&method, url, self.proof.as_ref()).await?;
        }
        match response.status() {
            status if status.is_success() => Ok(response),
            status => Err(self.refused(url, status)),
        }
    }

    fn refused(&self, url: &Url, status: StatusCode) -> FetchError {
        let image = self.reference.to_string();
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => FetchError::Denied { image },
            StatusCode::NOT_FOUND => FetchError::Absent { image },
            _ => FetchError::Refused {
                address: public(url),
                status: status.as_u16(),
            },
        }
    }

    /// Gets what the registry wants to see; whether there is something new to show.
    async fn prove(&mut self, url: &Url, challenge: Challenge) -> Result<bool, FetchError> {
        let proof = match challenge {
            Challenge::Basic => self.secret.clone(),
            Challenge::Bearer { realm, service } => Some(self.token(url, &realm, service).await?),
        };
        let is_new = proof.is_some() && proof != self.proof;
        self.proof = proof;
        Ok(is_new)
    }

    async fn token(
        &self,
        asked: &Url,
        realm: &str,
        service: Option<String>,
    ) -> Result<HeaderValue, FetchError> {
        let bad = |why| FetchError::BadAnswer {
            address: public(asked),
            why,
        };
        let no_address = |_| bad("it sends us for a token to something that is no address");
        let mut url = Url::parse(realm).map_err(no_address)?;
        match (asked.scheme(), url.scheme()) {
            (_, "https") | ("http", "http") => {}
            _ => {
                return Err(bad(
                    "it sends us for a token to where anybody could read it",
                ));
            }
        }
        url.query_pairs_mut()
            .extend_pairs(service.map(|service| ("service", service)))
            .append_pair("scope", &self.reference.scope());
        let response = self.send(&Method::GET, &url, self.secret.as_ref()).await?;
        if !response.status().is_success() {
            return Err(self.refused(&url, response.status()));
        }
        let bytes = self.body(&url, response).await?;
        let token: Option<Token> = serde_json::from_slice(&bytes).ok();
        let words = token.map(|t| [t.token, t.access_token]);
        let word = words.and_then(|all| all.into_iter().find(|word| !word.is_empty()));
        let header = word.and_then(|word| HeaderValue::try_from(format!("Bearer {word}")).ok());
        let mut header = header.ok_or_else(|| FetchError::BadAnswer {
            address: public(&url),
            why: "there is no token in it",
        })?;
        header.set_sensitive(true);
        Ok(header)
    }

    /// Asks, and asks again where it is sent. The proof goes to the first server alone.
    async fn send(
        &self,
        method: &Method,
        first: &Url,
        proof: Option<&HeaderValue>,
    ) -> Result<Response, FetchError> {
        let mut url = first.clone();
        for _ in 0..=redirect::MOST {
            reach::check(self.fetcher.options.reach, &url).await?;
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
            if let Some(proof) = proof.filter(|_| redirect::is_same_server(first, &url)) {
                headers.insert(AUTHORIZATION, proof.clone());
            }
            let request = self.fetcher.client.request(method.clone(), url.clone());
            let answer = self.patiently(&url, request.headers(headers).send());
            let response = answer.await?;
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

    async fn body(&self, url: &Url, mut response: Response) -> Result<Bytes, FetchError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.patiently(url, response.chunk()).await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MOST_BYTES {
                return Err(FetchError::BadAnswer {
                    address: public(url),
                    why: "it is too long",
                });
            }
        }
        Ok(bytes.into())
    }

    async fn patiently<T>(
        &self,
        url: &Url,
        work: impl Future<Output = reqwest::Result<T>>,
    ) -> Result<T, FetchError> {
        let after = self.fetcher.options.stall_timeout;
        let address = || public(url);
        let in_time = tokio::time::timeout(after, work).await;
        let answer = in_time.map_err(|_| FetchError::Stalled {
            address: address(),
            after,
        })?;
        answer.map_err(|e| FetchError::Connect {
            address: address(),
            why: chain(&e.without_url()),
        })
    }
}
