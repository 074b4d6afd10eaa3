//! `polyvirt vm events`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Resource};
use polyvirt_api::infra::VirtualMachine;
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

/// The events of a VM, the oldest first. Those of a VM that was deleted are shown while no other VM has its name.
pub async fn of(cluster: &Cluster, name: &str) -> anyhow::Result<Vec<Event>> {
    let api: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let vm = cluster.vms().get_opt(name).await;
    let vm = vm.map_err(|e| unreachable(cluster, e, &format!("{name} cannot be read")))?;
    let fields = format!("involvedObject.kind=VirtualMachine,involvedObject.name={name}");
    let list = api.list(&ListParams::default().fields(&fields)).await;
    let list = list.map_err(|e| unreachable(cluster, e, "Events cannot be read"))?;
    let mut events = list.items;
    events.sort_by_key(|event| (last_seen(event), written(event)));
    Ok(of_one(events, vm.and_then(|vm| vm.metadata.uid).as_deref()))
}

/// Leaves out events of objects of another group, and of earlier objects of the name. Without a UID, those of the last one stay.
fn of_one(mut events: Vec<Event>, uid: Option<&str>) -> Vec<Event> {
    let group = format!("{}/", VirtualMachine::group(&()));
    events.retain(|event| {
        let version = event.involved_object.api_version.as_deref();
        version.is_some_and(|version| version.starts_with(&group))
    });
    let last = events.last().and_then(|e| e.involved_object.uid.clone());
    let uid = uid.map(ToOwned::to_owned).or(last);
    events.retain(|event| event.involved_object.uid == uid);
    events
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
    fn events_of_other_objects_of_the_name_are_left_out() {
        let event = |version: &str, uid: &str| {
            let about =
                json!({"apiVersion": version, "kind": "VirtualMachine", "name": "web", "uid": uid});
            serde_json::from_value::<Event>(json!({"metadata": {}, "involvedObject": about}))
                .expect("an event")
        };
        let ours = "infra.virtrigaud.io/v1beta1";
        let events = vec![
            event(ours, "earlier"),
            event("novacron.io/v1", "other"),
            event(ours, "now"),
        ];
        let uids = |uid: Option<&str>| -> Vec<_> {
            let shown = of_one(events.clone(), uid).into_iter();
            shown.filter_map(|e| e.involved_object.uid).collect()
        };
        assert_eq!(uids(Some("now")), ["now"]);
        assert_eq!(uids(Some("earlier")), ["earlier"]);
        assert_eq!(uids(None), ["now"], "the last one that was deleted");
    }

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
