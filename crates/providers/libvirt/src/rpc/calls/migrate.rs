//! A move in libvirt's own five steps, each asked by us: begin (source), prepare (target), perform (source), finish (target),
//! confirm (source). What one step answers in its cookie the next one is given.

use std::time::Duration;

use super::{Answer, p};
use crate::rpc::connection::Connection;
use crate::rpc::types::Domain;
use crate::rpc::xdr::{Encode, Opaque};

/// As fast as it can, in MiB a second: more, and libvirt could not count it in bytes.
const NO_LIMIT: u64 = i64::MAX as u64 >> 20;

/// What one side of a move tells the other.
pub(crate) type Cookie = Opaque;

/// What a move is asked to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    /// A number of connections, a port.
    Int(&'static str, i32),
    /// A speed.
    Wide(&'static str, u64),
    /// A name, an address, a description. One name may be given several times.
    Text(&'static str, String),
}

impl Parameter {
    /// What it is called.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Int(name, _) | Self::Wide(name, _) | Self::Text(name, _) => name,
        }
    }
}

impl Encode for Parameter {
    fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Self::Int(name, value) => (*name, 1_u32, *value).encode(to),
            Self::Wide(name, value) => (*name, 4_u32, *value).encode(to),
            Self::Text(name, value) => (*name, 7_u32, value).encode(to),
        }
    }
}

/// How a move is to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The guest goes on at the target.
    Carried,
    /// The guest goes on at the source.
    Cancelled,
}

impl Ending {
    const fn number(self) -> i32 {
        match self {
            Self::Carried => 0,
            Self::Cancelled => 1,
        }
    }
}

impl Connection {
    /// Holds the domain for a move. The answer is its description for the target.
    pub(crate) async fn migrate_begin(
        &self,
        domain: &Domain,
        parameters: &[Parameter],
        flags: u32,
    ) -> Answer<(Cookie, String)> {
        let procedure = p::DOMAIN_MIGRATE_BEGIN3_PARAMS;
        let arguments = (domain, parameters.to_vec(), flags);
        self.call(procedure, &arguments).await
    }

    /// Starts a process that waits for the guest. The answer may say where it waits.
    pub(crate) async fn migrate_prepare(
        &self,
        parameters: &[Parameter],
        cookie: &Cookie,
        flags: u32,
    ) -> Answer<(Cookie, Option<String>)> {
        let procedure = p::DOMAIN_MIGRATE_PREPARE3_PARAMS;
        let arguments = (parameters.to_vec(), cookie, flags);
        self.call(procedure, &arguments).await
    }

    /// Sends the guest, and answers when all of it is there.
    pub(crate) async fn migrate_perform(
        &self,
        domain: &Domain,
        parameters: &[Parameter],
        cookie: &Cookie,
        flags: u32,
    ) -> Answer<Cookie> {
        let procedure = p::DOMAIN_MIGRATE_PERFORM3_PARAMS;
        let peer = None::<String>;
        let arguments = (domain, peer, parameters.to_vec(), cookie, flags);
        self.call(procedure, &arguments).await
    }

    /// Lets the guest go on at the target, or removes what was prepared.
    pub(crate) async fn migrate_finish(
        &self,
        parameters: &[Parameter],
        cookie: &Cookie,
        flags: u32,
        ending: Ending,
    ) -> Answer<Cookie> {
        let procedure = p::DOMAIN_MIGRATE_FINISH3_PARAMS;
        let arguments = (parameters.to_vec(), cookie, flags, ending.number());
        let answer: (Domain, Cookie) = self.call(procedure, &arguments).await?;
        Ok(answer.1)
    }

    /// Ends the guest at the source, or lets it go on there.
    pub(crate) async fn migrate_confirm(
        &self,
        domain: &Domain,
        parameters: &[Parameter],
        cookie: &Cookie,
        flags: u32,
        ending: Ending,
    ) -> Answer<()> {
        let procedure = p::DOMAIN_MIGRATE_CONFIRM3_PARAMS;
        let arguments = (domain, parameters.to_vec(), cookie, flags, ending.number());
        self.call(procedure, &arguments).await
    }

    /// Stops whatever takes its time with the domain.
    pub(crate) async fn abort_job(&self, domain: &Domain) -> Answer<()> {
        self.call(p::DOMAIN_ABORT_JOB, domain).await
    }

    /// Lets a guest that is being moved go on at the target now, and fetch what is missing.
    pub(crate) async fn start_post_copy(&self, domain: &Domain) -> Answer<()> {
        let procedure = p::DOMAIN_MIGRATE_START_POST_COPY;
        self.call(procedure, &(domain, 0_u32)).await
    }

    /// How long a guest that is being moved may be expected to stand still when it is stopped for the last part.
    pub(crate) async fn set_downtime(&self, domain: &Domain, most: Duration) -> Answer<()> {
        let millis = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        let procedure = p::DOMAIN_MIGRATE_SET_MAX_DOWNTIME;
        self.call(procedure, &(domain, millis, 0_u32)).await
    }

    /// How fast the memory of a domain may be moved, in bytes a second: in whole MiB, as fast as it can if absent. It holds for
    /// the move that is under way, and for all that follow.
    pub(crate) async fn set_speed(&self, domain: &Domain, most: Option<u64>) -> Answer<()> {
        let mib = most.map_or(NO_LIMIT, |bytes| (bytes >> 20).max(1));
        let procedure = p::DOMAIN_MIGRATE_SET_MAX_SPEED;
        self.call(procedure, &(domain, mib, 0_u32)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::xdr::write;

    #[test]
    fn parameters_are_written_with_their_kind() {
        let bytes = write(&Parameter::Int("ab", 3));
        assert_eq!(bytes, b"\0\0\0\x02ab\0\0\0\0\0\x01\0\0\0\x03");
        let bytes = write(&Parameter::Wide("abcd", 1));
        assert_eq!(bytes, b"\0\0\0\x04abcd\0\0\0\x04\0\0\0\0\0\0\0\x01");
        let bytes = write(&Parameter::Text("abcd", "x".to_owned()));
        assert_eq!(bytes, b"\0\0\0\x04abcd\0\0\0\x07\0\0\0\x01x\0\0\0");
    }
}
