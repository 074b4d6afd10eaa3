//! MachineClass: a size that Machines share.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A size that Machines share.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "vitistack.io",
    version = "v1alpha1",
    kind = "MachineClass",
    plural = "machineclasses",
    shortname = "mc",
    category = "polyvirt",
    status = "MachineClassStatus",
    derive = "PartialEq",
    doc = "A size that Machines share.",
    printcolumn(
        name = "Display Name",
        type_ = "string",
        json_path = ".spec.displayName"
    ),
    printcolumn(name = "Category", type_ = "string", json_path = ".spec.category"),
    printcolumn(name = "Default", type_ = "string", json_path = ".spec.default"),
    printcolumn(name = "Cpu Cores", type_ = "string", json_path = ".spec.cpu.cores"),
    printcolumn(
        name = "Cpu Sockets",
        type_ = "string",
        json_path = ".spec.cpu.sockets"
    ),
    printcolumn(
        name = "Cpu Threads",
        type_ = "string",
        json_path = ".spec.cpu.threads"
    ),
    printcolumn(name = "Gpu Cores", type_ = "string", json_path = ".spec.gpu.cores"),
    printcolumn(name = "Memory", type_ = "string", json_path = ".spec.memory.quantity"),
    printcolumn(name = "Enabled", type_ = "string", json_path = ".spec.enabled"),
    printcolumn(name = "Created", type_ = "string", json_path = ".status.created")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct MachineClassSpec {
    /// Name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What the class is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Group that people sort classes by. Defaults to Standard.
    #[serde(default = "standard")]
    pub category: String,
    /// CPU of a Machine of this class.
    pub cpu: MachineClassCpu,
    /// Memory of a Machine of this class.
    pub memory: MachineClassMemory,
    /// GPU of a Machine of this class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<MachineClassGpu>,
    /// Whether Machines may use the class. Defaults to true.
    #[serde(default = "crate::schema::yes")]
    pub enabled: bool,
    /// Whether Machines that name no size get this one. Defaults to false.
    #[serde(default)]
    pub default: bool,
    /// The kinds of provider that offer the class, such as kubevirt. Empty means all.
    #[serde(default)]
    pub machine_providers: Vec<String>,
}

impl Default for MachineClassSpec {
    fn default() -> Self {
        Self {
            display_name: None,
            description: None,
            category: standard(),
            cpu: MachineClassCpu::default(),
            memory: MachineClassMemory::default(),
            gpu: None,
            enabled: true,
            default: false,
            machine_providers: Vec::new(),
        }
    }
}

fn standard() -> String {
    "Standard".to_owned()
}

/// CPU of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineClassCpu {
    /// Cores of a socket.
    pub cores: i64,
    /// Sockets. Absent means 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<i64>,
    /// Threads of a core. Absent means 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<i64>,
}

/// Memory of a class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineClassMemory {
    /// Memory, such as 8Gi.
    #[schemars(schema_with = "crate::schema::quantity")]
    pub quantity: Quantity,
    /// The least that a Machine of this class may ask for instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub min_quantity: Option<Quantity>,
    /// The most that a Machine of this class may ask for instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub max_quantity: Option<Quantity>,
}

/// GPU of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineClassGpu {
    /// Number of GPUs.
    pub cores: i64,
    /// Who makes the GPU; for KubeVirt the name of the device that nodes offer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manufacturer: Option<String>,
}

/// What is known of the class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(transform = crate::schema::kubernetes_style)]
pub struct MachineClassStatus {
    /// Where the class stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// One sentence about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
}
