//! The pieces of the chart from which its roles are made.

use super::rules::{ALL_ROOMS, rules};
use super::yaml::{self, Given};
use super::{Role, Switch};

const HEAD: &str =
    "{{/* Made from crates/polyvirt/src/rights by make manifests. Change the table there. */}}\n";

/// In the place of names, what the chart knows.
const GIVEN: Given<'_> = Given {
    release: "{{ include \"polyvirt.fullname\" . }}",
    certificates: "{{ . }}",
};

/// Each role, what it is called in the chart, and what it is.
const ROLES: &[(Role, &str, &str)] = &[
    (
        Role::Cluster,
        "clusterRules",
        "What the manager may do with objects of the cluster, wherever it works.",
    ),
    (
        Role::Work,
        "workRules",
        "What it may do with the objects of the namespaces in which it works.",
    ),
    (
        Role::Own,
        "ownRules",
        "What it may do in its own namespace.",
    ),
    (
        Role::CrdUpgrade,
        "crdUpgradeRules",
        "What the job that brings CRDs up to date may do.",
    ),
    (
        Role::Guests,
        "guestRules",
        "Consoles of VMs and commands in their guests.",
    ),
    (
        Role::GuestLogs,
        "guestLogRules",
        "What serial consoles have shown.",
    ),
];

/// `charts/polyvirt/templates/_rules.tpl`.
pub fn definitions() -> String {
    let all = ROLES.iter();
    let all = all.map(|(role, name, what)| definition(*role, name, what));
    format!("{HEAD}{}", all.collect::<String>())
}

fn definition(role: Role, name: &str, what: &str) -> String {
    let always = text(role, Switch::Always);
    let switched: String = [
        Switch::AllNamespaces,
        Switch::LeaderElection,
        Switch::Gateway,
        Switch::Webhooks,
        Switch::Kubevirt,
        Switch::Certificates,
    ]
    .into_iter()
    .filter_map(|switch| block(role, switch))
    .collect();
    format!(
        "\n{{{{/* {what} */}}}}\n{{{{- define \"polyvirt.{name}\" -}}}}\n{always}{switched}{{{{- end -}}}}\n"
    )
}

fn block(role: Role, switch: Switch) -> Option<String> {
    let rules = text(role, switch);
    let condition = condition(switch)?;
    (!rules.is_empty()).then(|| format!("{{{{- {condition} }}}}\n{rules}{{{{- end }}}}\n"))
}

fn text(role: Role, switch: Switch) -> String {
    yaml::rules(&rules(role, switch, ALL_ROOMS), &GIVEN)
}

/// The value of the chart that a switch is.
fn condition(switch: Switch) -> Option<&'static str> {
    match switch {
        Switch::AllNamespaces => Some("if not .Values.scope.namespaces"),
        Switch::LeaderElection => Some("if include \"polyvirt.leaderElection\" ."),
        Switch::Gateway => Some("if .Values.gateway.enabled"),
        Switch::Webhooks => Some("if .Values.webhooks.enabled"),
        Switch::Kubevirt => Some("if .Values.rbac.kubevirt"),
        Switch::Certificates => Some("with include \"polyvirt.givenCertificates\" ."),
        // The chart makes the Secret.
        Switch::Always | Switch::NewAuthority => None,
    }
}
