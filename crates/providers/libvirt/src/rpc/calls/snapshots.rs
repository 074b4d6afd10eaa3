//! Snapshots, backups, and the jobs that take their time.

use std::collections::BTreeMap;

use super::{Answer, nullable, p};
use crate::rpc::connection::Connection;
use crate::rpc::error::code;
use crate::rpc::types::{Domain, Snapshot};
use crate::rpc::xdr::{Decode, Reader, Value, XdrError};

/// What is told of a job.
#[derive(Clone, Debug)]
pub(crate) struct DomainJob(BTreeMap<String, Value>);

impl Decode for DomainJob {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        let values = Vec::<(String, Value)>::decode(from)?;
        Ok(Self(values.into_iter().collect()))
    }
}

impl DomainJob {
    /// One that tells these numbers.
    #[cfg(test)]
    pub(crate) fn of(numbers: &[(&str, u64)]) -> Self {
        let numbers = numbers.iter();
        Self(
            numbers
                .map(|(key, number)| ((*key).to_owned(), Value::Number(*number)))
                .collect(),
        )
    }

    /// A number that was told.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        match self.0.get(key)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

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

impl Connection {
    pub(crate) async fn snapshots(&self, domain: &Domain) -> Answer<Vec<Snapshot>> {
        let arguments = (domain, 1_i32, 0_u32);
        let (list, _): (Vec<Snapshot>, i32) =
            self.call(p::DOMAIN_LIST_ALL_SNAPSHOTS, &arguments).await?;
        Ok(list)
    }

    pub(crate) async fn snapshot_xml(&self, snapshot: &Snapshot, flags: u32) -> Answer<String> {
        let arguments = (snapshot, flags);
        nullable(self.call(p::DOMAIN_SNAPSHOT_GET_XML_DESC, &arguments).await)
    }

    /// The snapshot that the domain goes on from.
    pub(crate) async fn current_snapshot(&self, domain: &Domain) -> Answer<Option<Snapshot>> {
        match self
            .call(p::DOMAIN_SNAPSHOT_CURRENT, &(domain, 0_u32))
            .await
        {
            Err(error) if error.is(code::NO_DOMAIN_SNAPSHOT) => Ok(None),
            answer => answer.map(Some),
        }
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
}
