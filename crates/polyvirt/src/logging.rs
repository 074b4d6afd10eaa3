//! Log lines, on stderr.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::cli::{Audience, Global, LogFormat};

/// Libraries say little, unless the filter names them.
const QUIET: &str = "kube_client=warn,kube_runtime=warn,hyper=warn,h2=warn,rustls=warn,tower=warn";

/// For commands that people wait for: what went wrong is said once, by the command itself.
const SILENT: &str = "kube_client=off,kube_runtime=off,hyper=off,h2=off,rustls=off,tower=off";

/// Begins to log. A filter that cannot be read is replaced by `info`, and that is said.
pub fn start(options: &Global, audience: Audience) {
    let libraries = match audience {
        Audience::Operators => QUIET,
        Audience::People => SILENT,
    };
    let filter = EnvFilter::try_new(format!("{libraries},{}", options.log_level));
    let bad = filter.is_err();
    let filter = filter.unwrap_or_else(|_| EnvFilter::new(format!("{libraries},info")));
    let base = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::NONE);
    match options.log_format {
        LogFormat::Text => base
            .with_target(false)
            .with_ansi(std::io::stderr().is_terminal())
            .init(),
        LogFormat::Json => base.json().flatten_event(true).init(),
    }
    if bad {
        tracing::warn!(
            given = options.log_level,
            "cannot read the log level; info is used"
        );
    }
}
