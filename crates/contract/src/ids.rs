//! Newtypes for everything that names something, so that a task can never be passed where a VM is meant.

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Box<str>);

        impl $name {
            /// The identifier as the provider or the user wrote it.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether nothing was given; on the wire an absent identifier is an empty string.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }

            /// `None` for the empty string, which is how the wire says "absent".
            pub fn non_empty(text: impl Into<Box<str>>) -> Option<Self> {
                let text = text.into();
                (!text.is_empty()).then_some(Self(text))
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id! {
    /// A VM as its provider names it. Opaque to everyone else.
    VmId
}
id! {
    /// A task that a provider runs on its own. It may be forgotten by the provider at any time.
    TaskId
}
id! {
    /// What makes a VM ours: fixed at first sight of the VirtualMachine, stored with the VM on the hypervisor.
    Identity
}
id! {
    /// A snapshot of one VM.
    SnapshotId
}
id! {
    /// A prepared image: a template name, a VMID, a volume.
    ImageId
}
id! {
    /// One move of a VM from a host to another, as both of them know it.
    MoveId
}
id! {
    /// Names one request of a user, so that a provider carries it out once however often it is sent.
    RequestId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_id_is_absent() {
        assert_eq!(VmId::non_empty(""), None);
        assert_eq!(VmId::non_empty("vm-1"), Some(VmId::from("vm-1")));
        assert!(TaskId::default().is_empty());
    }
}
