//! Where an image comes from.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::GoDuration;
use crate::cel::{at_least_one, exactly_one, rule};
use crate::infra::{ChecksumType, DiskFormat, ImageFormat, LocalRef, ObjectRef};

/// Where an image comes from. With members for several hypervisors one image serves them all: each takes its own, and those
/// without one take http, registry or dataVolume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    at_least_one(&["vsphere", "libvirt", "proxmox", "http", "registry", "dataVolume", "blank"]),
    rule(
        "!has(self.blank) || ![has(self.vsphere), has(self.libvirt), has(self.proxmox), \
         has(self.http), has(self.registry), has(self.dataVolume)].exists(x, x)",
        "An empty disk comes from nowhere: leave the other sources out, or blank",
    ),
]))]
pub struct VMImageSource {
    /// A template, a content library item or an OVA, for vSphere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<VsphereImageSource>,
    /// A file or a download, for libvirt and QEMU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub libvirt: Option<LibvirtImageSource>,
    /// A template, for Proxmox VE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxmox: Option<ProxmoxImageSource>,
    /// A download, for any provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpImageSource>,
    /// A container image that holds a disk, for any provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistryImageSource>,
    /// A DataVolume or PersistentVolumeClaim that holds a disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_volume: Option<ObjectRef>,
    /// An empty first disk, for installation over the network or from a medium.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blank: Option<BlankImageSource>,
}

/// An empty first disk. It has nothing to say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlankImageSource {}

/// An image for vSphere. Give templateName, contentLibrary or ovaURL; ovaURL beside templateName tells where to have the
/// template from while it is missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    at_least_one(&["templateName", "contentLibrary", "ovaURL"]),
]))]
pub struct VsphereImageSource {
    /// Name of a template in the inventory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub template_name: Option<String>,
    /// An item of a content library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_library: Option<ContentLibraryItem>,
    /// Where to download an OVA or OVF.
    #[serde(rename = "ovaURL", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^https?://.*\.(ova|ovf)$"))]
    pub ova_url: Option<String>,
    /// Digest of the download, in hexadecimal, or the address of the list in which its publisher keeps the digests of the day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// How the digest was made: md5, sha1, sha256 or sha512. Defaults to sha256.
    pub checksum_type: ChecksumType,
    /// The Provider that has the template. Absent means the one of the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<LocalRef>,
}

/// An item of a vSphere content library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentLibraryItem {
    /// Name of the library.
    #[schemars(length(max = 255))]
    pub library: String,
    /// Name of the item.
    #[schemars(length(max = 255))]
    pub item: String,
    /// Version of the item. Absent means the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// An image for libvirt and QEMU. Give path or url.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "has(self.path) || has(self.url)",
        "Give path or url",
    ),
]))]
pub struct LibvirtImageSource {
    /// Path of a file on the host, or name of a volume in the storage pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where to download the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^(https?|ftp)://.*"))]
    pub url: Option<String>,
    /// Storage pool that holds the image, or receives it. Absent means the provider's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub storage_pool: Option<String>,
    /// Format of the image: qcow2, raw, vmdk, vhd, vhdx, iso, ova or ovf. Defaults to qcow2.
    pub format: ImageFormat,
    /// Digest of the image, in hexadecimal, or the address of the list in which its publisher keeps the digests of the day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// How the digest was made: md5, sha1, sha256 or sha512. Defaults to sha256.
    pub checksum_type: ChecksumType,
}

/// An image for Proxmox VE. Give templateID or templateName.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "has(self.templateID) || has(self.templateName)",
        "Give templateID or templateName",
    ),
]))]
pub struct ProxmoxImageSource {
    /// Number of the template.
    #[serde(rename = "templateID", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 999_999_999))]
    pub template_id: Option<i64>,
    /// Name of the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub template_name: Option<String>,
    /// Node that has the template. Absent means any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub node: Option<String>,
    /// Storage for the disks of the VM. Absent means that of the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub storage: Option<String>,
    /// Format of the disks of the VM: qcow2, raw or vmdk. Defaults to qcow2.
    pub format: DiskFormat,
    /// Whether disks are copied (true) or linked to the template (false). Defaults to true.
    pub full_clone: bool,
}

impl Default for ProxmoxImageSource {
    fn default() -> Self {
        Self {
            template_id: None,
            template_name: None,
            node: None,
            storage: None,
            format: DiskFormat::default(),
            full_clone: true,
        }
    }
}

/// An image to download.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpImageSource {
    /// Where to download the image.
    #[schemars(regex(pattern = "^https?://.*"))]
    pub url: String,
    /// HTTP headers to send. Do not put secrets here: use authentication.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    pub headers: BTreeMap<String, String>,
    /// Digest of the download, in hexadecimal, or the address of the list in which its publisher keeps the digests of the day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// How the digest was made: md5, sha1, sha256 or sha512. Defaults to sha256.
    #[serde(default)]
    pub checksum_type: ChecksumType,
    /// How to log in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<HttpAuthentication>,
    /// How long the download may take. Defaults to 30m.
    #[serde(default = "default_30m")]
    pub timeout: GoDuration,
}

impl Default for HttpImageSource {
    fn default() -> Self {
        Self {
            url: String::new(),
            headers: BTreeMap::new(),
            checksum: None,
            checksum_type: ChecksumType::default(),
            authentication: None,
            timeout: default_30m(),
        }
    }
}

/// How to log in to an HTTP server. Give one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    exactly_one(&["basicAuth", "bearer", "clientCert"]),
]))]
pub struct HttpAuthentication {
    /// With a user name and a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    /// With a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer: Option<BearerAuth>,
    /// With a TLS certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<ClientCertAuth>,
}

/// A user name and a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuth {
    /// The Secret that holds both.
    pub secret_ref: LocalRef,
    /// Key of the user name. Defaults to username.
    #[serde(default = "default_username")]
    pub username_key: String,
    /// Key of the password. Defaults to password.
    #[serde(default = "default_password")]
    pub password_key: String,
}

/// A bearer token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BearerAuth {
    /// The Secret that holds the token.
    pub secret_ref: LocalRef,
    /// Key of the token. Defaults to token.
    #[serde(default = "default_token")]
    pub token_key: String,
}

/// A TLS certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertAuth {
    /// The Secret that holds both.
    pub secret_ref: LocalRef,
    /// Key of the certificate. Defaults to tls.crt.
    #[serde(default = "default_tls_crt")]
    pub cert_key: String,
    /// Key of the private key. Defaults to tls.key.
    #[serde(default = "default_tls_key")]
    pub key_key: String,
}

/// A container image that holds a disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryImageSource {
    /// Reference of the container image, with a tag or a digest.
    #[schemars(regex(pattern = "^[a-zA-Z0-9._:/-]+(:[a-zA-Z0-9._-]+|@sha256:[a-f0-9]{64})$"))]
    pub image: String,
    /// The Secret with the credentials of the registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_secret_ref: Option<LocalRef>,
    /// Format of the disk inside: qcow2, raw, vmdk, vhd, vhdx, iso, ova or ovf. Defaults to
    /// qcow2.
    #[serde(default)]
    pub format: ImageFormat,
}

fn default_30m() -> GoDuration {
    GoDuration::literal("30m")
}

fn default_username() -> String {
    "username".to_owned()
}

fn default_password() -> String {
    "password".to_owned()
}

fn default_token() -> String {
    "token".to_owned()
}

fn default_tls_crt() -> String {
    "tls.crt".to_owned()
}

fn default_tls_key() -> String {
    "tls.key".to_owned()
}
