//! `polyvirt vm events`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use super::connect::unreachable;
use super::options::Shown;
use super::{Cluster, print, print_object, say};
use crate::commands::table::{Cell, Colours, Paint, Table, age};

/// Shows what happened to a VM. Events of one that is gone are shown too.
pub async fn run(cluster: &Cluster, options: &Shown) -> anyhow::Result<()> {
    let name = &options.name;
    let events = of(cluster, name).await?;
    if let Some(format) = options.output {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": events});
        return print_object(&list, format);
    }
    if events.is_empty() {
        // Tells a VM without events from a name that was mistyped.
        cluster.vm(name).await?;
        say(&format!("Nothing happened to {name} within the last hour"));
        return Ok(());
    }
    print(&table(&events, Timestamp::now()).render(Colours::of_stdout()));
    Ok(())
}

/// The events of a VM, the oldest first.
pub async fn of(cluster: &Cluster, name: &str) -> anyhow::Result<Vec<Event>> {
    let api: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let fields = format!("involvedObject.kind=VirtualMachine,involvedObject.name={name}");
    let list = api.list(&ListParams::default().fields(&fields)).await;
    let list = list.map_err(|e| unreachable(cluster, e, "Events cannot be read"))?;
    let mut events = list.items;
    events.sort_by_key(|event| (last_seen(event), written(event)));
    Ok(events)
}

/// Times are of whole seconds; within one, the order of writing is the best that is known.
fn written(event: &Event) -> Option<u64> {
    event.metadata.resource_version.as_ref()?.parse().ok()
}

/// Events of the newer API have their times elsewhere.
fn last_seen(event: &Event) -> Option<Timestamp> {
    let series = event
        .series
        .as_ref()
        .and_then(|s| s.last_observed_time.as_ref());
    let times = [
        series.map(|time| time.0),
        event.last_timestamp.as_ref().map(|time| time.0),
        event.event_time.as_ref().map(|time| time.0),
        event
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0),
    ];
    times.into_iter().flatten().next()
}

/// One row an event.
pub fn table(events: &[Event], now: Timestamp) -> Table {
    let mut table = Table::new(&["AGE", "TYPE", "REASON", "COUNT", "MESSAGE"]);
    for event in events {
        let seen = last_seen(event).map(|time| age(time, now));
        let kind = event.type_.clone().unwrap_or_default();
        let paint = if kind == "Warning" {
            Paint::Bad
        } else {
            Paint::Plain
        };
        let count = event.series.as_ref().and_then(|s| s.count).or(event.count);
        table.row(vec![
            seen.unwrap_or_default().into(),
            Cell::new(kind, paint),
            event.reason.clone().unwrap_or_default().into(),
            count.unwrap_or(1).to_string().into(),
            event.message.clone().unwrap_or_default().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_events_are_read() {
        let event = |value| serde_json::from_value::<Event>(value).expect("an event");
        let old = event(json!({
            "metadata": {}, "involvedObject": {}, "type": "Warning", "reason": "Slow", "message": "is slow",
            "count": 4, "lastTimestamp": "2026-01-01T00:00:00Z",
        }));
        let new = event(json!({
            "metadata": {}, "involvedObject": {}, "type": "Normal", "reason": "Created", "message": "is there",
            "eventTime": "2026-01-01T00:00:05.000000Z",
        }));
        let now = "2026-01-01T00:01:00Z".parse().expect("a time");
        assert_eq!(
            table(&[old, new], now).render(Colours::Off),
            "AGE   TYPE      REASON    COUNT   MESSAGE\n\
             60s   Warning   Slow      4       is slow\n\
             55s   Normal    Created   1       is there\n"
        );
    }
}
