//! `polyvirt vm migrate`.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::bail;
use jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use polyvirt_api::infra::{
    LiveMigration, LocalRef, MigrationOptions, MigrationPhase, MigrationSource, MigrationTarget,
    MoveMode, ObjectRef, VMMigration, VMMigrationSpec, VirtualMachine,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::connect::unreachable;
use super::options::{Migrate, MoveTerms};
use super::{Cluster, print, say};
use crate::exit::Failure;

/// How often it is looked whether something has come to an end.
pub const POLL: Duration = Duration::from_millis(500);
/// Objects of one second that are told apart.
const SAME_SECOND: usize = 9;

fn api(cluster: &Cluster) -> Api<VMMigration> {
    Api::namespaced(cluster.client.clone(), &cluster.namespace)
}

/// Begins a move, or stops one.
pub async fn run(cluster: &Cluster, options: &Migrate) -> anyhow::Result<()> {
    if options.cancel {
        return cancel(cluster, options).await;
    }
    let vm = cluster.vm(&options.name).await?;
    let object = wanted(&vm, options.to.as_deref(), &options.terms, Timestamp::now());
    let name = begin(cluster, &object).await?;
    if !options.wait.wait {
        print(&format!("vmmigration/{name}: asked for\n"));
        return Ok(());
    }
    let told = |words: &str| say(words);
    let message = until_over(cluster, &name, options.wait.timeout, told).await?;
    print(&format!("vmmigration/{name}: {message}\n"));
    Ok(())
}

/// Makes the VMMigration.
pub async fn begin(cluster: &Cluster, object: &VMMigration) -> anyhow::Result<String> {
    let namespace = object
        .namespace()
        .unwrap_or_else(|| cluster.namespace.clone());
    let api: Api<VMMigration> = Api::namespaced(cluster.client.clone(), &namespace);
    let made = create_beside(&api, object).await;
    let made = made.map_err(|e| unreachable(cluster, e, "The move cannot be asked for"))?;
    Ok(made.name_any())
}

/// Creates an object that is named after the time; one that was made in the same second is another.
pub async fn create_beside<K>(api: &Api<K>, object: &K) -> Result<K, kube::Error>
where
    K: kube::Resource + Clone + Serialize + DeserializeOwned + Debug,
{
    let (name, mut object) = (object.name_any(), object.clone());
    for place in 2..=SAME_SECOND {
        match api.create(&PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                object.meta_mut().name = Some(format!("{name}-{place}"));
            }
            other => return other,
        }
    }
    api.create(&PostParams::default(), &object).await
}

/// A move of the VM to a host of its own Provider.
pub fn wanted(
    vm: &VirtualMachine,
    to: Option<&str>,
    terms: &MoveTerms,
    now: Timestamp,
) -> VMMigration {
    let own = vm.namespace().unwrap_or_default();
    let provider = &vm.spec.provider_ref;
    let name = format!("{}-{}", vm.name_any(), now.strftime("%Y%m%d-%H%M%S"));
    let spec = VMMigrationSpec {
        source: MigrationSource {
            vm_ref: LocalRef::new(vm.name_any()),
            ..MigrationSource::default()
        },
        target: MigrationTarget {
            provider_ref: ObjectRef {
                name: provider.name.clone(),
                namespace: Some(provider.namespace_or(&own).to_owned()),
            },
            host: to.map(str::to_owned),
            ..MigrationTarget::default()
        },
        options: Some(MigrationOptions {
            live: Some(live(terms)),
            ..MigrationOptions::default()
        }),
        ..VMMigrationSpec::default()
    };
    let mut object = VMMigration::new(&name, spec);
    object.metadata.namespace = vm.namespace();
    object
}

fn live(terms: &MoveTerms) -> LiveMigration {
    LiveMigration {
        mode: if terms.cold {
            MoveMode::Cold
        } else {
            MoveMode::Live
        },
        compression: terms.compression,
        encrypted: terms.encrypted,
        bandwidth: terms.bandwidth.clone(),
        auto_converge: terms.auto_converge,
        post_copy: terms.post_copy,
    }
}

/// Waits for the end, and tells how it goes. What is told of a success is answered.
pub async fn until_over(
    cluster: &Cluster,
    name: &str,
    limit: Duration,
    tell: impl Fn(&str),
) -> anyhow::Result<String> {
    let (begin, mut last) = (Instant::now(), String::new());
    loop {
        let found = api(cluster).get(name).await;
        let found = found.map_err(|e| unreachable(cluster, e, "The move cannot be read"))?;
        let now = words(&found);
        let status = found.status.unwrap_or_default();
        let message = status.message.unwrap_or_default();
        match status.phase {
            Some(MigrationPhase::Ready) => return Ok(message),
            Some(MigrationPhase::Failed | MigrationPhase::Cancelled) => bail!("{name}: {message}"),
            _ if begin.elapsed() > limit => {
                let seconds = limit.as_secs();
                let text = format!("{name} did not end within {seconds} s. {now}");
                return Err(Failure::TimedOut(text).into());
            }
            _ => {}
        }
        if now != last {
            tell(&format!("{:>6.1} s  {now}", begin.elapsed().as_secs_f64()));
            last = now;
        }
        tokio::time::sleep(POLL).await;
    }
}

fn words(migration: &VMMigration) -> String {
    const MIB: i64 = 1 << 20;
    let status = migration.status.clone().unwrap_or_default();
    let phase = status.phase.unwrap_or_default();
    let percent = status.progress.and_then(|p| p.percentage);
    let percent = percent.map(|p| format!(", {p} %")).unwrap_or_default();
    let moved = status.host_move.unwrap_or_default();
    let left = moved.remaining_bytes.map(|b| b / MIB);
    let left = left.map(|mib| format!(", {mib} MiB left"));
    let message = status.message.unwrap_or_default();
    format!("{phase:?}: {message}{percent}{}", left.unwrap_or_default())
}

/// The manager stops what is under way, and forgets what waits.
async fn cancel(cluster: &Cluster, options: &Migrate) -> anyhow::Result<()> {
    let found = api(cluster).list(&ListParams::default()).await;
    let found = found.map_err(|e| unreachable(cluster, e, "VMMigrations cannot be read"))?;
    let of_vm = |m: &VMMigration| m.spec.source.vm_ref.name == options.name && !is_over(m);
    let open: Vec<_> = found.items.into_iter().filter(of_vm).collect();
    if open.is_empty() {
        let text = format!("No move of {} is under way", options.name);
        return Err(Failure::NotFound(text).into());
    }
    for migration in open {
        let name = migration.name_any();
        let stop = Patch::Merge(json!({"spec": {"cancel": true}}));
        let params = PatchParams::default();
        let written = api(cluster).patch(&name, &params, &stop).await;
        written.map_err(|e| unreachable(cluster, e, "The move cannot be stopped"))?;
        print(&format!("vmmigration/{name}: asked to stop\n"));
    }
    Ok(())
}

/// Whether nothing is under way or waits any more.
pub fn is_over(migration: &VMMigration) -> bool {
    let phase = migration.status.as_ref().and_then(|s| s.phase);
    matches!(
        phase,
        Some(MigrationPhase::Ready | MigrationPhase::Failed | MigrationPhase::Cancelled)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_names_the_provider_of_its_vm() {
        let vm: VirtualMachine = serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
            "metadata": {"name": "web", "namespace": "team"},
            "spec": {"providerRef": {"name": "lab", "namespace": "infra"}},
        }))
        .expect("a VM");
        let now = "2026-06-05T03:04:05Z".parse().expect("a time");
        let terms = MoveTerms {
            encrypted: true,
            bandwidth: Some("10Gbps".into()),
            ..MoveTerms::default()
        };
        let object = wanted(&vm, Some("host-2"), &terms, now);
        assert_eq!(object.name_any(), "web-20260605-030405");
        assert_eq!(
            object.spec.target.provider_ref.namespace.as_deref(),
            Some("infra")
        );
        assert_eq!(object.spec.target.host.as_deref(), Some("host-2"));
        let live = object.spec.options.and_then(|o| o.live).expect("terms");
        assert!(live.encrypted && !live.compression && live.mode == MoveMode::Live);
    }

    #[test]
    fn progress_is_one_line() {
        let migration: VMMigration = serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMMigration", "metadata": {},
            "spec": {"source": {"vmRef": {"name": "web"}}, "target": {"providerRef": {"name": "p"}}},
            "status": {
                "phase": "Transferring", "message": "The VM moves from a to b",
                "progress": {"percentage": 40}, "hostMove": {"remainingBytes": 64 << 20},
            },
        }))
        .expect("a migration");
        assert_eq!(
            words(&migration),
            "Transferring: The VM moves from a to b, 40 %, 64 MiB left"
        );
    }
}
