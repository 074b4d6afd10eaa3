//! Kubernetes as the manager reaches it: every call may be refused, lost, or be the manager's last.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use polyvirt_api::names;
use polyvirt_contract::Identity;
use polyvirt_engine::cluster::{About, Cluster, ClusterError, Patch, SecretData};
use polyvirt_engine::runtime::key::{Key, Kind, ObjectKey};
use polyvirt_plan::{Note, Reason};
use serde_json::Value;

use crate::effect::Effect;
use crate::world::{Refusal, Sim};

/// Kubernetes as the manager reaches it.
pub struct SimCluster {
    pub sim: Arc<Sim>,
}

#[async_trait]
impl Cluster for SimCluster {
    async fn patch(&self, key: &Key, patch: Patch) -> Result<String, ClusterError> {
        let effect = self.classify(key, &patch);
        let work = async { self.write(effect, key, &patch) };
        self.sim
            .perform(effect, || describe(key, &patch), work, refused)
            .await
    }

    async fn create(&self, key: &Key, body: Value) -> Result<String, ClusterError> {
        let detail = format!("create {key:?}");
        let work = async {
            let now = self.sim.now();
            let api = &mut self.sim.world().api;
            if !api.create(key, body, now) {
                return Err(ClusterError::AlreadyExists);
            }
            let made = api.get(key).ok_or(ClusterError::NotFound)?;
            Ok(made.to_string())
        };
        self.sim
            .perform(Effect::SharedWrite, || detail, work, refused)
            .await
    }

    async fn delete(&self, key: &Key, uid: &str) -> Result<(), ClusterError> {
        let work = async {
            let now = self.sim.now();
            let api = &mut self.sim.world().api;
            match api.get(key) {
                Some(object) if object["metadata"]["uid"] == uid => {
                    api.delete(key, now);
                    Ok(())
                }
                Some(_) => Err(ClusterError::Conflict),
                None => Err(ClusterError::NotFound),
            }
        };
        self.sim
            .perform(
                Effect::SharedWrite,
                || format!("delete {key:?}"),
                work,
                refused,
            )
            .await
    }

    async fn secret(&self, key: &ObjectKey) -> Result<Option<SecretData>, ClusterError> {
        let work = async { Ok(self.sim.world().api.secret(key)) };
        self.sim
            .perform(Effect::Secret, || key.to_string(), work, refused)
            .await
    }

    async fn namespace_labels(&self, _: &str) -> Result<BTreeMap<String, String>, ClusterError> {
        Ok(BTreeMap::new())
    }

    async fn service_ranges(&self) -> Result<Vec<String>, ClusterError> {
        Ok(vec!["10.96.0.0/12".to_owned()])
    }

    fn event(&self, about: &About, note: Note) {
        self.sim
            .world()
            .summary
            .count("events", note.reason.as_str());
        if note.reason == Reason::DriftCorrected {
            self.check_correction(about, &note);
        }
        self.sim.note(|| {
            format!(
                "      event {:?}: {} {}",
                about.key, note.reason, note.message
            )
        });
    }
}

impl SimCluster {
    fn classify(&self, key: &Key, patch: &Patch) -> Effect {
        let world = self.sim.world();
        let stored = world.api.get(key);
        match (key.kind, patch) {
            (Kind::VirtualMachine, Patch::Metadata(body)) if lists_finalizer(body) => Effect::Claim,
            (Kind::VirtualMachine, Patch::Metadata(_)) => Effect::Release,
            (Kind::VirtualMachine, Patch::Status(body)) => {
                let intent = &body["status"]["createIntent"];
                let written =
                    stored.map_or(&Value::Null, |object| &object["status"]["createIntent"]);
                if intent.is_null() || intent == written {
                    Effect::Status
                } else {
                    Effect::Intent
                }
            }
            (Kind::VMImage, Patch::Metadata(_)) => Effect::ImageMark,
            (Kind::VMImage, Patch::Status(_)) => Effect::ImageStatus,
            _ => Effect::SharedWrite,
        }
    }

    fn write(&self, effect: Effect, key: &Key, patch: &Patch) -> Result<String, ClusterError> {
        let before = self.sim.world().api.get(key).cloned();
        let answer = self.sim.world().api.patch(key, patch);
        if let (Effect::Release, Ok(_), Some(before)) = (effect, &answer, before) {
            self.check_release(&before);
        }
        answer
    }

    /// Only what people did behind our back is reported as corrected. Where a provider cannot tell two objects apart, one may
    /// inherit what was under way for the other.
    fn check_correction(&self, about: &About, note: &Note) {
        let mut world = self.sim.world();
        world.ledger.corrections += 1;
        let Some(identity) = world.api.get(&about.key).map(|object| identity_of(object)) else {
            return;
        };
        let meddled = world.ledger.meddling_with(&identity);
        let excused = world.ledger.left_behind.contains(&identity);
        if !(excused || meddled.power || meddled.size || meddled.deleted) {
            let text = format!("{:?}: {} though nobody did that", about.key, note.message);
            world.ledger.violation(text);
        }
    }

    /// The finalizer may go only when no VM of the object is left, or when the user wants it so.
    fn check_release(&self, object: &Value) {
        let identity = identity_of(object);
        let forced = object["metadata"]["annotations"][names::FORCE_DELETE_ANNOTATION] == "true";
        let retained = object["spec"]["deletionPolicy"] == "Retain";
        let mut world = self.sim.world();
        if forced || retained {
            world.ledger.left_behind.insert(identity);
            return;
        }
        let others = world.api.list(Kind::VirtualMachine).any(|(_, other)| {
            identity_of(other) == identity && other["metadata"]["uid"] != object["metadata"]["uid"]
        });
        let left: Vec<_> = self.sim.mock.vms().into_iter().map(|vm| vm.id).collect();
        let left = left
            .iter()
            .find(|id| world.ledger.identity(id) == Some(&identity));
        // Whoever leaves a VM behind by force does so for all copies of its object.
        let left_behind = world.ledger.left_behind.contains(&identity);
        if let (Some(vm), false) = (left, others || left_behind) {
            let text = format!("The finalizer of {identity} went although its VM {vm} is there");
            world.ledger.violation(text);
        }
    }
}

fn lists_finalizer(body: &Value) -> bool {
    let list = body["metadata"]["finalizers"].as_array();
    list.is_some_and(|list| list.iter().any(|f| f == names::VIRTUAL_MACHINE_FINALIZER))
}

/// The identity that an object carries, or will.
pub fn identity_of(object: &Value) -> Identity {
    let written = object["metadata"]["annotations"][names::IDENTITY_ANNOTATION].as_str();
    let uid = object["metadata"]["uid"].as_str();
    Identity::from(written.or(uid).unwrap_or_default())
}

fn refused<T>(refusal: Refusal) -> Result<T, ClusterError> {
    let down = || ClusterError::Unavailable("the simulation says so".to_owned());
    Err(match refusal {
        Refusal::Refused(chance) => match chance % 4 {
            0 => ClusterError::Conflict,
            1 => ClusterError::Forbidden("the simulation says so".to_owned()),
            _ => down(),
        },
        Refusal::AnswerLost(_) | Refusal::TimedOut | Refusal::Down => down(),
    })
}

fn describe(key: &Key, patch: &Patch) -> String {
    match patch {
        Patch::Metadata(body) => format!("{key:?} {body}"),
        Patch::Status(body) => {
            let status = &body["status"];
            let none = Vec::new();
            let conditions = status["conditions"].as_array().unwrap_or(&none);
            let ready = conditions
                .iter()
                .find(|c| c["type"] == "Ready")
                .map(|c| c["reason"].clone());
            format!(
                "{key:?} phase {} ready {} id {} operation {} applied {} intent {}",
                status["phase"],
                ready.unwrap_or_default(),
                status["id"],
                status["operation"],
                status["applied"],
                status["createIntent"]
            )
        }
    }
}
