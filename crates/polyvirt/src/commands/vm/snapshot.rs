//! `polyvirt vm snapshot`, `snapshots` and `revert`.

use std::time::{Duration, Instant};

use anyhow::bail;
use jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use polyvirt_api::infra::{
    LocalRef, RevertState, SnapshotConfig, SnapshotPhase, VMSnapshot, VMSnapshotSpec,
    VirtualMachine,
};
use serde_json::json;

use super::connect::unreachable;
use super::migrate::create_beside;
use super::options::{Revert, Snapshot, Snapshots};
use super::power::{patch, until};
use super::{Cluster, print, say};
use crate::commands::table::{Cell, Colours, Paint, Table, age};
use crate::exit::Failure;

const POLL: Duration = Duration::from_millis(300);

fn api(cluster: &Cluster) -> Api<VMSnapshot> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

/// Takes a snapshot.
pub async fn take(cluster: &Cluster, options: &Snapshot) -> anyhow::Result<()> {
    cluster.vm(&options.name).await?;
    let object = wanted(options, Timestamp::now());
    let made = match options.called {
        Some(_) => api(cluster).create(&PostParams::default(), &object).await,
        None => create_beside(&api(cluster), &object).await,
    };
    let made = made.map_err(|e| unreachable(cluster, e, "The snapshot cannot be taken"))?;
    let name = made.name_any();
    if !options.wait.wait {
        print(&format!("vmsnapshot/{name}: asked for\n"));
        return Ok(());
    }
    until_ready(cluster, &name, options.wait.timeout).await
}

fn wanted(options: &Snapshot, now: Timestamp) -> VMSnapshot {
    let name = options.called.clone();
    let name =
        name.unwrap_or_else(|| format!("{}-{}", options.name, now.strftime("%Y%m%d-%H%M%S")));
    let spec = VMSnapshotSpec {
        vm_ref: LocalRef {
            name: options.name.clone(),
        },
        snapshot_config: Some(SnapshotConfig {
            include_memory: options.memory,
            quiesce: !options.no_quiesce,
            description: options.description.clone(),
            ..SnapshotConfig::default()
        }),
        ..VMSnapshotSpec::default()
    };
    VMSnapshot::new(&name, spec)
}

async fn until_ready(cluster: &Cluster, name: &str, limit: Duration) -> anyhow::Result<()> {
    let begin = Instant::now();
    loop {
        let found = api(cluster).get(name).await;
        let found = found.map_err(|e| unreachable(cluster, e, "The snapshot cannot be read"))?;
        let status = found.status.unwrap_or_default();
        let message = status.message.unwrap_or_default();
        match status.phase {
            Some(SnapshotPhase::Ready) => {
                let seconds = begin.elapsed().as_secs_f64();
                print(&format!("vmsnapshot/{name}: taken in {seconds:.1} s\n"));
                return Ok(());
            }
            Some(SnapshotPhase::Failed) => bail!("{name} was not taken: {message}"),
            _ if begin.elapsed() > limit => {
                let seconds = limit.as_secs();
                let text = format!("{name} was not taken within {seconds} s. {message}");
                return Err(Failure::TimedOut(text).into());
            }
            _ => tokio::time::sleep(POLL).await,
        }
    }
}

/// Shows snapshots.
pub async fn list(cluster: &Cluster, options: &Snapshots) -> anyhow::Result<()> {
    let found = api(cluster).list(&ListParams::default()).await;
    let found = found.map_err(|e| unreachable(cluster, e, "VMSnapshots cannot be read"))?;
    let of_vm = |s: &VMSnapshot| {
        options
            .name
            .as_ref()
            .is_none_or(|n| *n == s.spec.vm_ref.name)
    };
    let mut list: Vec<_> = found.items.into_iter().filter(of_vm).collect();
    list.sort_by_key(|s| {
        (
            s.spec.vm_ref.name.clone(),
            s.metadata.creation_timestamp.clone(),
        )
    });
    if list.is_empty() {
        say(&format!(
            "No snapshots in the namespace {}",
            cluster.namespace
        ));
        return Ok(());
    }
    print(&table(&list, Timestamp::now()).render(Colours::of_stdout()));
    Ok(())
}

fn table(list: &[VMSnapshot], now: Timestamp) -> Table {
    let mut table = Table::new(&["NAME", "VM", "PHASE", "SIZE", "AGE", "MESSAGE"]);
    for snapshot in list {
        table.row(row(snapshot, now));
    }
    table
}

fn row(snapshot: &VMSnapshot, now: Timestamp) -> Vec<Cell> {
    let status = snapshot.status.clone().unwrap_or_default();
    let created = snapshot.metadata.creation_timestamp.as_ref();
    vec![
        snapshot.name_any().into(),
        snapshot.spec.vm_ref.name.as_str().into(),
        phase_cell(status.phase.unwrap_or_default()),
        status.size.map(|size| size.0).unwrap_or_default().into(),
        created
            .map(|time| age(time.0, now))
            .unwrap_or_default()
            .into(),
        status.message.unwrap_or_default().into(),
    ]
}

fn phase_cell(phase: SnapshotPhase) -> Cell {
    let paint = match phase {
        SnapshotPhase::Ready | SnapshotPhase::Scheduled => Paint::Good,
        SnapshotPhase::Failed => Paint::Bad,
        SnapshotPhase::Suspended | SnapshotPhase::Expired => Paint::Plain,
        SnapshotPhase::Pending | SnapshotPhase::Creating | SnapshotPhase::Deleting => Paint::Busy,
    };
    Cell::new(format!("{phase:?}"), paint)
}

/// Takes a VM back to a snapshot.
pub async fn revert(cluster: &Cluster, options: &Revert) -> anyhow::Result<()> {
    let (name, target) = (&options.name, &options.snapshot);
    let found = api(cluster).get_opt(target).await;
    let found = found.map_err(|e| unreachable(cluster, e, "VMSnapshots cannot be read"))?;
    match found {
        None => {
            let text = format!(
                "There is no VMSnapshot {target}: `polyvirt vm snapshots {name}` shows all"
            );
            return Err(Failure::NotFound(text).into());
        }
        Some(other) if other.spec.vm_ref.name != *name => {
            bail!(
                "{target} is a snapshot of {}, not of {name}",
                other.spec.vm_ref.name
            )
        }
        Some(_) => {}
    }
    forget_the_last(cluster, options).await?;
    let wish = json!({"spec": {"snapshot": {"revertToRef": {"name": target}}}});
    patch(cluster, name, wish).await?;
    if !options.wait.wait {
        print(&format!(
            "virtualmachine/{name}: asked to go back to {target}\n"
        ));
        return Ok(());
    }
    until(
        cluster,
        name,
        "go back",
        options.wait.timeout,
        |vm| match refusal(vm, target) {
            Some(why) => bail!("{name} cannot go back to {target}: {why}"),
            None => Ok(is_back(vm, target)),
        },
    )
    .await
}

/// A wish that was carried out stays in the spec: the same one is new only once the manager has seen it gone.
async fn forget_the_last(cluster: &Cluster, options: &Revert) -> anyhow::Result<()> {
    let name = &options.name;
    let vm = cluster.vm(name).await?;
    if vm.status.is_none_or(|status| status.revert.is_none()) {
        return Ok(());
    }
    patch(cluster, name, json!({"spec": {"snapshot": null}})).await?;
    let begin = Instant::now();
    while begin.elapsed() < options.wait.timeout {
        let status = cluster.vm(name).await?.status.unwrap_or_default();
        if status.revert.is_none() {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
    let text = format!("The manager does not answer: {name} still tells of its last return");
    Err(Failure::TimedOut(text).into())
}

/// Why the VM will never go back, if the provider has said so.
fn refusal(vm: &VirtualMachine, target: &str) -> Option<String> {
    let told = vm.status.as_ref()?.revert.as_deref()?;
    let refused = told.name == target && told.state == RevertState::Refused;
    refused.then(|| told.message.clone().unwrap_or_default())
}

fn is_back(vm: &VirtualMachine, target: &str) -> bool {
    let Some(status) = &vm.status else {
        return false;
    };
    let told = status.revert.as_deref();
    let done = told.is_some_and(|r| r.name == target && r.state == RevertState::Done);
    done && status.operation.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::vm::options::Wait;

    fn options(called: Option<&str>) -> Snapshot {
        Snapshot {
            name: "web".to_owned(),
            called: called.map(ToOwned::to_owned),
            memory: true,
            no_quiesce: false,
            description: None,
            wait: Wait {
                wait: false,
                timeout: POLL,
            },
        }
    }

    #[test]
    fn a_snapshot_without_a_name_has_that_of_its_moment() {
        let now = "2026-06-05T03:04:05Z".parse().expect("a time");
        let object = wanted(&options(None), now);
        assert_eq!(object.name_any(), "web-20260605-030405");
        let config = object.spec.snapshot_config.expect("a config");
        assert!(config.include_memory && config.quiesce);
        assert_eq!(wanted(&options(Some("before")), now).name_any(), "before");
    }

    #[test]
    fn a_refusal_is_the_end_of_a_wait() {
        let told = |state: &str, name: &str| {
            let vm = json!({
                "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
                "metadata": {"name": "web"}, "spec": {"providerRef": {"name": "p"}},
                "status": {"revert": {
                    "name": name, "uid": "1", "state": state, "message": "It has another disk",
                }},
            });
            refusal(&serde_json::from_value(vm).expect("a VM"), "before")
        };
        let why = Some("It has another disk".to_owned());
        assert_eq!(told("Refused", "before"), why);
        assert_eq!(told("Refused", "older"), None);
        assert_eq!(told("Begun", "before"), None);
    }

    #[test]
    fn the_table_tells_what_is_there() {
        let snapshot: VMSnapshot = serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMSnapshot",
            "metadata": {"name": "before", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"vmRef": {"name": "web"}},
            "status": {"phase": "Ready", "size": "1024", "message": "It is there"},
        }))
        .expect("a snapshot");
        let now = "2026-01-01T00:03:00Z".parse().expect("a time");
        assert_eq!(
            table(&[snapshot], now).render(Colours::Off),
            "NAME     VM    PHASE   SIZE   AGE   MESSAGE\n\
             before   web   Ready   1024   3m    It is there\n"
        );
    }

    #[test]
    fn a_vm_is_back_when_it_says_so() {
        let vm = |name: &str, state: &str| -> VirtualMachine {
            serde_json::from_value(json!({
                "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine", "metadata": {},
                "spec": {"providerRef": {"name": "p"}},
                "status": {"revert": {"name": name, "uid": "u", "state": state}},
            }))
            .expect("a VM")
        };
        assert!(is_back(&vm("before", "Done"), "before"));
        assert!(!is_back(&vm("before", "Begun"), "before"));
        assert!(!is_back(&vm("other", "Done"), "before"));
    }
}
