//! Log lines on stderr, and traces to a collector if there is one.

mod json_line;
mod one_line;

use std::io::IsTerminal;

use polyvirt_engine::trace::TARGET;
use polyvirt_otlp::{Exporter, Settings, Traces};
use tracing_subscriber::filter::{FilterExt as _, Targets, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry};

use crate::cli::{Audience, Global, LogFormat};
use json_line::JsonLine;
use one_line::OneLine;

/// Libraries say little, unless the filter names them. That a request failed is said by whoever made it, with what it was for.
const QUIET: &str = "kube_client=warn,kube_client::client::builder=off,kube_runtime=warn,hyper=warn,h2=warn,rustls=warn,tower=warn";

/// For commands that people wait for: what went wrong is said once, by the command itself.
const SILENT: &str = "kube_client=off,kube_runtime=off,hyper=off,h2=off,rustls=off,tower=off,polyvirt_provider_libvirt=warn,polyvirt_provider_qemu=warn";

/// Begins to log. A filter that cannot be read is replaced by `info`, and that is said. What sends traces has to be run.
pub fn start(options: &Global, audience: Audience) -> Option<Exporter> {
    let libraries = match audience {
        Audience::Operators => QUIET,
        Audience::People => SILENT,
    };
    let filter = EnvFilter::try_new(format!("{libraries},{}", options.log_level));
    let bad = filter.is_err();
    let filter = filter.unwrap_or_else(|_| EnvFilter::new(format!("{libraries},info")));
    let traces = traces(audience);
    let refused = traces.as_ref().err().map(ToString::to_string);
    let (layer, exporter) = traces.ok().flatten().unzip();
    let told = Targets::new().with_target(TARGET, tracing::Level::TRACE);
    tracing_subscriber::registry()
        .with(lines(options.log_format, filter))
        .with(layer.map(|layer: Traces| layer.with_filter(told)))
        .init();
    if bad {
        tracing::warn!(
            given = options.log_level,
            "cannot read the log level; info is used"
        );
    }
    if let Some(why) = refused {
        tracing::warn!(why, "no traces are sent");
    }
    exporter
}

/// Spans for the collector are not part of log lines.
fn lines(format: LogFormat, filter: EnvFilter) -> Box<dyn Layer<Registry> + Send + Sync> {
    let filter = filter.and(filter_fn(|about| about.target() != TARGET));
    let base = tracing_subscriber::fmt::layer().with_writer(|| OneLine::new(std::io::stderr()));
    match format {
        LogFormat::Text => base
            .with_target(false)
            .with_ansi(std::io::stderr().is_terminal())
            .with_filter(filter)
            .boxed(),
        LogFormat::Json => base.event_format(JsonLine).with_filter(filter).boxed(),
    }
}

/// By the variables that OpenTelemetry has for all programs. Commands of people have nothing to trace.
fn traces(audience: Audience) -> Result<Option<(Traces, Exporter)>, polyvirt_otlp::ExportError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let endpoint = variable("OTEL_EXPORTER_OTLP_ENDPOINT");
    let off = variable("OTEL_SDK_DISABLED").is_some_and(|v| v == "true");
    let (Some(endpoint), Audience::Operators, false) = (endpoint, audience, off) else {
        return Ok(None);
    };
    polyvirt_otlp::traces(Settings {
        endpoint,
        headers: variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default(),
        service: variable("OTEL_SERVICE_NAME").unwrap_or_else(|| "polyvirt".to_owned()),
        version: env!("CARGO_PKG_VERSION"),
    })
    .map(Some)
}
