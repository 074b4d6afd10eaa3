//! Things that libvirt names in its messages.

use polyvirt_provider_kit::uuid::Uuid;

use super::xdr::{Decode, Encode, Reader, XdrError};

/// A domain, as every call about one names it. libvirt looks at the UUID alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domain {
    pub(crate) name: String,
    pub(crate) uuid: Uuid,
    /// Below zero if it does not run.
    pub(crate) id: i32,
}

impl Domain {
    /// The domain of that UUID, of which no more is known.
    pub(crate) const fn of(uuid: Uuid) -> Self {
        Self {
            name: String::new(),
            uuid,
            id: -1,
        }
    }
}

impl Encode for Domain {
    fn encode(&self, to: &mut Vec<u8>) {
        // libvirt refuses an empty name and does not look at the rest of it.
        let name = if self.name.is_empty() {
            "-"
        } else {
            &self.name
        };
        (name, self.uuid, self.id).encode(to);
    }
}

impl Decode for Domain {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        let (name, uuid, id) = Decode::decode(from)?;
        Ok(Self { name, uuid, id })
    }
}

/// A storage pool or a network: both are named in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) uuid: Uuid,
}

impl Encode for Named {
    fn encode(&self, to: &mut Vec<u8>) {
        (&self.name, self.uuid).encode(to);
    }
}

impl Decode for Named {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        let (name, uuid) = Decode::decode(from)?;
        Ok(Self { name, uuid })
    }
}

/// A volume of a storage pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) pool: String,
    pub(crate) name: String,
    /// For files, their path.
    pub(crate) key: String,
}

impl Encode for Volume {
    fn encode(&self, to: &mut Vec<u8>) {
        (&self.pool, &self.name, &self.key).encode(to);
    }
}

impl Decode for Volume {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        let (pool, name, key) = Decode::decode(from)?;
        Ok(Self { pool, name, key })
    }
}

/// A snapshot of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) name: String,
    pub(crate) domain: Domain,
}

impl Encode for Snapshot {
    fn encode(&self, to: &mut Vec<u8>) {
        (&self.name, &self.domain).encode(to);
    }
}

impl Decode for Snapshot {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        let (name, domain) = Decode::decode(from)?;
        Ok(Self { name, domain })
    }
}
