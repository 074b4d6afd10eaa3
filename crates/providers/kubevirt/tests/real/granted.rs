//! What the chart grants with `rbac.kubevirt` is what the provider uses: it does all that it can, is refused nothing, and each
//! right is seen to be used.

use std::path::Path;
use std::time::Instant;

use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use polyvirt_api::kubevirt::{Attachment, KubevirtOptions, NetworkOption};
use polyvirt_contract::model::{ConsoleKind, DiskSpec, MigrateVm, NicSpec, PowerOp, PowerState};
use polyvirt_contract::{Provider as _, RequestId};
use polyvirt_provider_kubevirt::{Kubevirt, KubevirtConfig};
use polyvirt_testkit::ControlPlane;
use polyvirt_testkit::audit::{self, Entry};
use serde_json::{Value, json};

use crate::lab::{Lab, PATIENCE, synced, with_options};

const USER: &str = "of-the-chart";

/// Rights that are not always seen here, and who needs them.
const UNSEEN: &[(&str, &str)] = &[
    (
        "cdi.kubevirt.io/datavolumes/source create",
        "CDI asks whether the account has it, when a disk is a copy of one in another namespace",
    ),
    (
        "cdi.kubevirt.io/datasources get",
        "disks that are copies of what a DataSource points to; the tests of sharing see it",
    ),
    (
        "snapshot.storage.k8s.io/volumesnapshots get",
        "disks that are copies of VolumeSnapshots of others, of which the simulator has none",
    ),
    (
        "snapshot.kubevirt.io/virtualmachinerestores watch",
        "who waits for a restore that is not over at the first look",
    ),
    (
        "clone.kubevirt.io/virtualmachineclones watch",
        "who waits for a copy that is not over at the first look",
    ),
    (
        "kubevirt.io/virtualmachineinstancemigrations watch",
        "who waits for a move that is not over at the first look",
    ),
];

/// The rules between the switch of the chart and its end, in both of its lists, and that for Secrets, which has no switch.
fn rules() -> Vec<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let text = root.join("charts/polyvirt/templates/_rules.tpl");
    let text = std::fs::read_to_string(text).expect("the chart");
    let sections = text.split("{{- if .Values.rbac.kubevirt }}").skip(1);
    let yaml: String = sections
        .filter_map(|section| Some(section.split_once("{{- end }}")?.0))
        .collect();
    let mut rules: Vec<Value> = serde_saphyr::from_str(&yaml).expect("rules");
    assert!(rules.len() > 10, "{rules:?}");
    let secrets = ["get", "list", "create", "patch", "delete"];
    rules.push(json!({"apiGroups": [""], "resources": ["secrets"], "verbs": secrets}));
    rules
}

async fn grant(client: &Client) {
    let group = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": USER},
        "rules": rules(),
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": USER},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": USER},
        "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
    });
    for object in [role, binding] {
        let kind = object["kind"].as_str().expect("a kind");
        let kind = GroupVersionKind::gvk(group, "v1", kind);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        let params = PatchParams::apply("test");
        let applied = api.patch(USER, &params, &Patch::Apply(&object)).await;
        applied.expect("granted");
    }
}

/// What the conformance suite does not ask for.
async fn the_rest(lab: &Lab) {
    drop(synced(&lab.provider).await);
    lab.provider.inventory().await.expect("told");
    let attachment = Attachment {
        name: "vlan12".to_owned(),
        config: Some("{}".to_owned()),
        ..Attachment::default()
    };
    let network = NetworkOption {
        attachment: Some(attachment),
        ..NetworkOption::default()
    };
    let options = KubevirtOptions {
        networks: [("lan".to_owned(), network)].into(),
        ..KubevirtOptions::default()
    };
    let mut wish = lab.wish("web");
    wish.networks.push(NicSpec {
        name: "lan".to_owned(),
        ..NicSpec::default()
    });
    let mut wish = with_options(wish, &options);
    let vm = lab.running(wish.clone()).await;
    for disks in [
        vec![DiskSpec {
            name: "data".to_owned(),
            size_gib: 1,
            ..DiskSpec::default()
        }],
        Vec::new(),
    ] {
        wish.disks = disks;
        let changed = lab.provider.reconfigure(&vm, wish.clone()).await;
        lab.done(changed.expect("accepted")).await;
    }
    lab.provider.usage().await.expect("told");
    for kind in [ConsoleKind::Serial, ConsoleKind::Vnc] {
        drop(lab.provider.console(&vm, kind).await.expect("attached"));
    }
    let limited = MigrateVm {
        bandwidth: Some(64 << 20),
        ..MigrateVm::default()
    };
    let moved = lab.provider.migrate(&vm, limited).await;
    lab.done(moved.expect("accepted")).await;
    let second = MigrateVm {
        request: RequestId::non_empty("second"),
        ..MigrateVm::default()
    };
    let request = second.request.clone().expect("a name");
    lab.provider.migrate(&vm, second).await.expect("accepted");
    let stopped = lab.provider.cancel_migration(&vm, &request).await;
    stopped.expect("it had not ended");
    lab.switch(&vm, PowerOp::Off, PowerState::Off).await;
    lab.done(lab.provider.delete(&vm).await.expect("accepted"))
        .await;
}

/// A right in words, and whether a request needed it. An apply of what was not there creates it.
fn unused(entries: &[Entry]) -> Vec<String> {
    let used = |group: &str, resource: &str, verb: &str| {
        entries.iter().any(|entry| {
            let made = entry.verb == "patch" && entry.code == 201 && verb == "create";
            let same = entry.group == group && entry.resource == resource;
            same && (entry.verb == verb || made)
        })
    };
    let words = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(|word| Some(word.as_str()?.to_owned()))
            .collect()
    };
    let mut found = Vec::new();
    for rule in rules() {
        for (group, resource) in words(&rule["apiGroups"]).iter().flat_map(|group| {
            words(&rule["resources"])
                .into_iter()
                .map(move |r| (group, r))
        }) {
            let idle = words(&rule["verbs"]).into_iter();
            let idle = idle.filter(|verb| !used(group, &resource, verb));
            found.extend(idle.map(|verb| format!("{group}/{resource} {verb}")));
        }
    }
    found.retain(|right| !UNSEEN.iter().any(|(unseen, _)| unseen == right));
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chart_grants_what_is_used_and_no_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("audit.log");
    let plane = ControlPlane::builder().audit_log(&log).start().await;
    let plane = plane.expect("a control plane");
    let mut lab = Lab::on(&plane).await;
    grant(&lab.client).await;
    let client = plane.client_as(USER, &["system:authenticated"]);
    let config = KubevirtConfig::from_url("kubevirt://kubeconfig").expect("readable");
    lab.provider = Kubevirt::with_client(client.expect("a client"), &config);
    let profile = crate::conformance::profile();
    let report = polyvirt_conformance::run(lab.provider.clone(), &profile).await;
    assert!(report.conforms(), "{report}");
    the_rest(&lab).await;
    let administrator = crate::lab::provider_on(&plane, "kubevirt://kubeconfig").await;
    drop(std::mem::replace(&mut lab.provider, administrator));
    let ours = || -> Vec<Entry> {
        let all = audit::read(&log).expect("an audit log").into_iter();
        all.filter(|entry| entry.user == USER).collect()
    };
    let refused: Vec<Entry> = ours().into_iter().filter(|e| e.code == 403).collect();
    assert!(refused.is_empty(), "refused: {refused:#?}");
    // A watch is written down when it ends.
    let begin = Instant::now();
    while !unused(&ours()).is_empty() && begin.elapsed() < PATIENCE {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    let unused = unused(&ours());
    assert!(unused.is_empty(), "granted, but never used: {unused:#?}");
}
