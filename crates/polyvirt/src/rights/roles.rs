//! Whole roles and their bindings, as objects of a cluster.

use std::fmt::Write as _;

use super::rules::{ALL_ROOMS, Meant, rules};
use super::yaml::{self, Given};
use super::{Role, Switch};

/// For whom.
pub struct Manager {
    /// The name of its release, before the names of all its objects.
    pub release: String,
    /// Where it runs.
    pub namespace: String,
    /// As whom.
    pub account: String,
    /// Where it works; nothing is everywhere.
    pub works_in: Vec<String>,
    /// What is switched on.
    pub switches: Vec<Switch>,
    /// Secrets with certificates that somebody else keeps, in its namespace.
    pub certificates: Vec<String>,
}

/// What an object is called, and where it is.
struct Named<'a> {
    kind: &'a str,
    name: &'a str,
    namespace: Option<&'a str>,
}

impl Named<'_> {
    fn head(&self, kind: &str) -> String {
        let Self {
            name, namespace, ..
        } = self;
        let mut text = format!(
            "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n"
        );
        if let Some(namespace) = namespace {
            let _ = writeln!(text, "  namespace: {namespace}");
        }
        text
    }
}

impl Manager {
    /// All that it needs, as YAML documents.
    pub fn roles(&self) -> String {
        let name = format!("{}-manager", self.release);
        let mut everywhere = self.rules(Role::Cluster, ALL_ROOMS);
        if self.works_in.is_empty() {
            everywhere += &self.rules(Role::Work, ALL_ROOMS);
        }
        let mut text = self.granted(&cluster(&name), &everywhere);
        let own = self.rules(Role::Own, ALL_ROOMS);
        text += &self.granted(&role(&name, &self.namespace), &own);
        let work = self.rules(Role::Work, ALL_ROOMS);
        for namespace in &self.works_in {
            text += &self.granted(&role(&format!("{name}-work"), namespace), &work);
        }
        text + &self.front_proxy(&name)
    }

    /// What those rooms alone need in its own namespace and in the cluster, by a name of their own.
    #[cfg(test)]
    pub fn roles_of(&self, name: &str, rooms: Meant) -> String {
        let own = self.rules(Role::Own, rooms);
        let everywhere = self.rules(Role::Cluster, rooms);
        self.granted(&role(name, &self.namespace), &own)
            + &self.granted(&cluster(name), &everywhere)
    }

    fn rules(&self, role: Role, rooms: Meant) -> String {
        let certificates = self.certificates.join(", ");
        let given = Given {
            release: &self.release,
            certificates: &certificates,
        };
        let switches = [Switch::Always].into_iter().chain(self.on());
        switches
            .map(|switch| yaml::rules(&rules(role, switch, rooms), &given))
            .collect()
    }

    /// In the order of the chart.
    fn on(&self) -> impl Iterator<Item = Switch> + use<'_> {
        let all = self.works_in.is_empty().then_some(Switch::AllNamespaces);
        let given = (!self.certificates.is_empty()).then_some(Switch::Certificates);
        let switches = self.switches.iter().copied();
        all.into_iter().chain(switches).chain(given)
    }

    fn granted(&self, role: &Named<'_>, rules: &str) -> String {
        let rules = yaml::indented(rules, 2);
        let bound = self.bound(role, role.kind, role.name);
        format!("{}rules:\n{rules}{bound}", role.head(role.kind))
    }

    fn bound(&self, named: &Named<'_>, kind: &str, role: &str) -> String {
        let (account, namespace) = (&self.account, &self.namespace);
        let head = named.head(&format!("{}Binding", named.kind));
        format!(
            "{head}roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {kind}\n  name: {role}\n\
             subjects:\n  - kind: ServiceAccount\n    name: {account}\n    namespace: {namespace}\n"
        )
    }

    /// How the API server proves who it is, to those who stand behind it: a role of every cluster.
    fn front_proxy(&self, name: &str) -> String {
        if !self.switches.contains(&Switch::Gateway) {
            return String::new();
        }
        let name = format!("{name}-front-proxy");
        let here = role(&name, "kube-system");
        self.bound(&here, "Role", "extension-apiserver-authentication-reader")
    }
}

fn cluster(name: &str) -> Named<'_> {
    Named {
        kind: "ClusterRole",
        name,
        namespace: None,
    }
}

fn role<'a>(name: &'a str, namespace: &'a str) -> Named<'a> {
    Named {
        kind: "Role",
        name,
        namespace: Some(namespace),
    }
}
