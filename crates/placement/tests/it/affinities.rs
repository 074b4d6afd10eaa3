//! Affinities as people write them for Kubernetes.

use k8s_openapi::api::core::v1::Affinity;
use polyvirt_contract::model::Inventory;
use polyvirt_placement::affinity::{kept_away, lower};
use polyvirt_placement::{
    InvalidAffinity, Namespaces, Placed, Reason, Request, Subject, Topology, World, explain,
};
use serde_json::{Value, json};

use crate::support::{ask, fitting, host, inventory, labels, placed, reason, request, site};

fn read(affinity: Value) -> Affinity {
    serde_json::from_value(affinity).expect("an affinity")
}

fn with(affinity: Value, own: &[(&str, &str)]) -> Result<Request, InvalidAffinity> {
    let mut request = request();
    request.labels = labels(own);
    let subject = Subject {
        namespace: "lab",
        labels: &request.labels,
        policy: None,
    };
    let lowered = lower(&read(affinity), &subject)?;
    (request.rules, request.wishes) = (lowered.rules, lowered.wishes);
    Ok(request)
}

fn hosts() -> Inventory {
    inventory(vec![
        host("a", "z1", &[("disk", "ssd"), ("gen", "3")]),
        host("b", "z1", &[("disk", "hdd"), ("gen", "5")]),
        host("c", "z2", &[]),
    ])
}

#[test]
fn required_node_affinity_with_every_operator() {
    let table = [
        (
            json!({"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}),
            vec!["a"],
        ),
        (
            json!({"key": "disk", "operator": "NotIn", "values": ["ssd"]}),
            vec!["b", "c"],
        ),
        (json!({"key": "disk", "operator": "Exists"}), vec!["a", "b"]),
        (
            json!({"key": "disk", "operator": "DoesNotExist"}),
            vec!["c"],
        ),
        (
            json!({"key": "gen", "operator": "Gt", "values": ["3"]}),
            vec!["b"],
        ),
        (
            json!({"key": "gen", "operator": "Lt", "values": ["5"]}),
            vec!["a"],
        ),
        (
            json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z2"]}),
            vec!["c"],
        ),
        (
            json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}),
            vec!["b"],
        ),
    ];
    for (expression, expected) in table {
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [expression]}]}}});
        let request = with(affinity, &[]).expect("valid");
        assert_eq!(fitting(&request, &hosts(), &[]), expected, "{expression}");
    }
}

#[test]
fn terms_are_alternatives_and_an_empty_one_matches_nothing() {
    let terms = |terms: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
    let either = terms(json!([
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["c"]}]},
    ]));
    let request = with(either, &[]).expect("valid");
    assert_eq!(fitting(&request, &hosts(), &[]), ["a", "c"]);
    let request = with(terms(json!([{}])), &[]).expect("valid");
    assert_eq!(reason(&request, &hosts(), &[], "a"), Reason::AffinityNotMet);
}

#[test]
fn a_preference_wins_over_room_and_is_no_must() {
    let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 50, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["hdd"]}]}},
        {"weight": 10, "preference": {"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}},
    ]}});
    let request = with(affinity, &[]).expect("valid");
    let mut all = hosts();
    all.hosts[1].memory_used_mib = 2048;
    assert_eq!(ask(&request, &all, &[]).expect("a host").host, "b");
    all.hosts[1].memory_used_mib = 4096;
    assert_eq!(ask(&request, &all, &[]).expect("a host").host, "c");
}

fn web_near(kind: &str, key: &str) -> Value {
    json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}]}})
}

#[test]
fn vms_are_near_or_away_by_host_and_by_zone() {
    let web = labels(&[("app", "web")]);
    let vms = [placed("web-1", "a", &web)];
    let table = [
        ("podAffinity", "kubernetes.io/hostname", vec!["a"]),
        ("podAffinity", "topology.kubernetes.io/zone", vec!["a", "b"]),
        ("podAffinity", "rack", vec![]),
        ("podAntiAffinity", "kubernetes.io/hostname", vec!["b", "c"]),
        ("podAntiAffinity", "topology.kubernetes.io/zone", vec!["c"]),
        ("podAntiAffinity", "rack", vec!["a", "b", "c"]),
    ];
    for (kind, key, expected) in table {
        let request = with(web_near(kind, key), &[]).expect("valid");
        assert_eq!(fitting(&request, &hosts(), &vms), expected, "{kind} {key}");
    }
    let request = with(web_near("podAntiAffinity", "host"), &[]).expect("valid");
    let vm = "lab/web-1".to_owned();
    let topology = Topology::Host;
    assert_eq!(
        reason(&request, &hosts(), &vms, "a"),
        Reason::AntiAffinity { topology, vm }
    );
}

#[test]
fn the_first_of_those_that_are_to_be_together_may_go_anywhere() {
    let together = web_near("podAffinity", "zone");
    let first = with(together.clone(), &[("app", "web")]).expect("valid");
    assert_eq!(fitting(&first, &hosts(), &[]).len(), 3);
    let stranger = with(together, &[("app", "db")]).expect("valid");
    assert_eq!(
        reason(&stranger, &hosts(), &[], "c"),
        Reason::NoNeighbour(Topology::Zone)
    );
}

#[test]
fn a_vm_that_is_there_keeps_others_away() {
    let db = labels(&[("app", "db")]);
    let subject = Subject {
        namespace: "lab",
        labels: &db,
        policy: None,
    };
    let keeps_away = kept_away(&read(web_near("podAntiAffinity", "zone")), &subject);
    let vms = [Placed {
        keeps_away,
        ..placed("db-1", "a", &db)
    }];
    let mut web = request();
    web.labels = labels(&[("app", "web")]);
    assert_eq!(fitting(&web, &hosts(), &vms), ["c"]);
    assert_eq!(fitting(&request(), &hosts(), &vms), ["a", "b", "c"]);
}

#[test]
fn namespaces_bound_a_term() {
    let web = labels(&[("app", "web")]);
    let vms = [placed("web-1", "a", &web)];
    let term = |more: Value| {
        let mut term = json!({"topologyKey": "host", "labelSelector": {}});
        term.as_object_mut()
            .expect("a map")
            .extend(more.as_object().expect("a map").clone());
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    };
    let by_name =
        |name| json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}});
    let table = [
        (json!({}), 2),
        (json!({"namespaces": ["other"]}), 3),
        (json!({"namespaces": ["other", "lab"]}), 2),
        (json!({"namespaceSelector": {}}), 2),
        (by_name("lab"), 2),
        (by_name("other"), 3),
        (json!({"labelSelector": null}), 3),
        (json!({"matchLabelKeys": ["app"]}), 3),
        (json!({"mismatchLabelKeys": ["app"]}), 2),
    ];
    for (more, free) in table {
        let request = with(term(more.clone()), &[("app", "db")]).expect("valid");
        assert_eq!(fitting(&request, &hosts(), &vms).len(), free, "{more}");
    }
}

#[test]
fn namespaces_are_known_by_their_labels_from_both_sides() {
    let term = |operator: &str| {
        let selector =
            json!({"matchExpressions": [{"key": "team", "operator": operator, "values": ["red"]}]});
        let term =
            json!({"topologyKey": "host", "labelSelector": {}, "namespaceSelector": selector});
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    };
    let all = Namespaces::from([
        ("lab".to_owned(), labels(&[("team", "red")])),
        ("plain".to_owned(), labels(&[])),
    ]);
    let inventory = hosts();
    let sites = [site(&inventory)];
    let none = labels(&[]);
    let table = [
        ("In", "lab", 2),
        ("In", "plain", 3),
        ("In", "unknown", 3),
        ("NotIn", "lab", 3),
        ("NotIn", "plain", 2),
        ("NotIn", "unknown", 3),
    ];
    for (operator, namespace, free) in table {
        let asks = with(term(operator), &[]).expect("valid");
        assert_eq!(asks.namespace_label(), Some("team"));
        let there = Placed {
            namespace,
            ..placed("x", "a", &none)
        };
        let subject = Subject {
            namespace: "other",
            labels: &none,
            policy: None,
        };
        let guard = Placed {
            keeps_away: kept_away(&read(term(operator)), &subject),
            ..placed("y", "a", &none)
        };
        let mut comes = request();
        comes.namespace = namespace.to_owned();
        for (request, vm) in [(asks, there), (comes, guard)] {
            let world = World {
                sites: &sites,
                vms: &[vm],
                namespaces: &all,
            };
            let verdicts = explain(&request, &world);
            let fit = verdicts.iter().filter(|verdict| verdict.fits()).count();
            assert_eq!(fit, free, "{operator} {namespace}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_told() {
    let node = |term: Value| json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
    let vm = |term: Value| json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let word = |word: &str| InvalidAffinity::Operator(word.to_owned());
    let table = [
        (
            node(json!({"matchExpressions": [{"key": "a", "operator": "Like"}]})),
            word("Like"),
        ),
        (
            node(json!({"matchFields": [{"key": "spec.x", "operator": "Exists"}]})),
            InvalidAffinity::Field("spec.x".to_owned()),
        ),
        (
            vm(
                json!({"topologyKey": "host", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}),
            ),
            word("Gt"),
        ),
        (vm(json!({"topologyKey": ""})), InvalidAffinity::Topology),
    ];
    for (affinity, error) in table {
        assert_eq!(with(affinity, &[]).expect_err("invalid"), error);
    }
}
