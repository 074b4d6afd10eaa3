//! Traces of the manager's work, sent to an OpenTelemetry collector over OTLP/HTTP with JSON.
//!
//! ```text
//!   span ends ──► layer.rs keeps what is to be told ──► bounded queue ──► export.rs sends batches
//!                                                         full: dropped, and counted
//! ```
//!
//! Which spans are told is decided by the filter that is put on the layer.

mod encode;
mod export;
mod ids;
mod layer;
mod span;

pub use export::{ExportError, Exporter, Settings};
pub use layer::Traces;

/// Connects the layer that listens with the exporter that sends. The exporter has to be run.
pub fn traces(settings: Settings) -> Result<(Traces, Exporter), ExportError> {
    let (sender, receiver) = tokio::sync::mpsc::channel(export::WAITING);
    let exporter = Exporter::new(settings, receiver)?;
    Ok((Traces::new(sender, exporter.dropped()), exporter))
}
