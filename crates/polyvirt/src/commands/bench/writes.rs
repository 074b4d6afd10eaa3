//! What the manager wrote, as the API server has it in its audit log.

use std::collections::BTreeMap;
use std::path::PathBuf;

use polyvirt_pki::MANAGER_NAME;
use polyvirt_testkit::audit::{self, Entry};

/// The audit log.
pub struct Ledger {
    log: PathBuf,
}

/// A place in the log.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

/// Writes of the manager, by resource and verb.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writes(BTreeMap<(String, String), usize>);

impl Ledger {
    pub const fn new(log: PathBuf) -> Self {
        Self { log }
    }

    /// The end of the log.
    pub fn mark(&self) -> anyhow::Result<Mark> {
        Ok(Mark(audit::read(&self.log)?.len()))
    }

    /// What the manager wrote since.
    pub fn since(&self, mark: Mark) -> anyhow::Result<Writes> {
        Ok(count(
            audit::read(&self.log)?.get(mark.0..).unwrap_or_default(),
        ))
    }
}

fn is_of_the_manager(agent: &str) -> bool {
    let version = agent.strip_prefix(MANAGER_NAME);
    version.is_some_and(|version| version.starts_with('/'))
}

fn count(entries: &[Entry]) -> Writes {
    let ours = entries
        .iter()
        .filter(|entry| is_of_the_manager(&entry.user_agent));
    let mut writes = Writes::default();
    for (key, number) in audit::count_writes(ours) {
        *writes.0.entry((key.resource, key.verb)).or_default() += number;
    }
    writes
}

impl Writes {
    /// Everything.
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// Of VirtualMachines, with their subresources.
    pub fn vms(&self) -> usize {
        self.sum(|resource| resource.split('/').next() == Some("virtualmachines"))
    }

    /// Of Events.
    pub fn events(&self) -> usize {
        self.sum(|resource| resource == "events")
    }

    /// Of all else.
    pub fn others(&self) -> usize {
        self.total() - self.vms() - self.events()
    }

    /// Of one resource.
    pub fn of(&self, resource: &str) -> usize {
        self.sum(|name| name == resource)
    }

    fn sum(&self, wanted: impl Fn(&str) -> bool) -> usize {
        self.0
            .iter()
            .filter(|((resource, _), _)| wanted(resource))
            .map(|(_, number)| number)
            .sum()
    }

    /// All of them, for people.
    pub fn list(&self) -> String {
        let words: Vec<_> = self
            .0
            .iter()
            .map(|((resource, verb), number)| format!("{number} {verb} {resource}"))
            .collect();
        if words.is_empty() {
            "none".to_owned()
        } else {
            words.join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(agent: &str, verb: &str, resource: &str) -> Entry {
        Entry {
            verb: verb.into(),
            user: "admin".into(),
            group: String::new(),
            user_agent: agent.into(),
            resource: resource.into(),
            namespace: "n".into(),
            name: "a".into(),
            code: 200,
        }
    }

    #[test]
    fn only_writes_of_the_manager_count() {
        let log = [
            entry("polyvirt-manager/1", "patch", "virtualmachines/status"),
            entry("polyvirt-manager/1", "patch", "virtualmachines"),
            entry("polyvirt-manager/1", "create", "events"),
            entry("polyvirt-manager/1", "patch", "vmclasses/status"),
            entry("polyvirt-manager/1", "watch", "virtualmachines"),
            entry("polyvirt-bench/1", "patch", "virtualmachines"),
        ];
        let writes = count(&log);
        assert_eq!(
            (
                writes.total(),
                writes.vms(),
                writes.events(),
                writes.others()
            ),
            (4, 2, 1, 1)
        );
        assert!(writes.list().contains("1 create events"));
    }
}
