//! `polyvirt vm list`.

use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use polyvirt_api::infra::VirtualMachine;
use serde_json::json;

use super::connect::unreachable;
use super::options::{List, Output};
use super::{Cluster, phase_cell, print, print_object, say};
use crate::cli::Format;
use crate::commands::table::{Cell, Colours, Paint, Table, age};

/// Shows all VMs.
pub async fn run(cluster: &Cluster, options: &List) -> anyhow::Result<()> {
    let api = if options.all_namespaces {
        Api::all(cluster.client.clone())
    } else {
        cluster.vms()
    };
    let labels = options.selector.as_deref().unwrap_or_default();
    let list = api.list(&ListParams::default().labels(labels)).await;
    let list = list.map_err(|e| unreachable(cluster, e, "VirtualMachines cannot be read"))?;
    let vms = list.items;
    match options.output {
        Output::Table | Output::Wide if vms.is_empty() => {
            say(&nothing(&cluster.namespace, options));
        }
        Output::Table | Output::Wide => {
            print(&table(&vms, options, Timestamp::now()).render(Colours::of_stdout()));
        }
        Output::Name => print(&names(&vms)),
        Output::Json => print_object(&as_list(&vms), Format::Json)?,
        Output::Yaml => print_object(&as_list(&vms), Format::Yaml)?,
    }
    Ok(())
}

fn nothing(namespace: &str, options: &List) -> String {
    let labels = options
        .selector
        .iter()
        .map(|s| format!(" with the labels {s}"));
    let place = if options.all_namespaces {
        "any namespace".to_owned()
    } else {
        format!("the namespace {namespace}")
    };
    format!("No VMs{} in {place}", labels.collect::<String>())
}

fn names(vms: &[VirtualMachine]) -> String {
    let lines = vms
        .iter()
        .map(|vm| format!("virtualmachine.infra.virtrigaud.io/{}\n", vm.name_any()));
    lines.collect()
}

fn as_list(vms: &[VirtualMachine]) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "List", "items": vms})
}

fn table(vms: &[VirtualMachine], options: &List, now: Timestamp) -> Table {
    let wide = options.output == Output::Wide;
    let mut heading = vec!["NAME", "PHASE", "POWER", "READY", "PROVIDER", "IPS", "AGE"];
    if options.all_namespaces {
        heading.insert(0, "NAMESPACE");
    }
    if wide {
        heading.extend(["CLASS", "IMAGE", "HOST", "MESSAGE"]);
    }
    let mut table = Table::new(&heading);
    for vm in vms {
        let mut row = row(vm, now);
        if options.all_namespaces {
            row.insert(0, vm.namespace().unwrap_or_default().into());
        }
        if wide {
            row.extend(more(vm));
        }
        table.row(row);
    }
    table
}

fn row(vm: &VirtualMachine, now: Timestamp) -> Vec<Cell> {
    let status = vm.status.clone().unwrap_or_default();
    let ready = status.conditions.iter().find(|c| c.type_ == "Ready");
    let power = status.power_state.map(|power| format!("{power:?}"));
    vec![
        vm.name_any().into(),
        phase_cell(status.phase.unwrap_or_default()),
        power.unwrap_or_default().into(),
        ready.map_or_else(Cell::default, |c| ready_cell(&c.status)),
        vm.spec.provider_ref.name.as_str().into(),
        status.ips.join(",").into(),
        age_of(vm, now).into(),
    ]
}

fn ready_cell(status: &str) -> Cell {
    let paint = match status {
        "True" => Paint::Good,
        "False" => Paint::Bad,
        _ => Paint::Busy,
    };
    Cell::new(status, paint)
}

/// How old the object is.
pub fn age_of(vm: &VirtualMachine, now: Timestamp) -> String {
    let created = vm.metadata.creation_timestamp.as_ref();
    created.map(|time| age(time.0, now)).unwrap_or_default()
}

fn more(vm: &VirtualMachine) -> [Cell; 4] {
    let name = |reference: Option<&polyvirt_api::infra::ObjectRef>| -> Cell {
        reference.map_or("<inline>", |r| r.name.as_str()).into()
    };
    let status = vm.status.clone().unwrap_or_default();
    [
        name(vm.spec.class_ref.as_ref()),
        name(vm.spec.image_ref.as_ref()),
        status.host.unwrap_or_default().into(),
        status.message.unwrap_or_default().into(),
    ]
}

#[cfg(test)]
mod tests {
    use polyvirt_api::infra::VirtualMachine;

    use super::*;

    fn vm() -> VirtualMachine {
        serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1",
            "kind": "VirtualMachine",
            "metadata": {"name": "web", "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"providerRef": {"name": "local"}, "classRef": {"name": "tiny"}, "imageRef": {"name": "guest"}},
            "status": {
                "phase": "Running", "powerState": "On", "ips": ["10.0.2.15", "fec0::1"], "host": "h1",
                "conditions": [{"type": "Ready", "status": "True", "reason": "x", "message": "",
                                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            },
        }))
        .expect("a VM")
    }

    fn shown(output: Output, all_namespaces: bool) -> String {
        let options = List {
            all_namespaces,
            selector: None,
            output,
        };
        let now = "2026-01-01T00:03:00Z".parse().expect("a time");
        table(&[vm()], &options, now).render(Colours::Off)
    }

    #[test]
    fn the_table_is_that_of_kubectl() {
        assert_eq!(
            shown(Output::Table, false),
            "NAME   PHASE     POWER   READY   PROVIDER   IPS                 AGE\n\
             web    Running   On      True    local      10.0.2.15,fec0::1   3m\n"
        );
    }

    #[test]
    fn wide_and_all_namespaces_add_columns() {
        let text = shown(Output::Wide, true);
        assert!(text.starts_with("NAMESPACE   NAME"), "{text}");
        assert!(text.contains("tiny    guest   h1"), "{text}");
    }

    #[test]
    fn names_are_what_kubectl_takes() {
        assert_eq!(names(&[vm()]), "virtualmachine.infra.virtrigaud.io/web\n");
    }

    #[test]
    fn an_empty_list_says_where_nothing_is() {
        let mut options = List {
            all_namespaces: false,
            selector: None,
            output: Output::Table,
        };
        assert_eq!(nothing("shop", &options), "No VMs in the namespace shop");
        options.selector = Some("app=web".to_owned());
        options.all_namespaces = true;
        assert_eq!(
            nothing("shop", &options),
            "No VMs with the labels app=web in any namespace"
        );
    }
}
