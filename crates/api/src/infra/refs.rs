//! References from one object to another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{LABEL, NAME};

/// Points at an object by name, in the same namespace unless one is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectRef {
    /// Name of the object.
    #[schemars(length(max = 253), regex(pattern = NAME))]
    pub name: String,
    /// Namespace of the object; the namespace of the referring object when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = LABEL))]
    pub namespace: Option<String>,
}

impl ObjectRef {
    /// A reference within the namespace of the referring object.
    pub fn local(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: None,
        }
    }

    /// The namespace that is meant, seen from an object in `own`.
    pub fn namespace_or<'a>(&'a self, own: &'a str) -> &'a str {
        self.namespace.as_deref().unwrap_or(own)
    }
}

/// Points at an object by name in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalRef {
    /// Name of the object.
    #[schemars(length(max = 253), regex(pattern = NAME))]
    pub name: String,
}

impl LocalRef {
    /// A reference to the object of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

/// Points at an object of the core API by name in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CoreRef {
    /// Name of the object.
    pub name: String,
}
