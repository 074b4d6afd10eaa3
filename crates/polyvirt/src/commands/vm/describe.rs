//! `polyvirt vm describe`.

use std::fmt::Write;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use polyvirt_api::infra::{ObjectRef, VirtualMachine};

use super::options::Shown;
use super::{Cluster, events, list::age_of, print, print_object};
use crate::commands::table::{Cell, Colours, Paint, Table, age};

/// Shows all that is known of a VM.
pub async fn run(cluster: &Cluster, options: &Shown) -> anyhow::Result<()> {
    let vm = cluster.vm(&options.name).await?;
    if let Some(format) = options.output {
        return print_object(&vm, format);
    }
    let events = events::of(cluster, &options.name).await?;
    let (now, colours) = (Timestamp::now(), Colours::of_stdout());
    let mut text = facts(&vm, now);
    let conditions = vm.status.iter().flat_map(|status| &status.conditions);
    let conditions: Vec<_> = conditions.collect();
    if !conditions.is_empty() {
        section(
            &mut text,
            "Conditions",
            &conditions_table(&conditions, now),
            colours,
        );
    }
    if !events.is_empty() {
        section(&mut text, "Events", &events::table(&events, now), colours);
    }
    print(&text);
    Ok(())
}

fn section(text: &mut String, title: &str, table: &Table, colours: Colours) {
    let _ = writeln!(text, "\n{title}:");
    for line in table.render(colours).lines() {
        let _ = writeln!(text, "  {line}");
    }
}

fn facts(vm: &VirtualMachine, now: Timestamp) -> String {
    let status = vm.status.clone().unwrap_or_default();
    let wanted = vm.spec.power_state.unwrap_or_default();
    let power = status
        .power_state
        .map_or("unknown".to_owned(), |p| format!("{p:?}"));
    let size = status.current_resources.unwrap_or_default();
    let told = |key: &str| status.provider.get(key).cloned().unwrap_or_default();
    let (agent, accelerator, user) = (told("guestAgent"), told("accelerator"), told("runsAs"));
    let rows = [
        ("Name", vm.name_any()),
        ("Namespace", vm.namespace().unwrap_or_default()),
        ("Age", age_of(vm, now)),
        ("Phase", format!("{:?}", status.phase.unwrap_or_default())),
        ("Message", status.message.unwrap_or_default()),
        ("Power", format!("{power}, wanted: {wanted:?}")),
        ("Addresses", status.ips.join(", ")),
        ("Provider", vm.spec.provider_ref.name.clone()),
        ("Host", status.host.unwrap_or_default()),
        ("Id", status.id.unwrap_or_default()),
        ("Class", named(vm.spec.class_ref.as_ref())),
        ("Image", named(vm.spec.image_ref.as_ref())),
        ("CPUs", size.cpu.map(|n| n.to_string()).unwrap_or_default()),
        (
            "Memory",
            size.memory_mib
                .map(|n| format!("{n} MiB"))
                .unwrap_or_default(),
        ),
        ("Disks", disks(vm)),
        ("Networks", networks(vm)),
        ("Guest agent", agent),
        ("Accelerator", accelerator),
        ("Runs as", user),
        ("Restart needed", status.restart_required.join(", ")),
    ];
    let shown = rows.into_iter().filter(|(_, value)| !value.is_empty());
    let lines: Vec<_> = shown
        .map(|(name, value)| format!("{:<16}{value}\n", format!("{name}:")))
        .collect();
    lines.concat()
}

fn named(reference: Option<&ObjectRef>) -> String {
    reference.map_or_else(|| "inline".to_owned(), |r| r.name.clone())
}

fn disks(vm: &VirtualMachine) -> String {
    let disks = vm.spec.disks.iter();
    let words = disks.map(|disk| format!("{} ({} GiB)", disk.name, disk.size_gib));
    words.collect::<Vec<_>>().join(", ")
}

fn networks(vm: &VirtualMachine) -> String {
    let names = vm.spec.networks.iter().map(|network| network.name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

fn conditions_table(conditions: &[&Condition], now: Timestamp) -> Table {
    let mut table = Table::new(&["TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"]);
    for condition in conditions {
        let paint = match (condition.type_.as_str(), condition.status.as_str()) {
            ("Ready", "True") => Paint::Good,
            ("Ready", _) => Paint::Bad,
            _ => Paint::Plain,
        };
        table.row(vec![
            condition.type_.as_str().into(),
            Cell::new(&condition.status, paint),
            age(condition.last_transition_time.0, now).into(),
            condition.reason.as_str().into(),
            condition.message.as_str().into(),
        ]);
    }
    table
}
