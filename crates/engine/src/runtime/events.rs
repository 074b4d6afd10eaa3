//! Kubernetes events: best effort, few at a time, never in the way of the work.
//!
//! They are written through the core API and not through `events.k8s.io`, which refuses `lastTimestamp` and `count`: kubectl
//! sorts by the one and prints the other. The fields of the newer form are filled, too, and the API server shows the same
//! object under both.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use kube::Client;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use polyvirt_plan::{Note, Reason, Severity};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cluster::About;
use crate::runtime::repeats::{Repeats, SERIES, Telling};

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
/// The longest name of an object.
const LONGEST_NAME: usize = 253;
/// The API cuts longer notes off with an error.
const LONGEST_NOTE: usize = 1000;
const AT_ONCE: usize = 4;
const CONTROLLER: &str = "polyvirt";

/// Sends events until it is told to stop and the channel is empty. Repeats are folded into a series.
pub async fn run(client: Client, mut queue: mpsc::Receiver<Told>, stop: CancellationToken) {
    let sender = Arc::new(Sender::new(client));
    let limit = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let told = tokio::select! {
            told = queue.recv() => told,
            () = stop.cancelled() => queue.try_recv().ok(),
        };
        let Some(told) = told else { break };
        let Ok(permit) = limit.clone().acquire_owned().await else {
            break;
        };
        let sender = sender.clone();
        tokio::spawn(async move {
            sender.send(&told).await;
            drop(permit);
        });
    }
    // The last ones are still on their way.
    let _ = limit
        .acquire_many(u32::try_from(AT_ONCE).unwrap_or(1))
        .await;
}

struct Sender {
    client: Client,
    instance: String,
    repeats: Mutex<Repeats>,
}

impl Sender {
    fn new(client: Client) -> Self {
        let instance = std::env::var("POD_NAME").unwrap_or_else(|_| CONTROLLER.to_owned());
        Self {
            client,
            instance,
            repeats: Mutex::new(Repeats::new(Instant::now())),
        }
    }

    async fn send(&self, told: &Told) {
        let now = Timestamp::now();
        let series = series(told, now);
        let telling = self.repeats(|repeats| repeats.tell(&sameness(told), Instant::now(), series));
        let api = Api::namespaced(self.client.clone(), told.about.key.object.namespace());
        let sent = match telling.count {
            1 => self.begin(&api, told, telling, now).await,
            _ => repeat(&api, told, telling, now).await,
        };
        if let Err(error) = sent {
            tracing::debug!(%error, object = ?told.about.key, "event not sent");
            self.repeats(|repeats| repeats.forget(&sameness(told)));
        }
    }

    /// Creates the event. If the manager that ran before has created it, it is continued.
    async fn begin(
        &self,
        api: &Api<Event>,
        told: &Told,
        telling: Telling,
        now: Timestamp,
    ) -> kube::Result<Event> {
        let event = self.event(told, telling, now);
        match api.create(&PostParams::default(), &event).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            created => return created,
        }
        // The answer to a change of the time alone says how often it was seen, and needs no right to read.
        let (name, params) = (name(told, telling), PatchParams::default());
        let seen = Patch::Merge(json!({"lastTimestamp": Time(now)}));
        let there = api.patch(&name, &params, &seen).await?;
        let count = there.count.unwrap_or(1).saturating_add(1);
        self.repeats(|repeats| repeats.continued(&sameness(told), count));
        repeat(api, told, Telling { count, ..telling }, now).await
    }

    fn repeats<T>(&self, work: impl FnOnce(&mut Repeats) -> T) -> T {
        work(&mut self.repeats.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn event(&self, told: &Told, telling: Telling, now: Timestamp) -> Event {
        let severity = match told.note.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        Event {
            metadata: ObjectMeta {
                name: Some(name(told, telling)),
                ..ObjectMeta::default()
            },
            type_: Some(severity.to_owned()),
            reason: Some(told.note.reason.as_str().to_owned()),
            message: Some(shortened(&told.note.message)),
            action: Some("Reconcile".to_owned()),
            event_time: Some(MicroTime(now)),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            involved_object: reference(&told.about),
            reporting_component: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            source: Some(EventSource {
                component: Some(CONTROLLER.to_owned()),
                host: None,
            }),
            ..Event::default()
        }
    }
}

/// Events that agree in this are one series, whatever their words: but for hooks, whose words are what they have to say.
fn sameness(told: &Told) -> impl Hash + use<'_> {
    (
        &told.about.key,
        &told.about.uid,
        told.note.reason.as_str(),
        told.note.severity,
        words(&told.note),
    )
}

/// Names the series. Managers that follow each other within [`SERIES`] give the same series the same name.
fn series(told: &Told, now: Timestamp) -> u64 {
    let window = now.as_second() / i64::try_from(SERIES.as_secs()).unwrap_or(i64::MAX);
    let mut hasher = DefaultHasher::new();
    (sameness(told), window).hash(&mut hasher);
    hasher.finish()
}

/// The words that tell one event from another.
fn words(note: &Note) -> &str {
    match note.reason {
        Reason::HookSucceeded | Reason::HookFailed => &note.message,
        _ => "",
    }
}

async fn repeat(
    api: &Api<Event>,
    told: &Told,
    telling: Telling,
    now: Timestamp,
) -> kube::Result<Event> {
    let series = json!({
        "series": {"count": telling.count, "lastObservedTime": MicroTime(now)},
        "count": telling.count,
        "lastTimestamp": Time(now),
        "message": shortened(&told.note.message),
    });
    api.patch(
        &name(told, telling),
        &PatchParams::default(),
        &Patch::Merge(series),
    )
    .await
}

/// The series tells two objects apart whose names begin alike.
fn name(told: &Told, telling: Telling) -> String {
    let series = format!("{:x}", telling.series);
    let room = LONGEST_NAME - 1 - series.len();
    let own: String = told.about.key.object.name().chars().take(room).collect();
    format!("{}.{series}", own.trim_end_matches(['-', '.']))
}

fn shortened(message: &str) -> String {
    if message.len() <= LONGEST_NOTE {
        return message.to_owned();
    }
    let end = (0..=LONGEST_NOTE)
        .rev()
        .find(|i| message.is_char_boundary(*i))
        .unwrap_or(0);
    format!("{}…", &message[..end])
}

fn reference(about: &About) -> ObjectReference {
    ObjectReference {
        api_version: Some(format!(
            "{}/{}",
            about.key.kind.group(),
            about.key.kind.version()
        )),
        kind: Some(about.key.kind.name().to_owned()),
        name: Some(about.key.object.name().to_owned()),
        namespace: Some(about.key.object.namespace().to_owned()),
        uid: Some(about.uid.clone()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::key::{Key, Kind, ObjectKey};

    fn told(reason: Reason, message: &str) -> Told {
        Told {
            about: About {
                key: Key::new(Kind::VirtualMachine, ObjectKey::new("ns", "web")),
                uid: "u".to_owned(),
            },
            note: Note::normal(reason, message),
        }
    }

    #[test]
    fn a_manager_that_follows_another_continues_its_series() {
        let at = |second| Timestamp::from_second(second).expect("in range");
        let first = series(&told(Reason::Running, "It runs"), at(720));
        assert_eq!(first, series(&told(Reason::Running, "It runs"), at(1079)));
        assert_ne!(first, series(&told(Reason::Running, "It runs"), at(1080)));
        assert_ne!(first, series(&told(Reason::Stopped, "It runs"), at(720)));
    }

    #[test]
    fn an_event_has_a_name_that_the_api_takes() {
        let telling = Telling {
            series: u64::MAX,
            count: 1,
        };
        let named = |object: &str| {
            let told = Told {
                about: About {
                    key: Key::new(Kind::VMSnapshot, ObjectKey::new("ns", object)),
                    uid: "u".to_owned(),
                },
                note: Note::normal(Reason::SnapshotReady, "It is there"),
            };
            name(&told, telling)
        };
        assert_eq!(named("web"), "web.ffffffffffffffff");
        let long = named(&format!("{}.{}", "a".repeat(235), "b".repeat(17)));
        assert_eq!(long, format!("{}.ffffffffffffffff", "a".repeat(235)));
        assert_eq!(named(&"a".repeat(253)).len(), LONGEST_NAME);
    }
}
