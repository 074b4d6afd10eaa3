//! The calls by their names. Each says what is asked; what to make of the answer is others' business.

use std::collections::BTreeMap;

use polyvirt_provider_kit::uuid::Uuid;

use super::connection::Connection;
use super::error::{RpcError, code};
use super::procedure::{self as p, Procedure};
use super::stream::Stream;
use super::types::{Domain, Named, Snapshot, Volume};
use super::xdr::{Decode, Reader, Value, XdrError};

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
    /// Of definitions: hold them against the schema.
    pub(crate) const VALIDATE: u32 = 1;
    /// Of ends: with everything that belongs to the domain.
    pub(crate) const UNDEFINE_ALL: u32 = 1 | 2 | 4 | 16 | 32;
    /// Of shutdowns: by the power button, or by the agent.
    pub(crate) const BY_BUTTON: u32 = 1;
    pub(crate) const BY_AGENT: u32 = 2;
    /// Of snapshots: it is there, and libvirt is only told of it.
    pub(crate) const REDEFINE: u32 = 1;
    /// Of going back: although the machine is another by now.
    pub(crate) const REVERT_FORCE: u32 = 4;
    /// Of growing: the size is in bytes.
    pub(crate) const BYTES: u32 = 1;
    /// Of new volumes: allocate what they say.
    pub(crate) const ALLOCATE: u32 = 1;
    /// Of consoles: whoever has it loses it.
    pub(crate) const TAKE_OVER: u32 = 1;
}

/// What statistics are asked for: the state alone, which costs nothing.
const STATS: u32 = 1;

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

/// A storage pool's room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolInfo {
    pub(crate) running: bool,
    pub(crate) capacity: u64,
    pub(crate) available: u64,
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
}

/// Addresses of a card, by its MAC address.
pub(crate) type Addresses = BTreeMap<String, Vec<String>>;

/// Addresses are asked of the guest's agent.
const BY_AGENT: u32 = 1;

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
        let started: Answer<Domain> = self
            .call(p::DOMAIN_CREATE_WITH_FLAGS, &(domain, 0_u32))
            .await;
        started.map(drop)
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

    /// Addresses by MAC address; loopback is left out.
    pub(crate) async fn addresses(&self, domain: &Domain) -> Answer<Addresses> {
        let arguments = (domain, BY_AGENT, 0_u32);
        let found: Vec<Interface> = self.call(p::DOMAIN_INTERFACE_ADDRESSES, &arguments).await?;
        let mut by_mac = Addresses::new();
        for (_, mac, list) in found {
            let texts = list.into_iter().map(|(_, address, _)| address);
            let usable = texts.filter(|text| is_usable(text));
            by_mac
                .entry(mac.unwrap_or_default().to_ascii_lowercase())
                .or_default()
                .extend(usable);
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

    pub(crate) async fn snapshots(&self, domain: &Domain) -> Answer<Vec<Snapshot>> {
        let arguments = (domain, 1_i32, 0_u32);
        let (list, _): (Vec<Snapshot>, i32) =
            self.call(p::DOMAIN_LIST_ALL_SNAPSHOTS, &arguments).await?;
        Ok(list)
    }

    pub(crate) async fn snapshot_xml(&self, snapshot: &Snapshot) -> Answer<String> {
        let arguments = (snapshot, 0_u32);
        nullable(self.call(p::DOMAIN_SNAPSHOT_GET_XML_DESC, &arguments).await)
    }

    pub(crate) async fn snapshot(&self, domain: &Domain, xml: &str, flags: u32) -> Answer<()> {
        let arguments = (domain, xml, flags);
        let made: Answer<Snapshot> = self.call(p::DOMAIN_SNAPSHOT_CREATE_XML, &arguments).await;
        made.map(drop)
    }

    pub(crate) async fn revert(&self, snapshot: &Snapshot, flags: u32) -> Answer<()> {
        self.call(p::DOMAIN_REVERT_TO_SNAPSHOT, &(snapshot, flags))
            .await
    }

    pub(crate) async fn delete_snapshot(&self, snapshot: &Snapshot) -> Answer<()> {
        self.call(p::DOMAIN_SNAPSHOT_DELETE, &(snapshot, 0_u32))
            .await
    }

    pub(crate) async fn backup(&self, domain: &Domain, xml: &str) -> Answer<()> {
        /// Into files that are there.
        const INTO: u32 = 1;
        let arguments = (domain, xml, None::<String>, INTO);
        self.call(p::DOMAIN_BACKUP_BEGIN, &arguments).await
    }

    /// What kind of job the domain has; 0 for none.
    pub(crate) async fn job(&self, domain: &Domain, flags: u32) -> Answer<(i32, DomainJob)> {
        self.call(p::DOMAIN_GET_JOB_STATS, &(domain, flags)).await
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

    pub(crate) async fn pool(&self, name: &str) -> Answer<Named> {
        self.call(p::STORAGE_POOL_LOOKUP_BY_NAME, &name).await
    }

    pub(crate) async fn pool_info(&self, pool: &Named) -> Answer<PoolInfo> {
        let (state, capacity, _, available): (i32, u64, u64, u64) =
            self.call(p::STORAGE_POOL_GET_INFO, pool).await?;
        Ok(PoolInfo {
            running: state == 2,
            capacity,
            available,
        })
    }

    pub(crate) async fn pool_xml(&self, pool: &Named) -> Answer<String> {
        let arguments = (pool, 0_u32);
        nullable(self.call(p::STORAGE_POOL_GET_XML_DESC, &arguments).await)
    }

    pub(crate) async fn refresh(&self, pool: &Named) -> Answer<()> {
        self.call(p::STORAGE_POOL_REFRESH, &(pool, 0_u32)).await
    }

    pub(crate) async fn volumes(&self, pool: &Named) -> Answer<Vec<Volume>> {
        let arguments = (pool, 1_i32, 0_u32);
        let (list, _): (Vec<Volume>, u32) = self
            .call(p::STORAGE_POOL_LIST_ALL_VOLUMES, &arguments)
            .await?;
        Ok(list)
    }

    pub(crate) async fn volume(&self, pool: &Named, name: &str) -> Answer<Option<Volume>> {
        let arguments = (pool, name);
        absent(self.call(p::STORAGE_VOL_LOOKUP_BY_NAME, &arguments).await)
    }

    pub(crate) async fn volume_at(&self, path: &str) -> Answer<Option<Volume>> {
        absent(self.call(p::STORAGE_VOL_LOOKUP_BY_PATH, &path).await)
    }

    pub(crate) async fn volume_xml(&self, volume: &Volume) -> Answer<String> {
        let arguments = (volume, 0_u32);
        nullable(self.call(p::STORAGE_VOL_GET_XML_DESC, &arguments).await)
    }

    pub(crate) async fn create_volume(
        &self,
        pool: &Named,
        xml: &str,
        flags: u32,
    ) -> Answer<Volume> {
        self.call(p::STORAGE_VOL_CREATE_XML, &(pool, xml, flags))
            .await
    }

    pub(crate) async fn copy_volume(
        &self,
        pool: &Named,
        xml: &str,
        from: &Volume,
    ) -> Answer<Volume> {
        let arguments = (pool, xml, from, 0_u32);
        self.call(p::STORAGE_VOL_CREATE_XML_FROM, &arguments).await
    }

    /// One that is gone already is a success.
    pub(crate) async fn delete_volume(&self, volume: &Volume) -> Answer<()> {
        let deleted = self.call(p::STORAGE_VOL_DELETE, &(volume, 0_u32)).await;
        match deleted {
            Err(error) if error.is(code::NO_STORAGE_VOL) => Ok(()),
            other => other,
        }
    }

    pub(crate) async fn resize_volume(&self, volume: &Volume, bytes: u64) -> Answer<()> {
        self.call(p::STORAGE_VOL_RESIZE, &(volume, bytes, 0_u32))
            .await
    }

    /// Opens a volume for bytes from its beginning on.
    pub(crate) async fn upload(&self, volume: &Volume, bytes: u64) -> Answer<Stream> {
        let arguments = (volume, 0_u64, bytes, 0_u32);
        Stream::open(self, p::STORAGE_VOL_UPLOAD, &arguments).await
    }
}

impl Connection {
    /// Opens a volume to be read from its beginning to its end. Only for what is small: a reader that is slow loses it.
    pub(crate) async fn download(&self, volume: &Volume) -> Answer<Stream> {
        let arguments = (volume, 0_u64, 0_u64, 0_u32);
        Stream::open(self, p::STORAGE_VOL_DOWNLOAD, &arguments).await
    }
}

/// What is told of a job. Only its end is of interest.
#[derive(Clone, Debug)]
pub(crate) struct DomainJob(BTreeMap<String, Value>);

impl Decode for DomainJob {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        let values = Vec::<(String, Value)>::decode(from)?;
        Ok(Self(values.into_iter().collect()))
    }
}

impl DomainJob {
    /// Whether a job that is over ended well; `None` if it was not told.
    pub(crate) fn succeeded(&self) -> Option<bool> {
        match self.0.get("success")? {
            Value::Number(number) => Some(*number != 0),
            _ => None,
        }
    }

    /// Why it failed.
    pub(crate) fn why(&self) -> String {
        match self.0.get("errmsg") {
            Some(Value::Text(text)) => text.clone(),
            _ => "no reason was given".to_owned(),
        }
    }
}

fn absent<T>(answer: Answer<T>) -> Answer<Option<T>> {
    match answer {
        Err(error) if error.is_absence() => Ok(None),
        other => other.map(Some),
    }
}

/// Loopback and link-local addresses tell nobody where the guest is.
fn is_usable(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok_and(|address| {
        let local = match address {
            std::net::IpAddr::V4(v4) => v4.is_link_local(),
            std::net::IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        !local && !address.is_loopback()
    })
}
