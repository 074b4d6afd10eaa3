//! The VMMigration of a VM: made, left alone, or taken away.

use std::sync::Arc;

use polyvirt_api::infra::{MigrationPhase, VMMigration};
use polyvirt_api::novacron::VirtualMachine;
use polyvirt_engine::cluster::ClusterError;
use polyvirt_engine::runtime::key::ObjectKey;

use super::Controller;
use crate::novacron::lower::{Lowered, migration_name};
use crate::shared::desk::Claim;
use crate::shared::made;
use crate::shared::owner::is_owned;

/// What became of the wish for a move.
pub(super) enum Kept {
    /// This is the VMMigration, or there is none and none is wanted.
    As(Option<Arc<VMMigration>>),
    /// An object of its name is somebody else's.
    Taken(String),
}

/// One that failed is not, once the policy says something else: it is made anew.
fn is_the_one(there: &VMMigration, wanted: &VMMigration) -> bool {
    let phase = there.status.as_ref().and_then(|s| s.phase);
    let terms = |m: &VMMigration| m.spec.options.as_ref().and_then(|o| o.live.clone());
    let mended = phase == Some(MigrationPhase::Failed) && terms(there) != terms(wanted);
    there.spec.target.host == wanted.spec.target.host && !mended
}

impl Controller {
    /// A move happens once for one node. Another node, or none, takes the last VMMigration away first; its end wakes us.
    pub(super) async fn keep_migration(
        &self,
        key: &ObjectKey,
        vm: &VirtualMachine,
        lowered: &Lowered,
    ) -> Result<Kept, ClusterError> {
        let name = ObjectKey::new(key.namespace(), &migration_name(key.name()));
        let mut there = self.engine.stores.migrations.get(&name);
        if there.is_none() && lowered.move_to.is_some() {
            // The cache may lag behind: nothing is made before the API server has said that there is nothing.
            there = self.desk.get(&name).await?.map(Arc::new);
        }
        match (there, &lowered.move_to) {
            (None, None) => Ok(Kept::As(None)),
            (None, Some(wanted)) => {
                let made = self.desk.apply(wanted, Claim::New).await?;
                Ok(Kept::As(Some(Arc::new(made))))
            }
            (Some(there), wanted) if !is_owned(&*there, vm) => Ok(match wanted {
                Some(_) => Kept::Taken(name.name().to_owned()),
                None => Kept::As(None),
            }),
            (Some(there), Some(wanted)) if is_the_one(&there, wanted) => Ok(Kept::As(Some(there))),
            (Some(there), _) => {
                made::delete(&self.desk, &name, &*there).await?;
                Ok(Kept::As(None))
            }
        }
    }

    /// A VM that goes does not move. Its VMMigration goes when that is stopped.
    pub(super) async fn end_migration(
        &self,
        key: &ObjectKey,
        vm: &VirtualMachine,
    ) -> Result<(), ClusterError> {
        let name = ObjectKey::new(key.namespace(), &migration_name(key.name()));
        let found = self.engine.stores.migrations.get(&name);
        match found.filter(|m| is_owned(&**m, vm)) {
            Some(found) => made::delete::<VMMigration>(&self.desk, &name, &found).await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_that_failed_is_made_anew_when_its_terms_change() {
        let object = |host: &str, phase: &str, encrypted: bool| -> VMMigration {
            serde_json::from_value(json!({
                "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMMigration", "metadata": {},
                "spec": {
                    "source": {"vmRef": {"name": "web"}},
                    "target": {"providerRef": {"name": "p"}, "host": host},
                    "options": {"live": {"encrypted": encrypted}},
                },
                "status": {"phase": phase},
            }))
            .expect("a move")
        };
        let wanted = object("a", "Pending", true);
        for (host, phase, encrypted, same) in [
            ("a", "Failed", true, true),
            ("a", "Failed", false, false),
            ("a", "Transferring", false, true),
            ("a", "Ready", false, true),
            ("b", "Ready", true, false),
        ] {
            let there = object(host, phase, encrypted);
            assert_eq!(is_the_one(&there, &wanted), same, "{host} {phase}");
        }
    }
}
