//! The calls by their names. Each says what is asked; what to make of the answer is others' business.

mod migrate;
mod sasl;
mod snapshots;
mod storage;

use std::collections::BTreeMap;

use polyvirt_provider_kit::guest::{self, Addresses};
use polyvirt_provider_kit::uuid::Uuid;

use super::connection::Connection;
use super::error::RpcError;
use super::procedure::{self as p, Procedure};
use super::stream::Stream;
use super::types::{Domain, Named};
use super::xdr::{Decode, Reader, Value, XdrError};

pub(crate) use migrate::{Cookie, Ending, Parameter};
pub(crate) use sasl::Message;
pub(crate) use snapshots::DomainJob;

type Answer<T> = Result<T, RpcError>;

/// Bits that calls take.
pub(crate) mod flags {
    /// Of changes: the machine that runs.
    pub(crate) const LIVE: u32 = 1;
    /// Of changes: the machine as it will start.
    pub(crate) const CONFIG: u32 = 2;
    /// Of descriptions: with secrets.
    pub(crate) const SECURE: u32 = 1;
    /// Of descriptions: the machine as it will start.
    pub(crate) const INACTIVE: u32 = 2;
    /// Of descriptions: as another host would take it.
    pub(crate) const MIGRATABLE: u32 = 8;
    /// Of starts: the guest does not run yet.
    pub(crate) const START_PAUSED: u32 = 1;
    /// Of jobs: the one that ended last.
    pub(crate) const ENDED_JOB: u32 = 1;
    /// Of definitions: hold them against the schema.
    pub(crate) const VALIDATE: u32 = 1;
    /// Of ends: with everything that belongs to the domain.
    pub(crate) const UNDEFINE_ALL: u32 = 1 | 2 | 4 | 16 | 32;
    /// Of shutdowns: by the power button, or by the agent.
    pub(crate) const BY_BUTTON: u32 = 1;
    pub(crate) const BY_AGENT: u32 = 2;
    /// Of snapshots: it is there, and libvirt is only told of it.
    pub(crate) const REDEFINE: u32 = 1;
    /// Of snapshots: the domain goes on from it.
    pub(crate) const CURRENT: u32 = 2;
    /// Of going back: although the machine is another by now.
    pub(crate) const REVERT_FORCE: u32 = 4;
    /// Of growing: the size is in bytes.
    pub(crate) const BYTES: u32 = 1;
    /// Of new volumes: allocate what they say.
    pub(crate) const ALLOCATE: u32 = 1;
    /// Of consoles: whoever has it loses it.
    pub(crate) const TAKE_OVER: u32 = 1;
}

/// What statistics are asked for: the state alone, which costs nothing; processor time and memory.
const STATS: u32 = 1;
const USAGE: u32 = 2 | 4;
const BLOCKS: u32 = 32;
/// What is known without waiting for a domain that is busy.
const AT_ONCE: u32 = 1 << 29;
/// Only domains that run, and of them what is known without waiting for them.
const RUNNING: u32 = 1 | AT_ONCE;

/// The host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeInfo {
    pub(crate) model: String,
    pub(crate) memory_kib: u64,
    pub(crate) cpus: u32,
}

impl Decode for NodeInfo {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        // Each letter has a word of its own.
        let mut model = String::new();
        for _ in 0..32 {
            let letter = u32::decode(from)?;
            model.extend(char::from_u32(letter).filter(|letter| *letter != '\0'));
        }
        let (memory_kib, cpus) = <(u64, i32)>::decode(from)?;
        Ok(Self {
            model,
            memory_kib,
            cpus: u32::try_from(cpus).unwrap_or(0),
        })
    }
}

/// What is counted of a domain.
#[derive(Clone, Debug)]
pub(crate) struct DomainStats {
    pub(crate) domain: Domain,
    values: BTreeMap<String, Value>,
}

impl Decode for DomainStats {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        let (domain, values) = <(Domain, Vec<(String, Value)>)>::decode(from)?;
        Ok(Self {
            domain,
            values: values.into_iter().collect(),
        })
    }
}

impl DomainStats {
    /// A number that was told.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        match self.values.get(key)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// A text that was told.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match self.values.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

type Interface = (String, Option<String>, Vec<(i32, String, u32)>);

fn nullable(result: Answer<(String,)>) -> Answer<String> {
    result.map(|(text,)| text)
}

impl Connection {
    /// Whether the other side can do something by number.
    pub(crate) async fn supports(&self, feature: i32) -> Answer<bool> {
        let (says,): (i32,) = self.call(p::CONNECT_SUPPORTS_FEATURE, &feature).await?;
        Ok(says != 0)
    }

    /// libvirt's version, as one number.
    pub(crate) async fn version(&self) -> Answer<u64> {
        self.call(p::CONNECT_GET_LIB_VERSION, &()).await
    }

    /// The hypervisor's version, as one number.
    pub(crate) async fn hypervisor_version(&self) -> Answer<u64> {
        self.call(p::CONNECT_GET_VERSION, &()).await
    }

    pub(crate) async fn hostname(&self) -> Answer<String> {
        nullable(self.call(p::CONNECT_GET_HOSTNAME, &()).await)
    }

    pub(crate) async fn node(&self) -> Answer<NodeInfo> {
        self.call(p::NODE_GET_INFO, &()).await
    }

    /// What the host can run, as XML.
    pub(crate) async fn capabilities(&self) -> Answer<String> {
        nullable(self.call(p::CONNECT_GET_CAPABILITIES, &()).await)
    }

    pub(crate) async fn register(&self, event: i32) -> Answer<i32> {
        let procedure = p::CONNECT_DOMAIN_EVENT_CALLBACK_REGISTER_ANY;
        self.call(procedure, &(event, None::<Domain>)).await
    }

    pub(crate) async fn domains(&self) -> Answer<Vec<Domain>> {
        let (domains, _): (Vec<Domain>, u32) = self
            .call(p::CONNECT_LIST_ALL_DOMAINS, &(1_i32, 0_u32))
            .await?;
        Ok(domains)
    }

    /// Figures of these domains in one call.
    pub(crate) async fn stats(&self, of: &[Domain]) -> Answer<Vec<DomainStats>> {
        let of: Vec<&Domain> = of.iter().collect();
        self.call(p::CONNECT_GET_ALL_DOMAIN_STATS, &(of, STATS, 0_u32))
            .await
    }

    /// What the running domains use, in one call.
    pub(crate) async fn usage(&self) -> Answer<Vec<DomainStats>> {
        let all: Vec<&Domain> = Vec::new();
        self.call(p::CONNECT_GET_ALL_DOMAIN_STATS, &(all, USAGE, RUNNING))
            .await
    }

    /// The disks of all domains, in one call.
    pub(crate) async fn blocks(&self) -> Answer<Vec<DomainStats>> {
        let all: Vec<&Domain> = Vec::new();
        self.call(p::CONNECT_GET_ALL_DOMAIN_STATS, &(all, BLOCKS, AT_ONCE))
            .await
    }

    pub(crate) async fn by_uuid(&self, uuid: Uuid) -> Answer<Option<Domain>> {
        absent(self.call(p::DOMAIN_LOOKUP_BY_UUID, &uuid).await)
    }

    pub(crate) async fn by_name(&self, name: &str) -> Answer<Option<Domain>> {
        absent(self.call(p::DOMAIN_LOOKUP_BY_NAME, &name).await)
    }

    pub(crate) async fn xml(&self, domain: &Domain, flags: u32) -> Answer<String> {
        nullable(self.call(p::DOMAIN_GET_XML_DESC, &(domain, flags)).await)
    }

    /// State and reason, by number.
    pub(crate) async fn state(&self, domain: &Domain) -> Answer<(i32, i32)> {
        self.call(p::DOMAIN_GET_STATE, &(domain, 0_u32)).await
    }

    pub(crate) async fn define(&self, xml: &str) -> Answer<Domain> {
        let arguments = (xml, flags::VALIDATE);
        self.call(p::DOMAIN_DEFINE_XML_FLAGS, &arguments).await
    }

    pub(crate) async fn start_domain(&self, domain: &Domain) -> Answer<()> {
        self.start_with(domain, 0).await
    }

    pub(crate) async fn start_with(&self, domain: &Domain, flags: u32) -> Answer<()> {
        let started: Answer<Domain> = self
            .call(p::DOMAIN_CREATE_WITH_FLAGS, &(domain, flags))
            .await;
        started.map(drop)
    }

    pub(crate) async fn suspend(&self, domain: &Domain) -> Answer<()> {
        self.call(p::DOMAIN_SUSPEND, domain).await
    }

    pub(crate) async fn resume(&self, domain: &Domain) -> Answer<()> {
        self.call(p::DOMAIN_RESUME, domain).await
    }

    pub(crate) async fn destroy(&self, domain: &Domain) -> Answer<()> {
        self.call(p::DOMAIN_DESTROY_FLAGS, &(domain, 0_u32)).await
    }

    pub(crate) async fn reset(&self, domain: &Domain) -> Answer<()> {
        self.call(p::DOMAIN_RESET, &(domain, 0_u32)).await
    }

    pub(crate) async fn shutdown(&self, domain: &Domain, how: u32) -> Answer<()> {
        self.call(p::DOMAIN_SHUTDOWN_FLAGS, &(domain, how)).await
    }

    pub(crate) async fn undefine(&self, domain: &Domain) -> Answer<()> {
        let arguments = (domain, flags::UNDEFINE_ALL);
        self.call(p::DOMAIN_UNDEFINE_FLAGS, &arguments).await
    }

    /// Puts an element of ours into the domain's metadata.
    pub(crate) async fn set_metadata(
        &self,
        domain: &Domain,
        element: (&str, &str, &str),
        flags: u32,
    ) -> Answer<()> {
        /// An element, not a title or a description.
        const ELEMENT: i32 = 2;
        let (xml, key, uri) = element;
        let arguments = (domain, ELEMENT, Some(xml), Some(key), Some(uri), flags);
        self.call(p::DOMAIN_SET_METADATA, &arguments).await
    }

    pub(crate) async fn attach(&self, domain: &Domain, xml: &str, flags: u32) -> Answer<()> {
        let arguments = (domain, xml, flags);
        self.call(p::DOMAIN_ATTACH_DEVICE_FLAGS, &arguments).await
    }

    pub(crate) async fn detach(&self, domain: &Domain, xml: &str, flags: u32) -> Answer<()> {
        let arguments = (domain, xml, flags);
        self.call(p::DOMAIN_DETACH_DEVICE_FLAGS, &arguments).await
    }

    pub(crate) async fn set_vcpus(&self, domain: &Domain, count: u32, flags: u32) -> Answer<()> {
        let arguments = (domain, count, flags);
        self.call(p::DOMAIN_SET_VCPUS_FLAGS, &arguments).await
    }

    pub(crate) async fn block_resize(&self, domain: &Domain, disk: &str, to: u64) -> Answer<()> {
        let arguments = (domain, disk, to, flags::BYTES);
        self.call(p::DOMAIN_BLOCK_RESIZE, &arguments).await
    }

    /// Addresses that libvirt's own networks gave out, by MAC address.
    pub(crate) async fn leases(&self, domain: &Domain) -> Answer<Addresses> {
        /// Not the agent, and not the host's table of neighbours.
        const BY_LEASE: u32 = 0;
        let arguments = (domain, BY_LEASE, 0_u32);
        let found: Vec<Interface> = self.call(p::DOMAIN_INTERFACE_ADDRESSES, &arguments).await?;
        let mut by_mac = Addresses::new();
        for (_, mac, list) in found {
            let texts = list.iter().map(|(_, address, _)| address.as_str());
            let known = by_mac.entry(mac.unwrap_or_default().to_ascii_lowercase());
            known.or_default().extend(guest::useful(texts));
        }
        Ok(by_mac)
    }

    /// Makes the guest's file systems quiet; how many.
    pub(crate) async fn freeze(&self, domain: &Domain) -> Answer<i32> {
        let all = Vec::<String>::new();
        self.call(p::DOMAIN_FSFREEZE, &(domain, all, 0_u32)).await
    }

    pub(crate) async fn thaw(&self, domain: &Domain) -> Answer<i32> {
        let all = Vec::<String>::new();
        self.call(p::DOMAIN_FSTHAW, &(domain, all, 0_u32)).await
    }

    /// A question for the guest's agent, in its own words.
    pub(crate) async fn agent(&self, domain: &Domain, command: &str, secs: i32) -> Answer<String> {
        let arguments = (domain, command, secs, 0_u32);
        let (answer,): (Option<String>,) = self.call(p::QEMU_AGENT_COMMAND, &arguments).await?;
        Ok(answer.unwrap_or_default())
    }

    /// A question for QEMU, in its own words.
    pub(crate) async fn monitor(&self, domain: &Domain, command: &str) -> Answer<String> {
        let arguments = (domain, command, 0_u32);
        nullable(self.call(p::QEMU_MONITOR_COMMAND, &arguments).await)
    }

    pub(crate) async fn console(&self, domain: &Domain) -> Answer<Stream> {
        let arguments = (domain, None::<String>, flags::TAKE_OVER);
        Stream::open(self, p::DOMAIN_OPEN_CONSOLE, &arguments).await
    }

    pub(crate) async fn pools(&self) -> Answer<Vec<Named>> {
        self.named(p::CONNECT_LIST_ALL_STORAGE_POOLS).await
    }

    pub(crate) async fn networks(&self) -> Answer<Vec<Named>> {
        self.named(p::CONNECT_LIST_ALL_NETWORKS).await
    }

    async fn named(&self, procedure: Procedure) -> Answer<Vec<Named>> {
        let (list, _): (Vec<Named>, u32) = self.call(procedure, &(1_i32, 0_u32)).await?;
        Ok(list)
    }
}

fn absent<T>(answer: Answer<T>) -> Answer<Option<T>> {
    match answer {
        Err(error) if error.is_absence() => Ok(None),
        other => other.map(Some),
    }
}
