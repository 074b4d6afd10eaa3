//! VMPlacementPolicies as people write them.

use polyvirt_api::infra::VMPlacementPolicySpec;
use polyvirt_placement::policy::lower;
use polyvirt_placement::{Placed, Reason, Request, Subject, Topology};
use serde_json::{Value, json};

use crate::support::{ask, fitting, host, inventory, labels, placed, reason, request};

fn spec(policy: Value) -> VMPlacementPolicySpec {
    serde_json::from_value(policy).expect("a policy")
}

fn with(policy: Value) -> Request {
    let mut request = Request {
        labels: labels(&[("app", "web")]),
        policy: Some("spread".to_owned()),
        ..request()
    };
    let subject = Subject {
        namespace: "lab",
        labels: &request.labels,
        policy: Some("spread"),
    };
    let demands = lower("spread", &spec(policy), &subject).expect("valid");
    (request.rules, request.wishes, request.storage) =
        (demands.rules, demands.wishes, demands.storage);
    request
}

fn hosts() -> polyvirt_contract::model::Inventory {
    inventory(vec![
        host(
            "a",
            "z1",
            &[
                ("polyvirt.io/cluster", "prod"),
                ("polyvirt.io/trust-level", "trusted"),
            ],
        ),
        host(
            "b",
            "z1",
            &[("polyvirt.io/cluster", "prod"), ("polyvirt.io/tpm", "true")],
        ),
        host(
            "c",
            "z2",
            &[
                ("polyvirt.io/cluster", "test"),
                ("polyvirt.io/trust-level", "basic"),
            ],
        ),
    ])
}

#[test]
fn hard_rules_shut_hosts_out() {
    let table = [
        (
            json!({"hard": {"clusters": ["prod"], "excludedHosts": ["a"]}}),
            vec!["b"],
        ),
        (json!({"hard": {"zones": ["z2"]}}), vec!["c"]),
        (
            json!({"hard": {"nodeSelector": {"polyvirt.io/tpm": "true"}}}),
            vec!["b"],
        ),
        (json!({"hard": {"networks": ["nowhere"]}}), vec![]),
        (json!({"hard": {"datastores": ["nowhere"]}}), vec![]),
        (json!({"hard": {"excludedClusters": ["prod"]}}), vec!["c"]),
        (
            json!({"securityConstraints": {"requireTPM": true}}),
            vec!["b"],
        ),
        (
            json!({"securityConstraints": {"trustLevel": "basic"}}),
            vec!["a", "c"],
        ),
        (json!({"resourceConstraints": {"minCPUPerHost": 5}}), vec![]),
        (
            json!({"resourceConstraints": {"minMemoryPerHost": "4Gi", "maxCPUUtilization": 25}}),
            vec!["a", "b", "c"],
        ),
        (
            json!({"resourceConstraints": {"maxMemoryUtilization": 24}}),
            vec![],
        ),
        (
            json!({"resourceConstraints": {"minDiskSpacePerHost": "11Gi"}}),
            vec![],
        ),
        (
            json!({"affinity": {"hostAffinity": {"enabled": true, "preferredHosts": ["c"], "scope": "strict"}}}),
            vec!["c"],
        ),
        (
            json!({"affinity": {"zoneAffinity": {"enabled": false, "preferredZones": ["z9"], "scope": "strict"}}}),
            vec!["a", "b", "c"],
        ),
    ];
    for (policy, expected) in table {
        assert_eq!(
            fitting(&with(policy.clone()), &hosts(), &[]),
            expected,
            "{policy}"
        );
    }
}

#[test]
fn soft_rules_attract_only() {
    let table = [
        (json!({"soft": {"zones": ["z2"]}}), "c"),
        (json!({"soft": {"hosts": ["b"]}}), "b"),
        (
            json!({"affinity": {"hostAffinity": {"enabled": true, "preferredHosts": ["c"]}}}),
            "c",
        ),
        (
            json!({"resourceConstraints": {"preferredFeatures": ["polyvirt.io/tpm"]}}),
            "b",
        ),
        (json!({"soft": {"zones": ["z9"]}}), "a"),
    ];
    for (policy, expected) in table {
        let choice = ask(&with(policy.clone()), &hosts(), &[]).expect("a host");
        assert_eq!(choice.host, expected, "{policy}");
    }
}

#[test]
fn those_of_one_policy_are_kept_apart_or_together() {
    let web = labels(&[("app", "web")]);
    let fellow = |name, host| Placed {
        policy: Some("spread"),
        ..placed(name, host, &web)
    };
    let vms = [fellow("web-1", "a"), fellow("web-2", "b")];
    let apart = json!({"antiAffinity": {"hostAntiAffinity": {"enabled": true, "scope": "strict"}}});
    assert_eq!(fitting(&with(apart), &hosts(), &vms), ["c"]);
    let two = json!({"antiAffinity": {"zoneAntiAffinity": {"enabled": true, "maxVMsPerZone": 2, "scope": "strict"}}});
    let crowded = Reason::Crowded {
        topology: Topology::Zone,
        most: 2,
    };
    assert_eq!(reason(&with(two), &hosts(), &vms, "a"), crowded);
    let together = json!({"affinity": {"zoneAffinity": {"enabled": true, "scope": "strict"}}});
    assert_eq!(fitting(&with(together.clone()), &hosts(), &vms), ["a", "b"]);
    assert_eq!(fitting(&with(together), &hosts(), &[]).len(), 3);
    let application =
        json!({"antiAffinity": {"applicationAntiAffinity": {"enabled": true, "scope": "strict"}}});
    assert_eq!(fitting(&with(application), &hosts(), &vms), ["c"]);
    let by_label = json!({"antiAffinity": {"vmAntiAffinity": {"requiredDuringScheduling": [
        {"topologyKey": "zone", "matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}]}}});
    assert_eq!(fitting(&with(by_label), &hosts(), &vms), ["c"]);
}
