//! What this API server says of itself.

use serde_json::{Value, json};

/// Our group.
pub const GROUP: &str = "subresources.polyvirt.io";
/// Its version.
pub const VERSION: &str = "v1";

/// A group that can be put first, so that `kubectl get virtualmachines` means its kind.
pub const FIRST_GROUP: &str = "novacron.io";
/// A version of it without resources. Groups of CustomResourceDefinitions all have one priority, and come in the order of their
/// names; the highest priority of its versions is that of a group, and only a version that is served elsewhere has its own.
pub const FIRST_VERSION: &str = "priority";

/// A part of a VirtualMachine that is served here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The serial console, a websocket.
    Console,
    /// The screen as RFB, a websocket.
    Vnc,
    /// A command in the guest.
    Exec,
    /// What the serial console has shown.
    Log,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Console, Self::Vnc, Self::Exec, Self::Log];

    /// The last word of its path.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Console => "console",
            Self::Vnc => "vnc",
            Self::Exec => "exec",
            Self::Log => "log",
        }
    }

    /// The permission that it needs. A websocket begins with GET, so typing into a console needs `get`.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Console | Self::Vnc | Self::Log => "get",
            Self::Exec => "create",
        }
    }
}

/// `/apis`
pub fn groups() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [body_of_group()]})
}

/// `/apis/GROUP`
pub fn group() -> Value {
    let mut group = body_of_group();
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    group
}

fn body_of_group() -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION});
    json!({"name": GROUP, "versions": [version], "preferredVersion": version})
}

/// `/apis/FIRST_GROUP/FIRST_VERSION`
pub fn no_resources() -> Value {
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": format!("{FIRST_GROUP}/{FIRST_VERSION}"),
        "resources": [],
    })
}

/// `/apis/GROUP/VERSION`
pub fn resources() -> Value {
    let resources = Part::ALL.map(|part| {
        json!({
            "name": format!("virtualmachines/{}", part.name()),
            "singularName": "",
            "namespaced": true,
            "kind": "VirtualMachine",
            "verbs": [part.verb()],
        })
    });
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": format!("{GROUP}/{VERSION}"),
        "resources": resources,
    })
}
