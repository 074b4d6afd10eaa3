//! Network interfaces of a VM.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cel::rule;
use crate::infra::ObjectRef;
use crate::schema::{LABEL, MAC};

/// One network interface of a VM.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "!has(self.ipAddress) || has(self.prefix)",
        "A fixed ipAddress needs prefix, such as 24",
    ),
    rule(
        "!has(self.ipAddress) || !has(self.prefix) || self.ipAddress.contains(':') \
         || self.prefix <= 32",
        "The prefix of an IPv4 address is at most 32",
    ),
]))]
pub struct VMNetwork {
    /// Name of the interface, unique in the VM.
    #[schemars(length(max = 63), regex(pattern = LABEL))]
    pub name: String,
    /// The VMNetworkAttachment to connect to. Absent means the provider's default network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_ref: Option<ObjectRef>,
    /// Fixed address of the interface, IPv4 or IPv6; needs prefix. Absent means that the
    /// network decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub ip_address: Option<String>,
    /// Length of the network part of ipAddress in bits, such as 24.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 128))]
    pub prefix: Option<i32>,
    /// Default gateway of the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub gateway: Option<String>,
    /// Addresses of name servers, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<String>,
    /// Hardware address, such as 52:54:00:12:34:56. Absent means that the provider makes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = MAC))]
    pub mac_address: Option<String>,
}
