//! docs/reference/rights.md.

use std::fmt::Write as _;

use super::table::rooms;
use super::{Names, Right, Role, Switch};

const HEAD: &str = "# Rights

<!-- Made by make generate. Change crates/polyvirt/src/rights/table. -->

What each part of the code asks the API server for, and by which role it may. The roles of the chart, of `config/default`,
`config/rbac` and `config/webhook`, and what `polyvirt rbac` prints, are made from this table. A test
(`crates/polyvirt/tests/rights`) runs the manager under them and reads the audit log of an API server: it is refused nothing, and
each right is used, in the namespace for which it is granted.

| role | where |
|---|---|
| cluster | objects that belong to no namespace |
| work | the namespaces in which the manager works: all, or those of `scope.namespaces` |
| own | the namespace of the manager |
| CRD upgrade | the job before each installation and upgrade; gone afterwards |
| guests, guest logs | people: whoever is given the role |

| asked by | what for | role | if | resources | verbs |
|---|---|---|---|---|---|
";

/// The page.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for room in rooms() {
        for right in room.rights {
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} | {} | {} |",
                room.path,
                room.why,
                role(right.role),
                switch(right.switch),
                objects(right),
                verbs(right),
            );
        }
    }
    page
}

const fn role(role: Role) -> &'static str {
    match role {
        Role::Cluster => "cluster",
        Role::Work => "work",
        Role::Own => "own",
        Role::CrdUpgrade => "CRD upgrade",
        Role::Guests => "guests",
        Role::GuestLogs => "guest logs",
    }
}

const fn switch(switch: Switch) -> &'static str {
    match switch {
        Switch::Always => "",
        Switch::AllNamespaces => "no `scope.namespaces`",
        Switch::LeaderElection => "`leaderElection.enabled`, or two replicas",
        Switch::Gateway => "`gateway.enabled`",
        Switch::Webhooks => "`webhooks.enabled`",
        Switch::Kubevirt => "`rbac.kubevirt`",
        Switch::Certificates => "`webhooks.certificateSecret`, `gateway.certificateSecret`",
        Switch::NewAuthority => "installed without the chart, which makes the Secret",
    }
}

fn objects(right: &Right) -> String {
    let group = match right.group {
        "" => String::new(),
        group => format!(" of `{group}`"),
    };
    let resources = code(right.resources);
    let named = match right.names {
        Names::All => String::new(),
        Names::These(names) => format!(", only {}", code(names)),
        Names::Release => ", only those of the release".to_owned(),
        Names::Certificates => ", only those".to_owned(),
    };
    format!("{resources}{group}{named}")
}

fn code(words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

fn verbs(right: &Right) -> String {
    let words: Vec<_> = right.verbs.iter().map(|verb| verb.word()).collect();
    words.join(", ")
}
