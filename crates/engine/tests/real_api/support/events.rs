//! The events that people see.

use k8s_openapi::api::events::v1::Event;
use polyvirt_plan::Reason;
use tokio::time::{Duration, Instant, sleep};

use super::world::{PATIENCE, World};

/// An event, as far as tests look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub kind: String,
    pub reason: String,
    pub note: String,
    pub warning: bool,
}

impl World {
    /// All events about an object.
    pub async fn events(&self, name: &str) -> Vec<Told> {
        let events: Vec<Event> = self.list().await;
        let about = events
            .into_iter()
            .filter(|event| event.regarding.as_ref().and_then(|r| r.name.as_deref()) == Some(name));
        about.map(told).collect()
    }

    /// Waits for an event about an object.
    pub async fn told(&self, name: &str, reason: Reason) -> Told {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let events = self.events(name).await;
            if let Some(event) = events.iter().find(|e| e.reason == reason.as_str()) {
                return event.clone();
            }
            assert!(
                Instant::now() < deadline,
                "{name} has no event {reason}: {events:#?}"
            );
            sleep(Duration::from_millis(50)).await;
        }
    }
}

fn told(event: Event) -> Told {
    Told {
        kind: event.regarding.and_then(|r| r.kind).unwrap_or_default(),
        reason: event.reason.unwrap_or_default(),
        note: event.note.unwrap_or_default(),
        warning: event.type_.as_deref() == Some("Warning"),
    }
}
