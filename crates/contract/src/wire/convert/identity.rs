//! Kubernetes objects, as peers since VirtRigaud v0.4 name them.

use crate::ids::Identity;
use crate::model::{Host, HostHealth, ImageIdentity, Inventory, Owner};
use crate::wire::v1;

impl From<&Owner> for v1::ObjectIdentity {
    fn from(owner: &Owner) -> Self {
        Self {
            uid: owner.identity.to_string(),
            namespace: owner.namespace.clone(),
            name: owner.name.clone(),
        }
    }
}

impl v1::ObjectIdentity {
    /// The owner that is meant; `None` without a uid, for names decide nothing.
    pub(crate) fn owner(self) -> Option<Owner> {
        Some(Owner {
            identity: Identity::non_empty(self.uid)?,
            namespace: self.namespace,
            name: self.name,
        })
    }
}

impl v1::ImagePrepareRequest {
    /// What tells the image from all others; `None` if the caller goes by names.
    pub(crate) fn identity(&self) -> Option<ImageIdentity> {
        let image = self.image.clone()?.owner()?;
        Some(ImageIdentity {
            image,
            source_digest: self.source_digest.clone(),
        })
    }
}

impl v1::PreparedArtifact {
    /// The artifact of that image.
    pub(crate) fn of(identity: &ImageIdentity, name: String, reused: Reuse) -> Self {
        Self {
            name,
            image: Some((&identity.image).into()),
            source_digest: identity.source_digest.clone(),
            reused: reused == Reuse::Found,
        }
    }

    /// Whether it is the artifact of that image and no other.
    pub(crate) fn is_of(&self, identity: &ImageIdentity) -> bool {
        let uid = self.image.as_ref().map(|image| image.uid.as_str());
        uid == Some(identity.image.identity.as_str())
            && self.source_digest == identity.source_digest
    }
}

/// Whether an artifact was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// It was.
    Found,
    /// It is being made.
    Made,
}

/// The hosts of an inventory.
pub(crate) fn hosts(inventory: Inventory) -> Vec<v1::HostInfo> {
    let storage: Vec<_> = inventory.datastores;
    let of_host = |host: &str| -> u64 {
        let has = storage
            .iter()
            .filter(|d| d.hosts.is_empty() || d.hosts.iter().any(|h| h == host));
        has.map(|d| d.capacity_bytes).sum()
    };
    let hosts = inventory.hosts.into_iter();
    hosts
        .map(|host| v1::HostInfo {
            allocatable_storage: signed(of_host(&host.name)),
            ..host.into()
        })
        .collect()
}

impl From<Host> for v1::HostInfo {
    fn from(host: Host) -> Self {
        let health = match host.health {
            HostHealth::Ready | HostHealth::Cordoned => v1::HostHealth::Ready,
            HostHealth::Down => v1::HostHealth::NotReady,
        };
        Self {
            id: host.name,
            allocatable_cpu: i32::try_from(host.cpus).unwrap_or(i32::MAX),
            allocatable_mem_mib: signed(host.memory_mib),
            health: health.into(),
            labels: host.labels,
            ..Self::default()
        }
    }
}

impl From<v1::HostInfo> for Host {
    fn from(info: v1::HostInfo) -> Self {
        let health = match info.health() {
            v1::HostHealth::Ready => HostHealth::Ready,
            v1::HostHealth::NotReady | v1::HostHealth::Unspecified => HostHealth::Down,
        };
        Self {
            name: info.id,
            labels: info.labels,
            cpus: u32::try_from(info.allocatable_cpu).unwrap_or_default(),
            memory_mib: u64::try_from(info.allocatable_mem_mib).unwrap_or_default(),
            health,
            ..Self::default()
        }
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
