//! `/healthz`, `/readyz` and `/metrics`.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Ready, with what else there is to say, or why not.
pub type Readiness = Result<String, String>;

/// Alive always; ready when it is said to be. `/health` says both, for those who know it from other providers.
pub fn health(state: impl Fn() -> Readiness + Clone + Send + Sync + 'static) -> Router {
    let readiness = {
        let state = state.clone();
        move || {
            let ready = state();
            async move {
                match ready {
                    Ok(more) => (StatusCode::OK, format!("ok\n{more}").trim_end().to_owned()),
                    Err(why) => (
                        StatusCode::INTERNAL_SERVER_ERROR,
                        format!("not ready: {why}"),
                    ),
                }
            }
        }
    };
    let summary = move || {
        let (status, ready) = match state() {
            Ok(more) => ("ok", more),
            Err(why) => ("degraded", why),
        };
        async move { axum::Json(serde_json::json!({"status": status, "message": ready})) }
    };
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(readiness))
        .route("/health", get(summary))
}

/// The counters, as OpenMetrics text.
pub fn metrics(registry: Registry) -> Router {
    let registry = Arc::new(Mutex::new(registry));
    Router::new().route("/metrics", get(move || async move { scrape(&registry) }))
}

fn scrape(registry: &Mutex<Registry>) -> impl IntoResponse + use<> {
    let mut text = String::new();
    let registry = registry.lock().unwrap_or_else(PoisonError::into_inner);
    let written = prometheus_client::encoding::text::encode(&mut text, &registry);
    let status = if written.is_ok() {
        StatusCode::OK
    } else {
        StatusCode::INTERNAL_SERVER_ERROR
    };
    (
        status,
        [(
            header::CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        text,
    )
}

/// Serves in the background, or says why the address cannot be had.
pub async fn serve(what: &'static str, address: SocketAddr, routes: Router) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!(
            "Cannot serve {what} on {address}: stop what uses the port, or choose another address"
        )
    })?;
    tracing::info!(%address, "serving {what}");
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!(%error, "{what} ended");
        }
    });
    Ok(())
}

/// The body of a page that answers with 200.
pub async fn fetch(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    let answer = timeout(Duration::from_secs(10), exchange).await??;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(body.to_owned()),
        _ => bail!(
            "{path} answers {}",
            answer.lines().next().unwrap_or("nothing")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer(state: Readiness, path: &str) -> anyhow::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let routes = health(move || state.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        fetch(address, path).await
    }

    #[tokio::test]
    async fn who_is_not_ready_is_alive_and_says_why() {
        let filling = || Err("the caches are not filled yet".to_owned());
        let error = answer(filling(), "/readyz").await.expect_err("not ready");
        assert!(error.to_string().contains(" 500 "), "{error}");
        assert_eq!(answer(filling(), "/healthz").await.expect("alive"), "ok");
        let ready = Ok("KubevirtConfig east: Ready".to_owned());
        let body = answer(ready, "/readyz").await.expect("ready");
        assert_eq!(body, "ok\nKubevirtConfig east: Ready");
        assert_eq!(
            answer(Ok(String::new()), "/readyz").await.expect("ready"),
            "ok"
        );
    }
}
