//! From the object to the request for the provider. What no provider can do is refused or named, never dropped.

use std::time::Duration;

use polyvirt_api::GoDuration;
use polyvirt_api::infra::{
    ConsistencyLevel, SnapshotConfig, SnapshotPhase, SnapshotRetention, SnapshotType, VMSnapshot,
    VMSnapshotSpec,
};
use polyvirt_contract::Identity;
use polyvirt_contract::model::{Quiesce, SnapshotContents, SnapshotRequest};

use crate::problem::Problem;
use crate::reason::Reason;
use crate::snapshot::facts::{Desired, OnVmGone};
use crate::snapshot::schedule::is_schedule;

/// The longest name that hypervisors of the field take.
const LONGEST_NAME: usize = 40;

/// Characters of the UID that tell two snapshots of one name apart.
const MARK: usize = 8;

/// The name on the hypervisor: the user's, and a part of the object's UID.
pub fn hypervisor_name(object: &VMSnapshot) -> String {
    let config = object.spec.snapshot_config.as_ref();
    let asked = config.and_then(|c| c.name.as_deref());
    let own = object.metadata.name.as_deref().unwrap_or_default();
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    let name: String = asked
        .unwrap_or(own)
        .chars()
        .take(LONGEST_NAME - MARK - 1)
        .collect();
    let mark: String = uid.chars().filter(|c| *c != '-').take(MARK).collect();
    format!("{name}-{mark}")
}

/// What the snapshot should be.
pub fn resolve(object: &VMSnapshot) -> Result<Desired, Problem> {
    let spec = &object.spec;
    let config = spec.snapshot_config.clone().unwrap_or_default();
    refuse(&config)?;
    let retention = spec.retention_policy.clone().unwrap_or_default();
    let (max_age, grace) = lifetime(spec, &retention)?;
    Ok(Desired {
        request: request(hypervisor_name(object), &config),
        max_age,
        grace,
        on_vm_gone: if retention.delete_on_vm_delete {
            OnVmGone::Delete
        } else {
            OnVmGone::Keep
        },
        ignored: ignored(object, &config),
    })
}

fn request(name_hint: String, config: &SnapshotConfig) -> SnapshotRequest {
    let crash = config.type_ == SnapshotType::Crash
        || config.consistency_level == ConsistencyLevel::CrashConsistent;
    SnapshotRequest {
        name_hint,
        description: config.description.clone().unwrap_or_default(),
        contents: if config.include_memory {
            SnapshotContents::DisksAndMemory
        } else {
            SnapshotContents::Disks
        },
        quiesce: if config.quiesce && !crash {
            Quiesce::IfPossible
        } else {
            Quiesce::No
        },
    }
}

/// What would be a lie if it were left out.
fn refuse(config: &SnapshotConfig) -> Result<(), Problem> {
    let problem = |field: &str, text: &str| {
        let field = format!("spec.snapshotConfig.{field}");
        Err(Problem::new(Reason::InvalidSpec, field, text))
    };
    if config.type_ == SnapshotType::Application {
        return problem(
            "type",
            "No provider can ask the applications in a guest. Use Standard or Crash",
        );
    }
    if config.consistency_level == ConsistencyLevel::ApplicationConsistent {
        return problem(
            "consistencyLevel",
            "No provider can ask the applications in a guest. Use FilesystemConsistent or CrashConsistent",
        );
    }
    if config.encryption.as_ref().is_some_and(|e| e.enabled) {
        return problem(
            "encryption.enabled",
            "No provider encrypts snapshots. Set it to false, or encrypt the storage",
        );
    }
    Ok(())
}

pub(super) fn lifetime(
    spec: &VMSnapshotSpec,
    retention: &SnapshotRetention,
) -> Result<(Option<Duration>, Duration), Problem> {
    let max_age = retention
        .max_age
        .as_ref()
        .map(|age| duration("maxAge", age))
        .transpose()?;
    let grace = duration("gracePeriod", &retention.grace_period)?;
    Ok((max_age.filter(|_| !is_kept(spec)), grace))
}

/// Whether it is there and is not to go with its VM, which has that identity there. One that goes itself keeps nothing.
pub fn keeps_vm(object: &VMSnapshot, identity: &Identity) -> bool {
    let status = object.status.as_ref();
    let of = status.and_then(|s| s.vm.as_ref()).map(|vm| &vm.identity);
    let whole = status.and_then(|s| s.phase) == Some(SnapshotPhase::Ready);
    let retention = object.spec.retention_policy.as_ref();
    let stays = retention.is_some_and(|r| !r.delete_on_vm_delete);
    let alive = object.metadata.deletion_timestamp.is_none();
    alive && stays && whole && of.is_some_and(|of| of == identity.as_str())
}

/// Whether it is pinned, and pins count.
pub(super) fn is_kept(spec: &VMSnapshotSpec) -> bool {
    let pinned = spec.metadata.as_ref().is_some_and(|m| m.pinned);
    let retention = spec.retention_policy.as_ref();
    pinned && retention.is_none_or(|r| r.preserve_pinned)
}

fn duration(field: &str, text: &GoDuration) -> Result<Duration, Problem> {
    let field = format!("spec.retentionPolicy.{field}");
    text.parse()
        .map_err(|e| Problem::new(Reason::InvalidSpec, field, format!("The value {e}")))
}

/// Fields that are set and that nothing acts on yet.
fn ignored(object: &VMSnapshot, config: &SnapshotConfig) -> Vec<&'static str> {
    let spec = &object.spec;
    let alone = !is_schedule(object);
    let counts = spec.retention_policy.as_ref();
    let counts = counts.is_some_and(|r| r.max_count.is_some());
    // An object that has taken a snapshot does not become a schedule.
    let late = spec.schedule.as_ref().is_some_and(|s| s.enabled);
    [
        ("spec.schedule", alone && late),
        ("spec.retentionPolicy.maxCount", alone && counts),
        ("spec.snapshotConfig.compression", config.compression),
    ]
    .into_iter()
    .filter_map(|(field, set)| set.then_some(field))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(spec: &serde_json::Value) -> VMSnapshot {
        let object = serde_json::json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMSnapshot",
            "metadata": {"name": "nightly", "uid": "12345678-9abc-def0-1234-56789abcdef0"},
            "spec": spec,
        });
        serde_json::from_value(object).expect("valid")
    }

    #[test]
    fn every_object_has_its_own_name_on_the_hypervisor() {
        let plain = object(&serde_json::json!({"vmRef": {"name": "a"}}));
        assert_eq!(hypervisor_name(&plain), "nightly-12345678");
        let mut other = plain.clone();
        other.metadata.uid = Some("99999999-9abc".into());
        assert_ne!(hypervisor_name(&plain), hypervisor_name(&other));
        let config = serde_json::json!({"name": "n".repeat(255)});
        let long = object(&serde_json::json!({"vmRef": {"name": "a"}, "snapshotConfig": config}));
        assert_eq!(hypervisor_name(&long).len(), LONGEST_NAME);
    }

    #[test]
    fn quiesce_and_memory_are_passed_on() {
        let ask = |config: serde_json::Value| {
            let spec = serde_json::json!({"vmRef": {"name": "a"}, "snapshotConfig": config});
            resolve(&object(&spec)).map(|d| (d.request.quiesce, d.request.contents))
        };
        let asked = ask(serde_json::json!({"includeMemory": true}));
        assert_eq!(
            asked,
            Ok((Quiesce::IfPossible, SnapshotContents::DisksAndMemory))
        );
        let left_alone = Ok((Quiesce::No, SnapshotContents::Disks));
        assert_eq!(ask(serde_json::json!({"quiesce": false})), left_alone);
        assert_eq!(ask(serde_json::json!({"type": "Crash"})), left_alone);
        let crash = serde_json::json!({"consistencyLevel": "CrashConsistent"});
        assert_eq!(ask(crash), left_alone);
    }

    #[test]
    fn what_no_provider_can_do_is_refused_by_name() {
        for (config, field) in [
            (serde_json::json!({"type": "Application"}), "type"),
            (
                serde_json::json!({"consistencyLevel": "ApplicationConsistent"}),
                "consistencyLevel",
            ),
            (
                serde_json::json!({"encryption": {"enabled": true}}),
                "encryption.enabled",
            ),
        ] {
            let spec = serde_json::json!({"vmRef": {"name": "a"}, "snapshotConfig": config});
            let problem = resolve(&object(&spec)).expect_err("refused");
            assert_eq!(problem.field, format!("spec.snapshotConfig.{field}"));
        }
    }

    #[test]
    fn fields_that_nothing_acts_on_are_named() {
        let spec = serde_json::json!({
            "vmRef": {"name": "a"},
            "schedule": {"enabled": true, "cronSpec": "@daily"},
            "retentionPolicy": {"maxCount": 3},
            "snapshotConfig": {"compression": true},
        });
        let mut object = object(&spec);
        let ignored = resolve(&object).expect("valid").ignored;
        assert_eq!(ignored, ["spec.snapshotConfig.compression"]);
        object.status = Some(polyvirt_api::infra::VMSnapshotStatus {
            vm: Some(polyvirt_api::infra::SnapshotVm::default()),
            ..Default::default()
        });
        let ignored = resolve(&object).expect("valid").ignored;
        assert_eq!(
            ignored,
            [
                "spec.schedule",
                "spec.retentionPolicy.maxCount",
                "spec.snapshotConfig.compression"
            ]
        );
    }

    #[test]
    fn what_is_there_and_is_to_stay_keeps_its_vm() {
        let kept = |change: fn(&mut VMSnapshot)| {
            let spec = serde_json::json!({
                "vmRef": {"name": "a"}, "retentionPolicy": {"deleteOnVMDelete": false},
            });
            let mut object = object(&spec);
            object.status = serde_json::from_value(serde_json::json!({
                "phase": "Ready", "vm": {"providerRef": {"name": "p"}, "id": "1", "identity": "me"},
            }))
            .expect("valid");
            change(&mut object);
            keeps_vm(&object, &"me".into())
        };
        assert!(kept(|_| {}));
        assert!(!kept(|s| s.spec.retention_policy = None));
        assert!(!kept(|s| s.metadata.deletion_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH)
        )));
        assert!(!kept(
            |s| s.status.get_or_insert_default().phase = Some(SnapshotPhase::Failed)
        ));
        assert!(!kept(|s| s.status.get_or_insert_default().vm = None));
    }

    #[test]
    fn a_pinned_snapshot_has_no_age() {
        let spec = |pinned: bool| {
            serde_json::json!({
                "vmRef": {"name": "a"}, "metadata": {"pinned": pinned},
                "retentionPolicy": {"maxAge": "1h"},
            })
        };
        let age = |pinned| resolve(&object(&spec(pinned))).expect("valid").max_age;
        assert_eq!(age(true), None);
        assert_eq!(age(false), Some(Duration::from_secs(3600)));
    }
}
