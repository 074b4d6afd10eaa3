//! `admission.k8s.io/v1`, as far as it is needed. Objects stay trees: one of a newer version must not break a review.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::verdict::{Decision, Verdict};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// What the API server sends.
#[derive(Debug, Deserialize)]
pub struct Review {
    /// The question.
    pub request: Request,
}

/// A question of the API server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Request {
    /// Goes back with the answer.
    pub uid: String,
    /// What is to be changed.
    pub kind: GroupKind,
    /// Its name; empty where the API server is to make one up.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// What is to be done to it.
    pub operation: Operation,
    /// Who asks.
    pub user_info: UserInfo,
    /// How the request is to be carried out.
    pub options: Options,
    /// As it is to be; null for a deletion.
    pub object: Value,
    /// As it is; null for a creation.
    pub old_object: Value,
}

/// The kind of an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct GroupKind {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
}

/// How a request is to be carried out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Options {
    /// Under which name the written fields are recorded; empty for a deletion.
    pub field_manager: String,
}

/// Who asks.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// The name of the account.
    pub username: String,
}

/// What is to be done to an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// Make it.
    Create,
    /// Change it.
    Update,
    /// Remove it.
    Delete,
    /// Anything else; never asked for by our configurations.
    #[default]
    #[serde(other)]
    Connect,
}

impl Operation {
    /// For labels of metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The answer to `/validate`.
pub fn answer(request: &Request, verdict: &Verdict) -> Value {
    let mut response = json!({
        "uid": request.uid,
        "allowed": verdict.decision == Decision::Allowed,
    });
    if !verdict.warnings.is_empty() {
        response["warnings"] = json!(verdict.warnings);
    }
    if let Some(status) = verdict.decision.status(request) {
        response["status"] = status;
    }
    json!({"apiVersion": API_VERSION, "kind": KIND, "response": response})
}

/// The answer to `/mutate`; an empty patch changes nothing.
pub fn patched(request: &Request, patch: &impl Serialize) -> Value {
    let text = serde_json::to_vec(patch).unwrap_or_default();
    let mut response = json!({"uid": request.uid, "allowed": true});
    if text != b"[]" && !text.is_empty() {
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(STANDARD.encode(text));
    }
    json!({"apiVersion": API_VERSION, "kind": KIND, "response": response})
}
