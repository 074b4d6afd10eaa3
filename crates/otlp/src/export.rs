//! Sends spans in batches.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;

use crate::encode;
use crate::span::Span;

/// Spans that wait at most.
pub(crate) const WAITING: usize = 4096;
const BATCH: usize = 512;
const AT_LATEST: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(10);

/// Where traces go.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The collector, such as `http://collector:4318`; `/v1/traces` is put behind it.
    pub endpoint: String,
    /// Headers as `key=value`, separated by commas; they may hold a token.
    pub headers: String,
    /// The name of this service.
    pub service: String,
    /// The version of this service.
    pub version: &'static str,
}

/// Why no traces can be sent.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The client cannot be made.
    #[error("no HTTP client for traces: {0}")]
    Client(#[from] reqwest::Error),
    /// A header is not one.
    #[error("OTEL_EXPORTER_OTLP_HEADERS: write key=value, separated by commas")]
    Header,
}

/// Sends what the layer has heard.
pub struct Exporter {
    client: reqwest::Client,
    url: String,
    settings: Settings,
    receiver: Receiver<Span>,
    /// Collected, not sent.
    collected: Vec<Span>,
    dropped: Arc<AtomicU64>,
}

impl Exporter {
    pub(crate) fn new(settings: Settings, receiver: Receiver<Span>) -> Result<Self, ExportError> {
        let client = reqwest::Client::builder()
            .default_headers(headers(&settings.headers)?)
            .timeout(PATIENCE)
            .build()?;
        let url = format!("{}/v1/traces", settings.endpoint.trim_end_matches('/'));
        Ok(Self {
            client,
            url,
            settings,
            receiver,
            collected: Vec::new(),
            dropped: Arc::default(),
        })
    }

    pub(crate) fn dropped(&self) -> Arc<AtomicU64> {
        self.dropped.clone()
    }

    /// Sends until it is told to stop, and then what is left. A collector that does not answer costs spans, and that is
    /// said once until it answers again.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut answers = true;
        let mut stop = pin!(stop);
        loop {
            let batch = tokio::select! {
                batch = self.batch() => batch,
                () = &mut stop => break,
            };
            let Some(batch) = batch else { return };
            answers = self.deliver(&batch, answers).await;
        }
        let mut rest = std::mem::take(&mut self.collected);
        while let Ok(span) = self.receiver.try_recv() {
            rest.push(span);
        }
        if !rest.is_empty() {
            self.deliver(&rest, answers).await;
        }
    }

    /// Whether the collector has taken the batch.
    async fn deliver(&self, batch: &[Span], answered: bool) -> bool {
        let sent = self.send(batch).await;
        if let Err(error) = &sent {
            self.lost(batch.len());
            if answered {
                tracing::warn!(%error, "traces cannot be sent; they are dropped until the collector answers");
            }
        }
        sent.is_ok()
    }

    fn lost(&self, spans: usize) {
        let spans = u64::try_from(spans).unwrap_or(u64::MAX);
        self.dropped.fetch_add(spans, Ordering::Relaxed);
    }

    /// As many as there are, but not for longer than a moment after the first.
    async fn batch(&mut self) -> Option<Vec<Span>> {
        let first = self.receiver.recv().await?;
        self.collected.push(first);
        let end = Instant::now() + AT_LATEST;
        while self.collected.len() < BATCH {
            match tokio::time::timeout_at(end, self.receiver.recv()).await {
                Ok(Some(span)) => self.collected.push(span),
                Ok(None) | Err(_) => break,
            }
        }
        Some(std::mem::take(&mut self.collected))
    }

    async fn send(&self, batch: &[Span]) -> Result<(), reqwest::Error> {
        let body = encode::body(&self.settings.service, self.settings.version, batch);
        let request = self.client.post(&self.url);
        let request = request.header(CONTENT_TYPE, "application/json");
        let answer = request.body(body.to_string()).send().await?;
        answer.error_for_status().map(drop)
    }
}

fn headers(text: &str) -> Result<HeaderMap, ExportError> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or(ExportError::Header)?;
        let key: HeaderName = key.trim().parse().map_err(|_| ExportError::Header)?;
        let mut value: HeaderValue = value.trim().parse().map_err(|_| ExportError::Header)?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_wrong_ones_refused() {
        let read = headers("authorization=Bearer x, tenant=a").expect("headers");
        assert_eq!(read["authorization"], "Bearer x");
        assert_eq!(read["tenant"], "a");
        assert!(headers("").expect("none").is_empty());
        assert!(headers("nonsense").is_err());
    }
}
