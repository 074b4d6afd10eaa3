//! What the guest of a Machine reads at its first boot.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the guest reads at its first boot. User data may stand here, in a Secret or in a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineCloudInit {
    /// The kind of medium that the guest finds: noCloud or configDrive. Defaults to noCloud.
    #[serde(rename = "type")]
    pub type_: MachineCloudInitType,
    /// User data. Do not put passwords here: whoever may read this object reads them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// User data in Base64, where userData is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data_base64: Option<String>,
    /// The Secret that holds the user data. The same as userDataSecretRef.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<MachineDataRef>,
    /// The Secret that holds the user data, under the key userdata unless another is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data_secret_ref: Option<MachineDataRef>,
    /// The ConfigMap that holds the user data, under the key userdata unless another is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data_config_map_ref: Option<MachineDataRef>,
    /// Network configuration for the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<String>,
    /// Network configuration in Base64, where networkData is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data_base64: Option<String>,
    /// The Secret that holds the network configuration, under the key networkdata unless another is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data_secret_ref: Option<MachineDataRef>,
    /// The ConfigMap that holds the network configuration, under the key networkdata unless another is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data_config_map_ref: Option<MachineDataRef>,
}

/// The kind of medium with cloud-init data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MachineCloudInitType {
    /// NoCloud.
    #[default]
    NoCloud,
    /// A config drive.
    ConfigDrive,
}

/// A key of a Secret or ConfigMap in the namespace of the Machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDataRef {
    /// Name of the object.
    pub name: String,
    /// Key in it. Absent means the usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}
