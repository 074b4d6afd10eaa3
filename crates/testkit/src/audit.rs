//! The audit log of the API server: who asked for what, one entry a request.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;

use crate::error::{Doing, Error};

/// Metadata of every request, once it is answered.
pub(crate) const POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1",
  "kind": "Policy",
  "omitStages": ["RequestReceived"],
  "rules": [{"level": "Metadata"}]
}
"#;

/// One request and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// `get`, `create`, `patch`, …
    pub verb: String,
    /// Who the server took the caller for.
    pub user: String,
    /// What the caller called itself, empty if it did not.
    pub user_agent: String,
    /// The API group of the object, empty for the core.
    pub group: String,
    /// The plural, with its subresource if one was asked: `virtualmachines/status`. Empty for paths
    /// that are no resource, such as `/readyz`.
    pub resource: String,
    /// The namespace of the object, empty if it has none.
    pub namespace: String,
    /// The name of the object, empty for lists and creates of generated names.
    pub name: String,
    /// The HTTP status of the answer.
    pub code: u16,
}

impl Entry {
    /// True if the request asked to change an object, whether or not it was granted.
    pub fn is_write(&self) -> bool {
        let writes = ["create", "update", "patch", "delete", "deletecollection"];
        !self.resource.is_empty() && writes.contains(&self.verb.as_str())
    }
}

/// What requests are counted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// As in [`Entry::user_agent`].
    pub user_agent: String,
    /// As in [`Entry::resource`].
    pub resource: String,
    /// As in [`Entry::verb`].
    pub verb: String,
}

/// Reads the answered requests from an audit log that may still be written to.
pub fn read(log: &Path) -> Result<Vec<Entry>, Error> {
    let file = File::open(log).doing("read", log)?;
    let mut reader = BufReader::new(file);
    let (mut entries, mut line) = (Vec::new(), String::new());
    loop {
        line.clear();
        reader.read_line(&mut line).doing("read", log)?;
        // The end, or a line that is being written.
        if !line.ends_with('\n') {
            return Ok(entries);
        }
        entries.extend(parse(&line).map_err(|source| damaged(log, source))?);
    }
}

/// Counts the writes by who, what and how.
pub fn count_writes<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> BTreeMap<Key, usize> {
    let mut counts = BTreeMap::new();
    for entry in entries.into_iter().filter(|entry| entry.is_write()) {
        let key = Key {
            user_agent: entry.user_agent.clone(),
            resource: entry.resource.clone(),
            verb: entry.verb.clone(),
        };
        *counts.entry(key).or_default() += 1;
    }
    counts
}

fn damaged(log: &Path, source: serde_json::Error) -> Error {
    Error::Damaged {
        path: log.to_owned(),
        source,
    }
}

fn parse(line: &str) -> Result<Option<Entry>, serde_json::Error> {
    let event: Event = serde_json::from_str(line)?;
    // A long request, such as a watch, has an event of its start too.
    Ok((event.stage == "ResponseComplete").then(|| event.into()))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    verb: String,
    #[serde(default)]
    user: User,
    impersonated_user: Option<User>,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
}

#[derive(Deserialize, Default)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ObjectRef {
    #[serde(rename = "apiGroup")]
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize, Default)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

impl From<Event> for Entry {
    fn from(event: Event) -> Self {
        let object = event.object_ref;
        let resource = match object.subresource.as_str() {
            "" => object.resource,
            subresource => format!("{}/{subresource}", object.resource),
        };
        Self {
            verb: event.verb,
            user: event.impersonated_user.unwrap_or(event.user).username,
            user_agent: event.user_agent,
            group: object.group,
            resource,
            namespace: object.namespace,
            name: object.name,
            code: event.response_status.code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCH_START: &str =
        r#"{"stage":"ResponseStarted","verb":"watch","user":{"username":"a"}}"#;
    const HEALTH: &str = r#"{"stage":"ResponseComplete","verb":"get","user":{"username":"a"},"responseStatus":{"code":200}}"#;
    const STATUS: &str = r#"{"stage":"ResponseComplete","verb":"patch","user":{"username":"a"},"userAgent":"polyvirt",
        "objectRef":{"resource":"virtualmachines","subresource":"status","namespace":"n","name":"v"},
        "responseStatus":{"code":200}}"#;

    fn log_of(lines: &[&str]) -> tempfile::NamedTempFile {
        let log = tempfile::NamedTempFile::new().unwrap();
        let text: Vec<_> = lines.iter().map(|line| line.replace('\n', "")).collect();
        std::fs::write(log.path(), text.join("\n")).unwrap();
        log
    }

    #[test]
    fn counts_answered_writes_only() {
        let log = log_of(&[WATCH_START, HEALTH, STATUS, STATUS, ""]);
        let entries = read(log.path()).unwrap();
        assert_eq!(entries.len(), 3);
        let writes = count_writes(&entries);
        let key = Key {
            user_agent: "polyvirt".to_owned(),
            resource: "virtualmachines/status".to_owned(),
            verb: "patch".to_owned(),
        };
        assert_eq!(writes, BTreeMap::from([(key, 2)]));
    }

    #[test]
    fn leaves_out_a_line_that_is_being_written() {
        let log = log_of(&[HEALTH, &STATUS[..40]]);
        assert_eq!(read(log.path()).unwrap().len(), 1);
    }

    #[test]
    fn names_a_file_that_is_no_audit_log() {
        let log = log_of(&["plain text", ""]);
        assert!(matches!(read(log.path()), Err(Error::Damaged { .. })));
    }
}
