//! A move to another node: the annotation `novacron.io/migrate-to` becomes a VMMigration.
//!
//! There is one VMMigration for one VM. It stays as long as the annotation says the same, so that a move happens once. Another
//! node, or none, takes it away first, which stops it if it is under way.

use polyvirt_api::infra::{
    LiveMigration, LocalRef, MigrationOptions, MigrationSource, MigrationTarget, ObjectRef,
    VMMigration, VMMigrationSpec,
};
use polyvirt_api::novacron::{MIGRATE_TO_ANNOTATION, MigrationPolicy, VirtualMachine};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_plan::bandwidth::bytes_per_second;

use super::error::LowerError;
use crate::shared::names::shortened;

/// How a VM may move while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationTerms {
    /// Whether it may at all.
    pub live: Live,
    /// The most that is sent, in bytes a second.
    pub bytes_per_second: Option<u64>,
}

/// Whether a VM may move while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// It may.
    Allowed,
    /// It stays.
    Forbidden,
}

/// The terms of the policy.
pub(super) fn terms(policy: Option<&MigrationPolicy>) -> Result<MigrationTerms, LowerError> {
    let given = policy.and_then(|p| p.bandwidth.as_deref());
    let given = given.filter(|b| !b.is_empty());
    let rate = given.map(bytes_per_second).transpose();
    let field = "spec.migrationPolicy.bandwidth";
    Ok(MigrationTerms {
        live: if policy.is_some_and(|p| p.allow_live_migration) {
            Live::Allowed
        } else {
            Live::Forbidden
        },
        bytes_per_second: rate.map_err(|why| LowerError::invalid(field, why))?,
    })
}

/// The node that the VM is to move to.
pub fn wanted_node(vm: &VirtualMachine) -> Option<&str> {
    let annotations = vm.metadata.annotations.as_ref()?;
    let node = annotations.get(MIGRATE_TO_ANNOTATION)?.trim();
    Some(node).filter(|node| !node.is_empty())
}

/// Why the VM does not move though it is asked to.
pub fn refusal(vm: &VirtualMachine, terms: &MigrationTerms) -> Option<String> {
    let node = wanted_node(vm).filter(|_| terms.live == Live::Forbidden)?;
    Some(format!(
        "The VM does not move to {node}, as the annotation {MIGRATE_TO_ANNOTATION} asks: \
         set spec.migrationPolicy.allowLiveMigration to true, or remove the annotation"
    ))
}

/// The name of the VMMigration of a VM.
pub fn migration_name(vm: &str) -> String {
    shortened(&format!("{vm}-migrate"), 253)
}

/// The VMMigration, if the VM is to move and may.
pub(super) fn lower(
    vm: &VirtualMachine,
    name: &str,
    provider: &ObjectKey,
    terms: &MigrationTerms,
) -> Option<VMMigration> {
    let node = wanted_node(vm).filter(|_| terms.live == Live::Allowed)?;
    let policy = vm.spec.migration_policy.clone().unwrap_or_default();
    let spec = VMMigrationSpec {
        source: MigrationSource {
            vm_ref: LocalRef::new(name),
            ..MigrationSource::default()
        },
        target: MigrationTarget {
            provider_ref: ObjectRef {
                name: provider.name().to_owned(),
                namespace: Some(provider.namespace().to_owned()),
            },
            host: Some(node.to_owned()),
            ..MigrationTarget::default()
        },
        options: Some(MigrationOptions {
            live: Some(LiveMigration {
                compression: policy.compression,
                encrypted: policy.encrypted,
                bandwidth: policy.bandwidth.filter(|b| !b.is_empty()),
                ..LiveMigration::default()
            }),
            ..MigrationOptions::default()
        }),
        ..VMMigrationSpec::default()
    };
    Some(VMMigration::new(&migration_name(name), spec))
}
