//! Kubernetes events: best effort, few at a time, never in the way of the work.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use polyvirt_api::names;
use polyvirt_plan::{Note, Severity};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::cluster::About;

/// An event on its way.
#[derive(Clone, Debug)]
pub struct Told {
    /// What it is about.
    pub about: About,
    /// What it says.
    pub note: Note,
}

/// How many events may wait. More than that are dropped, and that is counted.
pub const WAITING: usize = 8192;
/// The API cuts longer notes off with an error.
const LONGEST_NOTE: usize = 1000;
const AT_ONCE: usize = 4;

/// Sends events until it is told to stop and the channel is empty. Repeats are folded into a series.
pub async fn run(client: Client, mut queue: mpsc::Receiver<Told>, stop: CancellationToken) {
    let reporter = Reporter { controller: "polyvirt".into(), instance: std::env::var("POD_NAME").ok() };
    let recorder = Recorder::new(client, reporter);
    let limit = std::sync::Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
    loop {
        let told = tokio::select! {
            told = queue.recv() => told,
            () = stop.cancelled() => queue.try_recv().ok(),
        };
        let Some(told) = told else { break };
        let Ok(permit) = limit.clone().acquire_owned().await else { break };
        let recorder = recorder.clone();
        tokio::spawn(async move {
            if let Err(error) = recorder.publish(&event(&told.note), &reference(&told.about)).await {
                tracing::debug!(%error, object = ?told.about.key, "event not sent");
            }
            drop(permit);
        });
    }
    // The last ones are still on their way.
    let _ = limit.acquire_many(u32::try_from(AT_ONCE).unwrap_or(1)).await;
}

fn event(note: &Note) -> Event {
    let mut text = note.message.clone();
    if text.len() > LONGEST_NOTE {
        let end = (0..=LONGEST_NOTE).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    Event {
        type_: match note.severity {
            Severity::Normal => EventType::Normal,
            Severity::Warning => EventType::Warning,
        },
        reason: note.reason.as_str().to_owned(),
        note: Some(text),
        action: "Reconcile".to_owned(),
        secondary: None,
    }
}

fn reference(about: &About) -> ObjectReference {
    ObjectReference {
        api_version: Some(format!("{}/{}", names::GROUP, names::VERSION)),
        kind: Some(about.key.kind.name().to_owned()),
        name: Some(about.key.object.name().to_owned()),
        namespace: Some(about.key.object.namespace().to_owned()),
        uid: Some(about.uid.clone()),
        ..ObjectReference::default()
    }
}
