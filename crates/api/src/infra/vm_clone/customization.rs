//! What to change in the guest of a clone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GoDuration;
use crate::cel::{exactly_one, rule};
use crate::infra::{LocalRef, UserData};
use crate::schema::{IPV4, MAC};

/// What to change in the guest of a clone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GuestCustomization {
    /// Host name. Absent means the name of the VirtualMachine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 255),
        regex(pattern = r"^[a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?$")
    )]
    pub hostname: Option<String>,
    /// Domain of the host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub domain: Option<String>,
    /// Time zone, such as Europe/Oslo.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100))]
    pub time_zone: Option<String>,
    /// Addresses of the interfaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), transform = crate::schema::keyed_by_name)]
    pub networks: Vec<NetworkCustomization>,
    /// What the guest reads at its first boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<Box<UserData>>,
    /// How a Windows guest is generalized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sysprep: Option<Box<Sysprep>>,
    /// Commands to run in the guest, through its agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub guest_commands: Vec<GuestCommand>,
    /// Certificates to install in the guest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), transform = crate::schema::keyed_by_name)]
    pub certificates: Vec<GuestCertificate>,
    /// Tags to put on the VM at the hypervisor.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub tags: Vec<String>,
}

/// Addresses of one interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "!has(self.dhcp) || !self.dhcp || !has(self.ipAddress)",
        "Give dhcp or ipAddress, not both",
    ),
    rule(
        "!has(self.ipAddress) || self.ipAddress.contains(':') || has(self.subnetMask)",
        "A fixed ipAddress needs subnetMask, such as 255.255.255.0",
    ),
]))]
pub struct NetworkCustomization {
    /// Name of the interface.
    #[schemars(length(max = 255))]
    pub name: String,
    /// Whether the interface asks a DHCP server. Absent means yes unless ipAddress is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dhcp: Option<bool>,
    /// Fixed address, IPv4 or IPv6; needs subnetMask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub ip_address: Option<String>,
    /// Network part of ipAddress, such as 255.255.255.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = IPV4))]
    pub subnet_mask: Option<String>,
    /// Default gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub gateway: Option<String>,
    /// Addresses of name servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    pub dns: Vec<String>,
    /// Hardware address. Absent means that the provider makes one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = MAC))]
    pub mac_address: Option<String>,
}

/// How a Windows guest is generalized.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Sysprep {
    /// Whether to do it. Defaults to false.
    pub enabled: bool,
    /// Product key of Windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_key: Option<String>,
    /// Organization that owns the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub organization: Option<String>,
    /// Person who owns the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub owner: Option<String>,
    /// Password of the administrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_password: Option<PasswordSource>,
    /// Domain to join.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join_domain: Option<DomainJoin>,
    /// Commands to run once after the first log-in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub custom_commands: Vec<String>,
}

/// A Windows domain to join.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DomainJoin {
    /// Name of the domain.
    #[schemars(length(max = 255))]
    pub domain: String,
    /// Account that may join.
    #[schemars(length(max = 255))]
    pub username: String,
    /// Password of the account.
    pub password: PasswordSource,
    /// Unit that receives the computer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 500))]
    pub organizational_unit: Option<String>,
}

/// A password, in place or in a Secret. Give one of the two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    exactly_one(&["value", "secretRef"]),
]))]
pub struct PasswordSource {
    /// The password itself. Whoever may read this object reads it: use secretRef.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The Secret that holds the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalRef>,
    /// Key of the password in the Secret. Defaults to password.
    pub secret_key: String,
}

impl Default for PasswordSource {
    fn default() -> Self {
        Self {
            value: None,
            secret_ref: None,
            secret_key: "password".to_owned(),
        }
    }
}

/// A command to run in the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuestCommand {
    /// The program.
    #[schemars(length(max = 1000))]
    pub command: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub arguments: Vec<String>,
    /// Folder to run it in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 500))]
    pub working_directory: Option<String>,
    /// User to run it as. Absent means the user of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub run_as_user: Option<String>,
    /// When to run it: pre-customization, post-customization or first-boot. Defaults to
    /// post-customization.
    #[serde(default)]
    pub stage: CommandStage,
    /// How long it may take. Defaults to 5m.
    #[serde(default = "default_5m")]
    pub timeout: GoDuration,
}

/// A certificate to install in the guest. Give data or secretRef.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    exactly_one(&["data", "secretRef"]),
]))]
pub struct GuestCertificate {
    /// Name of the certificate.
    #[schemars(length(max = 255))]
    pub name: String,
    /// The certificate, as PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// The Secret that holds the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalRef>,
    /// Key of the certificate in the Secret. Defaults to tls.crt.
    #[serde(default = "default_tls_crt")]
    pub secret_key: String,
    /// Where it goes: root, ca, my or trust. Defaults to root.
    #[serde(default)]
    pub store: CertificateStore,
}

/// When a command runs in the guest of a clone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CommandStage {
    /// Before anything else is changed.
    PreCustomization,
    /// After everything else is changed.
    #[default]
    PostCustomization,
    /// At the first boot.
    FirstBoot,
}

/// Where a certificate goes in the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CertificateStore {
    /// Among the roots of trust.
    #[default]
    Root,
    /// Among the intermediate authorities.
    Ca,
    /// Among the guest's own.
    My,
    /// Among the trusted ones.
    Trust,
}

fn default_5m() -> GoDuration {
    GoDuration::literal("5m")
}

fn default_tls_crt() -> String {
    "tls.crt".to_owned()
}
