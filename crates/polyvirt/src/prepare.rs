//! Servers behind the API server, which may come later than we do.

use std::fmt::Display;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

const PAUSE: Duration = Duration::from_secs(5);

/// Tries until it succeeds. `None` if the manager is told to stop before.
pub async fn prepared<T, E: Display, F: Future<Output = Result<T, E>>>(
    what: &str,
    attempt: impl Fn() -> F,
    stop: &CancellationToken,
) -> Option<T> {
    loop {
        match attempt().await {
            Ok(prepared) => return Some(prepared),
            Err(error) => tracing::warn!(%error, "{what} cannot be served yet"),
        }
        stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await?;
    }
}
