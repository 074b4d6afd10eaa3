//! All that a manager can be asked for.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::cluster::{Cluster, sample, until};

const INFRA: &str = "infra.virtrigaud.io/v1beta1";

/// Each kind that the manager looks after, made, changed and deleted.
pub async fn everything(cluster: &Cluster) {
    let plain = sample("mock.yaml");
    apply_all(cluster, &plain).await;
    seen(
        cluster,
        INFRA,
        "VirtualMachine",
        "web",
        "/status/phase",
        "Running",
    )
    .await;
    snapshot(cluster).await;
    novacron(cluster).await;
    placement(cluster).await;
    without_controller(cluster).await;
    hosts(cluster).await;
    remote_provider(cluster).await;
    process(cluster).await;
    machines(cluster).await;
    for object in plain.iter().rev() {
        cluster.delete(object).await;
    }
}

/// It grows old at once, so that the manager deletes it.
async fn snapshot(cluster: &Cluster) {
    let mut snapshot = sample("snapshot.yaml").remove(0);
    snapshot["spec"]["retentionPolicy"] = json!({"maxAge": "1s", "gracePeriod": "0s"});
    cluster.apply(snapshot).await;
    let snapshots = cluster.objects(INFRA, "VMSnapshot", "default").await;
    until("the snapshot is too old and gone", async || {
        let found = snapshots.get_opt("before-update").await.unwrap();
        found.is_none().then_some(())
    })
    .await;
}

async fn apply_all(cluster: &Cluster, objects: &[Value]) {
    for object in objects {
        cluster.apply(object.clone()).await;
    }
}

async fn seen(cluster: &Cluster, version: &str, kind: &str, name: &str, path: &str, value: &str) {
    let api = cluster.objects(version, kind, "default").await;
    until(&format!("{kind} {name}: {path} is {value}"), async || {
        let object = serde_json::to_value(api.get_opt(name).await.unwrap()).unwrap();
        (object.pointer(path)? == value).then_some(())
    })
    .await;
}

async fn is_there(cluster: &Cluster, version: &str, kind: &str, name: &str) {
    seen(cluster, version, kind, name, "/metadata/name", name).await;
}

async fn novacron(cluster: &Cluster) {
    let version = "novacron.io/v1alpha1";
    let mut objects = sample("novacron.yaml");
    let mut vm = objects.pop().unwrap();
    apply_all(cluster, &objects).await;
    let cards = &mut vm["spec"]["template"]["spec"]["networks"];
    let second = json!({"name": "data", "type": "bridge", "ipv4": {"method": "dhcp"}});
    cards.as_array_mut().unwrap().push(second);
    vm["spec"]["snapshotPolicy"] = json!({"schedule": "0 2 * * *", "retention": 7});
    vm["spec"]["migrationPolicy"] = json!({"allowLiveMigration": true});
    cluster.apply(vm.clone()).await;
    let phase = "/status/phase";
    seen(
        cluster,
        version,
        "VirtualMachine",
        "my-vm",
        phase,
        "Running",
    )
    .await;
    migration(cluster, &vm).await;
    for object in [vm].iter().chain(&objects) {
        cluster.delete(object).await;
    }
}

/// A move that is asked for, and is not asked for any more. Whether there is such a host does not matter.
async fn migration(cluster: &Cluster, vm: &Value) {
    let mut asked = vm.clone();
    asked["metadata"]["annotations"] = json!({"novacron.io/migrate-to": "host-2"});
    cluster.apply(asked).await;
    let moves = cluster.objects(INFRA, "VMMigration", "default").await;
    until("the move is over", async || {
        let found = serde_json::to_value(moves.get_opt("my-vm-migrate").await.unwrap()).unwrap();
        found.pointer("/status/completionTime").map(|_| ())
    })
    .await;
    cluster.apply(vm.clone()).await;
    until("the move is gone", async || {
        let found = moves.get_opt("my-vm-migrate").await.unwrap();
        found.is_none().then_some(())
    })
    .await;
}

/// A rule that a VM is made by.
async fn placement(cluster: &Cluster) {
    let policy = json!({
        "apiVersion": INFRA, "kind": "VMPlacementPolicy",
        "metadata": {"name": "anywhere", "namespace": "default"},
        "spec": {},
    });
    let mut vm = sample("mock.yaml").pop().unwrap();
    vm["metadata"]["name"] = json!("placed");
    vm["spec"]["placementRef"] = json!({"name": "anywhere"});
    cluster.apply(policy.clone()).await;
    cluster.apply(vm.clone()).await;
    let phase = "/status/phase";
    seen(cluster, INFRA, "VirtualMachine", "placed", phase, "Running").await;
    cluster.delete(&vm).await;
    cluster.delete(&policy).await;
}

/// Kinds that this version does not implement say so.
async fn without_controller(cluster: &Cluster) {
    let set = json!({
        "apiVersion": INFRA, "kind": "VMSet",
        "metadata": {"name": "later", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {
                "providerRef": {"name": "playground"}, "class": {"cpu": 1, "memory": "1Gi"}, "imageRef": {"name": "debian-12"},
            }},
        },
    });
    let clone = json!({
        "apiVersion": INFRA, "kind": "VMClone",
        "metadata": {"name": "later", "namespace": "default"},
        "spec": {"source": {"vmRef": {"name": "a"}}, "target": {"name": "b"}},
    });
    for object in [set, clone] {
        let kind = object["kind"].as_str().unwrap().to_owned();
        cluster.apply(object.clone()).await;
        let reason = "/status/conditions/0/reason";
        seen(cluster, INFRA, &kind, "later", reason, "NotImplemented").await;
        cluster.delete(&object).await;
    }
}

/// Hosts and pools whose Provider does not know them have a status all the same.
async fn hosts(cluster: &Cluster) {
    for kind in ["Host", "HostPool"] {
        let object = json!({
            "apiVersion": INFRA, "kind": kind,
            "metadata": {"name": "rack", "namespace": "default"},
            "spec": {"providerRef": {"name": "playground"}},
        });
        cluster.apply(object.clone()).await;
        let objects = cluster.objects(INFRA, kind, "default").await;
        until("its status is written", async || {
            let found = serde_json::to_value(objects.get_opt("rack").await.unwrap()).unwrap();
            found.pointer("/status/conditions/0").map(|_| ())
        })
        .await;
        cluster.delete(&object).await;
    }
}

/// There is no kubelet here, so its pods never come; all that stands around them does.
async fn remote_provider(cluster: &Cluster) {
    let provider = json!({
        "apiVersion": INFRA, "kind": "Provider",
        "metadata": {"name": "inside", "namespace": "default"},
        "spec": {"type": "mock", "endpoint": "mock:///tmp/vms", "runtime": {"mode": "Remote"}},
    });
    let name = "virtrigaud-provider-default-inside";
    cluster.apply(provider.clone()).await;
    is_there(cluster, "apps/v1", "Deployment", name).await;
    is_there(cluster, "networking.k8s.io/v1", "NetworkPolicy", name).await;
    is_there(cluster, "v1", "Secret", &format!("{name}-tls")).await;
    let mut moved = provider.clone();
    moved["spec"]["runtime"]["mode"] = json!("InProcess");
    cluster.apply(moved).await;
    let deployments = cluster.objects("apps/v1", "Deployment", "default").await;
    until("its Deployment is gone", async || {
        deployments
            .get_opt(name)
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    cluster.delete(&provider).await;
}

/// A child of the manager, with a variable that the namespace keeps for it.
async fn process(cluster: &Cluster) {
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "default"},
        "data": {"level": "warn"},
    });
    let level = json!({"configMapKeyRef": {"name": "settings", "key": "level"}});
    let provider = json!({
        "apiVersion": INFRA, "kind": "Provider",
        "metadata": {"name": "beside", "namespace": "default"},
        "spec": {"type": "mock", "endpoint": "mock://memory", "runtime": {
            "mode": "Process", "env": [{"name": "LOG_LEVEL", "valueFrom": level}],
        }},
    });
    cluster.apply(settings.clone()).await;
    cluster.apply(provider.clone()).await;
    let phase = "/status/runtime/phase";
    seen(cluster, INFRA, "Provider", "beside", phase, "Running").await;
    cluster.delete(&provider).await;
    cluster.delete(&settings).await;
}

/// A cluster that does not answer: the Machine waits for it, and what it becomes is there.
async fn machines(cluster: &Cluster) {
    let mut objects = sample("vitistack.yaml");
    objects.insert(
        0,
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "cluster-east-kubeconfig", "namespace": "default"},
            "stringData": {"kubeconfig": nowhere().to_string()},
        }),
    );
    // The VM of the sample for the mock has the name of a Machine.
    objects.retain(|object| object["metadata"]["name"] != "web");
    apply_all(cluster, &objects).await;
    is_there(cluster, INFRA, "Provider", "cluster-east").await;
    is_there(cluster, INFRA, "VirtualMachine", "worker").await;
    release(cluster, "worker").await;
    release(cluster, "node").await;
    for object in objects.iter().rev() {
        cluster.delete(object).await;
    }
}

/// Its cluster will not come back.
async fn release(cluster: &Cluster, machine: &str) {
    let api = cluster
        .objects("vitistack.io/v1alpha1", "Machine", "default")
        .await;
    let forced = json!({"metadata": {"annotations": {"vitistack.io/force-delete": "true"}}});
    api.patch(machine, &PatchParams::default(), &Patch::Merge(&forced))
        .await
        .unwrap();
}

fn nowhere() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
    })
}
