//! What the manager may do in a cluster: one table, and the roles that are made from it.
//!
//! [`table`] says which room of the code asks the API server for what. The roles of the chart, the plain manifests,
//! `polyvirt rbac` and docs/reference/rights.md are made from it, so none of them grants what no room asks for. That the rooms
//! ask for all of it, and for no more, is seen in the audit log of an API server by `tests/rights`.
//!
//! ```text
//! table ── rules (merged, one role at a time) ─┬─ roles    whole objects: polyvirt rbac, config/rbac, config/webhook
//!                                              ├─ chart    the definitions that the chart's roles include
//!                                              └─ page     docs/reference/rights.md
//! ```

#[cfg(test)]
mod chart;
#[cfg(test)]
mod page;
pub mod roles;
mod rules;
mod table;
#[cfg(test)]
mod tests;
mod yaml;

/// A part of the code, and what it asks the API server for.
pub struct Room {
    /// Folder or file, below `crates/`.
    path: &'static str,
    /// What for.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "told by docs/reference/rights.md")
    )]
    why: &'static str,
    rights: &'static [Right],
}

/// Verbs on resources of one group, by one role.
pub struct Right {
    role: Role,
    switch: Switch,
    group: &'static str,
    resources: &'static [&'static str],
    names: Names,
    verbs: &'static [Verb],
}

/// The role that grants a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The manager's, with objects that belong to no namespace.
    Cluster,
    /// The manager's, in each namespace in which it works; in all of them, if it is told none.
    Work,
    /// The manager's, in its own namespace.
    Own,
    /// That of the job that brings CRDs up to date.
    CrdUpgrade,
    /// That of people who may get into guests.
    Guests,
    /// That of people who may read what serial consoles have shown.
    GuestLogs,
}

/// What a right is granted with; without it nobody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// Always granted
    #[value(skip)]
    Always,
    /// A manager that is told no namespaces works in all
    #[value(skip)]
    AllNamespaces,
    /// Several managers, of which one works
    LeaderElection,
    /// Consoles of VMs and commands in guests
    Gateway,
    /// Admission webhooks
    Webhooks,
    /// VMs in the KubeVirt of this very cluster
    Kubevirt,
    /// Certificates that somebody else keeps
    #[value(skip)]
    Certificates,
    /// Nobody has made the Secret of the authority; the chart does
    #[value(skip)]
    NewAuthority,
}

/// Which objects of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// All of them.
    All,
    /// These.
    These(&'static [&'static str]),
    /// The one with the name of the release.
    Release,
    /// The Secrets with certificates that somebody else keeps.
    Certificates,
}

/// What is done with an object, in the order in which roles are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
}

impl Verb {
    /// As a role says it.
    const fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

impl Right {
    const fn new(
        role: Role,
        group: &'static str,
        resources: &'static [&'static str],
        verbs: &'static [Verb],
    ) -> Self {
        Self {
            role,
            switch: Switch::Always,
            group,
            resources,
            names: Names::All,
            verbs,
        }
    }

    const fn with(mut self, switch: Switch) -> Self {
        self.switch = switch;
        self
    }

    const fn only(mut self, names: Names) -> Self {
        self.names = names;
        self
    }
}
