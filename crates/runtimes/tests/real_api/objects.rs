//! What is there, and that it is left alone once it is.

use futures::StreamExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use polyvirt_engine::provider::Security;
use serde_json::{Value, json};

use crate::lab::{IMAGE, Lab, mock, until};

const KINDS: [(&str, &str); 5] = [
    ("apps", "Deployment"),
    ("", "Service"),
    ("", "ServiceAccount"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("", "Secret"),
];

async fn versions(lab: &Lab, provider: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for (group, kind) in KINDS {
        let object = lab.find(group, kind, provider).await.expect(kind);
        all.push(object["metadata"]["resourceVersion"].clone());
    }
    all
}

fn container(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

fn variable<'a>(deployment: &'a Value, name: &str) -> &'a Value {
    let all = container(deployment)["env"].as_array().expect("a list");
    let found = all.iter().filter(|v| v["name"] == name).collect::<Vec<_>>();
    assert!(found.len() < 2, "{name} twice");
    found.first().map_or(&Value::Null, |v| &v["value"])
}

#[tokio::test]
async fn a_provider_gets_all_that_it_needs_and_no_more_rights() {
    let lab = Lab::new().await;
    let provider = lab.provider("esx", mock()).await;
    let way = lab.way(&provider).await.expect("made");
    let name = format!("virtrigaud-provider-{}-esx", lab.namespace);
    let endpoint = format!("{name}.{}.svc.cluster.local:9443", lab.namespace);
    assert_eq!(way.place.endpoint.as_deref(), Some(endpoint.as_str()));
    assert_eq!(way.place.service.as_deref(), Some(name.as_str()));
    assert_eq!(way.place.security, Security::Own);

    for (group, kind) in KINDS {
        let object = lab.find(group, kind, "esx").await.expect(kind);
        let owner = &object["metadata"]["ownerReferences"][0];
        assert_eq!(owner["kind"], "Provider", "{kind}");
        assert_eq!(owner["controller"], true, "{kind}");
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/name"], "virtrigaud-provider");
        assert_eq!(labels["app.kubernetes.io/instance"], "esx");
        assert_eq!(labels["app.kubernetes.io/managed-by"], "virtrigaud");
        assert_eq!(labels["virtrigaud.io/provider-type"], "mock");
    }
    let account = lab.find("", "ServiceAccount", "esx").await.expect("there");
    assert_eq!(account["automountServiceAccountToken"], false);
    let deployment = lab.deployment("esx").await;
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(
        pod["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    let container = container(&deployment);
    assert_eq!(container["image"], IMAGE);
    assert_eq!(
        container["args"],
        json!(["provider", "mock", "--port=9443", "--health-port=8080"])
    );
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(
        container["securityContext"]["allowPrivilegeEscalation"],
        false
    );
    assert_eq!(
        container["securityContext"]["capabilities"]["drop"],
        json!(["ALL"])
    );
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    assert_eq!(variable(&deployment, "PROVIDER_TYPE"), "mock");
    assert_eq!(variable(&deployment, "TLS_ENABLED"), "true");
    assert_eq!(
        variable(&deployment, "VIRTRIGAUD_PROVIDER_ALLOWED_SANS"),
        "polyvirt-manager"
    );
    let policy = lab.find("networking.k8s.io", "NetworkPolicy", "esx").await;
    let policy = policy.expect("there");
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    let ingress = &policy["spec"]["ingress"][0];
    assert_eq!(
        ingress["from"][0]["podSelector"]["matchLabels"]["app"],
        "manager"
    );
    assert_eq!(
        policy["spec"]["egress"].as_array().map(Vec::len),
        Some(1),
        "names only"
    );
}

#[tokio::test]
async fn all_that_the_spec_says_acts() {
    let lab = Lab::new().await;
    lab.secret("login", &[("username", "root")]).await;
    let spec = json!({
        "type": "vsphere",
        "endpoint": "https://10.9.8.7/sdk",
        "insecureSkipVerify": true,
        "credentialSecretRef": {"name": "login"},
        "defaults": {"datastore": "ssd", "cluster": "c1", "folder": "/vms"},
        "runtime": {
            "mode": "Remote",
            "image": "registry.test/provider-vsphere:2",
            "imagePullPolicy": "Always",
            "imagePullSecrets": [{"name": "registry"}],
            "replicas": 2,
            "logLevel": "debug",
            "logFormat": "json",
            "service": {"port": 9555},
            "resources": {"limits": {"cpu": "2"}},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "infra", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "env": [{"name": "LOG_FORMAT", "value": "text"}, {"name": "MORE", "value": "1"}],
        },
    });
    let provider = lab.provider("vc", spec).await;
    let way = lab.way(&provider).await.expect("made");
    assert!(way.place.endpoint.is_some_and(|e| e.ends_with(":9555")));
    let deployment = lab.deployment("vc").await;
    assert_eq!(deployment["spec"]["replicas"], 2);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["imagePullSecrets"][0]["name"], "registry");
    assert_eq!(pod["nodeSelector"]["disk"], "ssd");
    assert_eq!(pod["tolerations"][0]["key"], "infra");
    let container = container(&deployment);
    assert_eq!(container["image"], "registry.test/provider-vsphere:2");
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(
        container["args"],
        json!(["--port=9555", "--health-port=8080"])
    );
    assert_eq!(container["resources"], json!({"limits": {"cpu": "2"}}));
    for (name, value) in [
        ("PROVIDER_ENDPOINT", "https://10.9.8.7/sdk"),
        ("TLS_INSECURE_SKIP_VERIFY", "true"),
        ("PROVIDER_DEFAULT_DATASTORE", "ssd"),
        ("PROVIDER_DEFAULT_CLUSTER", "c1"),
        ("PROVIDER_DEFAULT_FOLDER", "/vms"),
        ("LOG_LEVEL", "debug"),
        ("LOG_FORMAT", "text"),
        ("MORE", "1"),
    ] {
        assert_eq!(variable(&deployment, name), value, "{name}");
    }
    let mounts = container["volumeMounts"].as_array().expect("a list");
    let paths: Vec<_> = mounts.iter().map(|m| m["mountPath"].as_str()).collect();
    assert!(paths.contains(&Some("/etc/virtrigaud/credentials")));
    assert!(paths.contains(&Some("/etc/virtrigaud/tls")));
    let service = lab.find("", "Service", "vc").await.expect("there");
    assert_eq!(service["spec"]["ports"][0]["port"], 9555);
    let policy = lab
        .find("networking.k8s.io", "NetworkPolicy", "vc")
        .await
        .expect("there");
    let out = &policy["spec"]["egress"][1];
    assert_eq!(out["to"][0]["ipBlock"]["cidr"], "10.9.8.7/32");
    assert_eq!(out["ports"][0]["port"], 443);
}

#[tokio::test]
async fn what_is_there_is_not_written_again_and_what_others_add_stays() {
    let lab = Lab::new().await;
    let provider = lab.provider("calm", mock()).await;
    let first = lab.way(&provider).await.expect("made");
    let before = versions(&lab, "calm").await;
    let second = lab.way(&provider).await.expect("made");
    assert_eq!(first.made_from, second.made_from, "no new session");
    assert_eq!(versions(&lab, "calm").await, before);

    // A manager that starts again knows nothing, and still changes nothing.
    let again = Lab::tuned(|s| {
        s.manager_namespace.clone_from(&lab.namespace);
        s.namespaces = vec![lab.namespace.clone()];
    })
    .await;
    again.way(&provider).await.expect("made");
    assert_eq!(versions(&lab, "calm").await, before);

    let name = format!("virtrigaud-provider-{}-calm", lab.namespace);
    let theirs = json!({"metadata": {"annotations": {"team": "storage"}}});
    let api = lab.api("apps", "Deployment");
    api.patch(&name, &PatchParams::default(), &Patch::Merge(theirs))
        .await
        .expect("patched");
    lab.remote
        .forget(&polyvirt_engine::runtime::key::ObjectKey::of(&provider));
    lab.way(&provider).await.expect("made");
    let deployment = lab.deployment("calm").await;
    assert_eq!(deployment["metadata"]["annotations"]["team"], "storage");
}

#[tokio::test]
async fn what_somebody_breaks_is_mended_when_it_is_seen() {
    let lab = Lab::new().await;
    let mut news = lab.remote.news();
    let provider = lab.provider("torn", mock()).await;
    lab.way(&provider).await.expect("made");
    let name = format!("virtrigaud-provider-{}-torn", lab.namespace);
    // The watch has to be open: what it tells first is the Deployment that we made.
    assert_eq!(news.next().await.expect("told").name(), "torn");
    let api = lab.api("", "Service");
    api.delete(&name, &DeleteParams::default())
        .await
        .expect("deleted");
    let scaled = json!({"spec": {"replicas": 5}});
    let deployments = lab.api("apps", "Deployment");
    deployments
        .patch(&name, &PatchParams::default(), &Patch::Merge(scaled))
        .await
        .expect("patched");
    until("mended", async || {
        let told = tokio::time::timeout(std::time::Duration::from_millis(200), news.next());
        if told.await.is_ok() {
            lab.way(&provider).await.expect("made");
        }
        let service = lab.find("", "Service", "torn").await;
        service.is_some() && lab.deployment("torn").await["spec"]["replicas"] == 1
    })
    .await;
}

#[tokio::test]
async fn what_ran_in_pods_and_no_longer_is_to_goes() {
    let lab = Lab::new().await;
    let provider = lab.provider("leaving", mock()).await;
    lab.way(&provider).await.expect("made");
    lab.remote.remove(&provider).await.expect("removed");
    for (group, kind) in KINDS {
        assert_eq!(lab.find(group, kind, "leaving").await, None, "{kind}");
    }
    lab.remote
        .remove(&provider)
        .await
        .expect("nothing to remove is no error");
}
