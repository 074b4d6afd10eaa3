//! Documents that configure the guest at its first boot.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cel::{exactly_one, rule};
use crate::infra::LocalRef;

/// What the guest reads at its first boot. Give cloudInit or ignition, not both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "!has(self.cloudInit) || !has(self.ignition)",
        "Give cloudInit or ignition, not both",
    ),
]))]
pub struct UserData {
    /// User data for cloud-init.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<CloudInit>,
    /// Configuration for Ignition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignition: Option<Ignition>,
}

/// A document for cloud-init, in place or in a Secret. Where the kind of document allows it,
/// both are joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "has(self.inline) || has(self.secretRef)",
        "Give inline, secretRef or both",
    ),
    rule(
        "!has(self.secretKey) || has(self.secretRef)",
        "secretKey is a key in the Secret of secretRef: give that, too",
    ),
]))]
pub struct CloudInit {
    /// The document itself. Do not put passwords here: whoever may read this object reads them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    /// The Secret that holds the document, under the usual key of its kind (user-data,
    /// meta-data or network-config) or under secretKey.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalRef>,
    /// The key in that Secret. Absent means the usual ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_key: Option<String>,
}

/// An Ignition configuration, in place or in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    exactly_one(&["inline", "secretRef"]),
]))]
pub struct Ignition {
    /// The configuration itself, as JSON. Do not put passwords here: whoever may read this
    /// object reads them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    /// The Secret that holds the configuration under the key ignition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalRef>,
}

/// Instance metadata for the guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetaData {
    /// The meta-data document for cloud-init. Absent means that one with the instance id and
    /// host name is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<CloudInit>,
}

/// Network configuration for the guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkData {
    /// The network-config document for cloud-init. Absent means that one is made from
    /// spec.networks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<CloudInit>,
}
