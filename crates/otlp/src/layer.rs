//! Listens to spans.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use tokio::sync::mpsc::Sender;
use tracing::Subscriber;
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::ids;
use crate::span::{Outcome, Span};

/// The layer. Never waits: what the exporter has no room for is dropped.
pub struct Traces {
    sender: Sender<Span>,
    dropped: Arc<AtomicU64>,
}

impl Traces {
    pub(crate) const fn new(sender: Sender<Span>, dropped: Arc<AtomicU64>) -> Self {
        Self { sender, dropped }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Traces {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(made) = context.span(id) else { return };
        let parent = made.parent().and_then(|parent| {
            let extensions = parent.extensions();
            extensions.get::<Span>().map(|s| (s.trace, s.id))
        });
        let now = SystemTime::now();
        let mut span = Span {
            trace: parent.map_or_else(ids::trace, |(trace, _)| trace),
            id: ids::span(),
            parent: parent.map(|(_, id)| id),
            name: attributes.metadata().name(),
            begin: now,
            end: now,
            attributes: Vec::new(),
            outcome: Outcome::Unset,
        };
        attributes.record(&mut span);
        made.extensions_mut().insert(span);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(found) = context.span(id) else {
            return;
        };
        if let Some(span) = found.extensions_mut().get_mut::<Span>() {
            values.record(span);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(found) = context.span(&id) else {
            return;
        };
        let Some(mut span) = found.extensions_mut().remove::<Span>() else {
            return;
        };
        span.end = SystemTime::now();
        if self.sender.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
