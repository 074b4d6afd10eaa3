//! Answers the API server: `/validate` and `/mutate`.
//!
//! Whatever is sent, an answer costs bounded memory and time: bodies and their nesting are limited, few are worked on at
//! once, and none of them on the threads that everything else runs on.

mod work;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::facts::Facts;
use crate::metrics::Metrics;
use work::Webhook;

/// etcd takes objects of up to 1.5 MiB; an update has two of them, and something around them.
const LARGEST: usize = 4 << 20;
/// Reviews at once.
const PLACES: usize = 32;
/// The API server waits for 5 s, as it is told to.
const PATIENCE: Duration = Duration::from_secs(4);

/// What reviews work with.
pub(crate) struct Shared {
    pub facts: Arc<dyn Facts>,
    pub metrics: Metrics,
    places: Arc<Semaphore>,
}

impl Shared {
    pub fn new(facts: Arc<dyn Facts>, metrics: Metrics) -> Arc<Self> {
        Arc::new(Self {
            facts,
            metrics,
            places: Arc::new(Semaphore::new(PLACES)),
        })
    }
}

/// What is served where.
pub(crate) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/validate", post(validate))
        .route("/mutate", post(mutate))
        .layer(DefaultBodyLimit::max(LARGEST))
        .layer(middleware::from_fn(in_time))
        .with_state(shared)
}

/// A body that trickles in takes no longer than one that comes at once.
async fn in_time(request: Request, next: Next) -> Response {
    let late = (StatusCode::SERVICE_UNAVAILABLE, "The review took too long");
    let answer = timeout(PATIENCE, next.run(request)).await;
    answer.unwrap_or_else(|_| late.into_response())
}

async fn validate(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    answer(shared, Webhook::Validate, body).await
}

async fn mutate(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    answer(shared, Webhook::Mutate, body).await
}

async fn answer(shared: Arc<Shared>, webhook: Webhook, body: Bytes) -> Response {
    let Ok(place) = shared.places.clone().acquire_owned().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let work = move || {
        let _place = place;
        work::review(&shared, webhook, &body)
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(answer)) => Json(answer).into_response(),
        Ok(Err(error)) => {
            let text = format!("This is no AdmissionReview: {error}");
            (StatusCode::BAD_REQUEST, text).into_response()
        }
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "The review broke off").into_response(),
    }
}
