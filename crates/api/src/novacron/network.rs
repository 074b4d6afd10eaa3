//! Network interfaces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkSpec {
    /// The network: a VMNetworkAttachment of this name, or else a network that the provider knows
    /// under it. The name default means the provider's default network.
    pub name: String,
    /// How the VM is attached: bridge, ovs, sr-iov or macvlan.
    #[serde(rename = "type")]
    pub type_: String,
    /// IPv4. Absent together with ipv6 means DHCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<IpConfig>,
    /// IPv6. Absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<IpConfig>,
}

/// Addresses of one family on one interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpConfig {
    /// Where the address comes from: dhcp or static; for IPv6 auto, too.
    pub method: String,
    /// Address and prefix such as 10.0.1.10/24, for method static.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Default gateway, for method static.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Name servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns: Vec<String>,
}
