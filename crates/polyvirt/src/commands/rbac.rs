//! `polyvirt rbac`.

use crate::cli::Rbac;
use crate::rights::Switch;
use crate::rights::roles::Manager;

/// What the chart switches on when it is told nothing.
const DEFAULTS: [Switch; 3] = [Switch::LeaderElection, Switch::Gateway, Switch::Webhooks];
/// In this order the chart adds them.
const ORDER: [Switch; 4] = [
    Switch::LeaderElection,
    Switch::Gateway,
    Switch::Webhooks,
    Switch::Kubevirt,
];

/// Prints the roles of a manager, and the bindings to its account.
pub fn run(options: Rbac) -> anyhow::Result<()> {
    super::crds::print(&manager(options).roles())
}

fn manager(options: Rbac) -> Manager {
    Manager {
        switches: switches(&options),
        account: options
            .service_account
            .unwrap_or_else(|| format!("{}-manager", options.release)),
        release: options.release,
        namespace: options.own_namespace,
        works_in: options.namespaces,
        certificates: options.certificates,
    }
}

fn switches(options: &Rbac) -> Vec<Switch> {
    let is_on = |switch: &Switch| {
        let asked = DEFAULTS.contains(switch) || options.with.contains(switch);
        asked && !options.without.contains(switch)
    };
    ORDER.into_iter().filter(is_on).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        options: Rbac,
    }

    fn read(line: &str) -> Manager {
        manager(Alone::parse_from(line.split(' ')).options)
    }

    #[test]
    fn told_nothing_they_are_those_of_the_chart() {
        let manager = read("rbac");
        assert_eq!(manager.switches, DEFAULTS);
        assert_eq!(manager.account, "polyvirt-manager");
        assert_eq!(manager.namespace, "polyvirt-system");
    }

    #[test]
    fn switches_are_added_and_taken_away() {
        let manager = read("rbac --with kubevirt --without gateway,webhooks --release vms");
        assert_eq!(manager.switches, [Switch::LeaderElection, Switch::Kubevirt]);
        assert_eq!(manager.account, "vms-manager");
    }

    #[test]
    fn one_for_two_namespaces_has_roles_there() {
        let roles = read("rbac --namespaces a,b --certificates tls").roles();
        assert!(roles.contains("name: polyvirt-manager-work\n  namespace: b\n"));
        assert!(roles.contains("resourceNames: [tls]"));
    }
}
