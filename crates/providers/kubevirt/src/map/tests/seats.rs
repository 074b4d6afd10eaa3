//! Which node a VM goes to, how firmly, and what becomes of that when it is changed or moved.

use kube::core::DynamicObject;
use polyvirt_api::kubevirt::KubevirtOptions;
use polyvirt_contract::model::{Chosen, CreateVm, HostDemand, HostTerm, Placement};
use serde_json::{Value, json};

use super::{built, request, with};
use crate::kinds::{HOSTNAME, PLACED};
use crate::map::seat::{Seat, bound_to, freed};
use crate::map::to_kubevirt::Hot;

const NODES: &str = "/spec/template/spec/affinity/nodeAffinity";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn at(host: &str, chosen: Option<Chosen>) -> Placement {
    Placement {
        host: host.to_owned(),
        chosen,
        ..Placement::default()
    }
}

fn ssd() -> Chosen {
    let labels = vec![HostDemand {
        key: "disk".to_owned(),
        operator: "In".to_owned(),
        values: vec!["ssd".to_owned()],
    }];
    Chosen {
        terms: vec![HostTerm {
            labels,
            ..HostTerm::default()
        }],
    }
}

fn name(host: &str) -> Value {
    json!([{"key": "metadata.name", "operator": "In", "values": [host]}])
}

fn of_disk() -> Value {
    json!([{"key": "disk", "operator": "In", "values": ["ssd"]}])
}

#[test]
fn a_node_that_was_chosen_is_preferred_and_what_it_was_chosen_by_required() {
    let vm = with(|request, _| request.placement = Some(at("node-7", Some(ssd()))));
    let preferred = json!([{"weight": 100, "preference": {"matchFields": name("node-7")}}]);
    let required = json!({"nodeSelectorTerms": [{"matchExpressions": of_disk()}]});
    let expected = json!({PREFERRED: preferred, REQUIRED: required});
    assert_eq!(vm.pointer(NODES), Some(&expected));
    assert_eq!(bound_to(&vm["spec"]["template"]["spec"]), None);
}

#[test]
fn a_node_that_was_named_is_required_beside_what_the_options_wish() {
    let wish = json!({"nodeAffinity": {
        REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": of_disk()}, {"matchFields": name("x")}]},
    }});
    let vm = with(|request, options| {
        request.placement = Some(at("node-7", None));
        options.affinity = Some(wish);
    });
    let both = [
        json!({"matchExpressions": of_disk(), "matchFields": name("node-7")}),
        json!({"matchFields": [name("x")[0], name("node-7")[0]]}),
    ];
    let expected = json!({REQUIRED: {"nodeSelectorTerms": both}});
    assert_eq!(vm.pointer(NODES), Some(&expected));
}

#[test]
fn a_machine_is_bound_by_its_selector_or_by_a_name_in_every_term() {
    let required = |terms: Value| json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}});
    let one = json!({"matchFields": name("a"), "matchExpressions": of_disk()});
    for (spec, bound, left) in [
        (json!({}), None, json!({})),
        (
            json!({"nodeSelector": {HOSTNAME: "a", "x": "y"}}),
            Some("a"),
            json!({}),
        ),
        (
            required(json!([one, {"matchFields": name("a")}])),
            Some("a"),
            json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": of_disk()}]}}}),
        ),
        (
            required(json!([{"matchFields": name("a")}])),
            Some("a"),
            json!({"nodeAffinity": {}}),
        ),
        (
            required(json!([{"matchFields": name("a")}, {"matchFields": name("b")}])),
            None,
            json!({"nodeAffinity": {}}),
        ),
    ] {
        assert_eq!(bound_to(&spec), bound, "{spec}");
        let (selector, affinity) = freed(&spec);
        assert_eq!(selector.get(HOSTNAME), None, "{spec}");
        assert_eq!(affinity, left, "{spec}");
    }
}

/// A VM as an older version left it, or with what is written down.
fn live(selector: Value, placed: Option<&str>) -> DynamicObject {
    let annotations = placed.map_or_else(|| json!({}), |text| json!({PLACED: text}));
    let object = json!({
        "metadata": {"name": "web", "annotations": annotations},
        "spec": {"template": {"spec": {"nodeSelector": selector}}},
    });
    serde_json::from_value(object).expect("an object")
}

fn asks(host: &str) -> CreateVm {
    CreateVm {
        placement: Some(at(host, None)),
        ..request()
    }
}

fn says(seat: &Seat) -> Value {
    seat.text().map_or(Value::Null, |text| {
        serde_json::from_str(&text).expect("JSON")
    })
}

#[test]
fn a_change_leaves_the_node_as_it_is_and_takes_old_pins_off() {
    let pin = || json!({HOSTNAME: "a"});
    let rather = |host: &str| json!({"host": host, "bond": "rather"});
    let only = |host: &str| json!({"host": host, "bond": "only"});
    let left = json!({"host": "", "bond": "rather", "left": "a"});
    for (what, asked, live, becomes) in [
        ("nothing", request(), live(json!({}), None), Value::Null),
        ("an old pin", request(), live(pin(), None), rather("a")),
        (
            "an old pin that is meant",
            asks("a"),
            live(pin(), None),
            only("a"),
        ),
        (
            "chosen",
            request(),
            live(json!({}), Some(&rather("a").to_string())),
            rather("a"),
        ),
        (
            "named",
            asks("a"),
            live(json!({}), Some(&only("a").to_string())),
            only("a"),
        ),
        (
            "named anew",
            asks("b"),
            live(json!({}), Some(&only("a").to_string())),
            only("b"),
        ),
        (
            "moved away",
            asks("a"),
            live(json!({}), Some(&left.to_string())),
            left.clone(),
        ),
        (
            "moved away, named anew",
            asks("b"),
            live(json!({}), Some(&left.to_string())),
            only("b"),
        ),
    ] {
        let seat = Seat::of(&asked, &KubevirtOptions::default(), Some(&live));
        assert_eq!(says(&seat), becomes, "{what}");
    }
    let named = Seat::of(&asks("a"), &KubevirtOptions::default(), None);
    assert_eq!(says(&named.freed()), left);
    let own = KubevirtOptions {
        node_selector: [(HOSTNAME.to_owned(), "a".to_owned())].into(),
        ..KubevirtOptions::default()
    };
    let seat = Seat::of(&request(), &own, Some(&live(pin(), None)));
    assert_eq!(
        says(&seat),
        Value::Null,
        "the selector of the options stays theirs"
    );
}

/// A request without devices keeps those that the VM was placed for, and lets go of those that the options took back.
#[test]
fn a_change_keeps_what_the_vm_was_placed_for() {
    let gpu = |name: &str| json!({"name": name, "deviceName": "nvidia.com/A100"});
    let live = json!({"spec": {"template": {"spec": {"domain": {"devices": {
        "gpus": [gpu("mine"), gpu("device0"), gpu("devices")],
    }}}}}});
    let kept = |request: &CreateVm| {
        let options = KubevirtOptions::default();
        let vm = built(request, &options, Some(&live), Hot::Stopped);
        vm["spec"]["template"]["spec"]["domain"]["devices"]["gpus"].clone()
    };
    assert_eq!(kept(&request()), json!([gpu("device0")]));
    let mut says = request();
    says.placement = Some(Placement {
        devices: [("amd.com/mi300".to_owned(), 1)].into(),
        ..Placement::default()
    });
    let said = json!([{"name": "device0", "deviceName": "amd.com/mi300"}]);
    assert_eq!(kept(&says), said);
}
