use k8s_openapi::ByteString;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

use crate::error::Error;
use crate::pki::Pki;

/// A kubeconfig of the administrator that needs no other file. JSON, which every reader of YAML takes.
pub(crate) fn text(url: &str, pki: &Pki) -> Result<String, Error> {
    written_for(url, pki, "ca", "admin")
}

/// The same for etcd, which speaks to the same kind of client.
pub(crate) fn of_the_store(url: &str, pki: &Pki) -> Result<String, Error> {
    written_for(url, pki, "etcd-ca", "etcd-client")
}

fn written_for(url: &str, pki: &Pki, authority: &str, user: &str) -> Result<String, Error> {
    let file = |name: &str, kind: &str| pki.read(&format!("{name}.{kind}")).map(ByteString);
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "polyvirt",
        "contexts": [{"name": "polyvirt", "context": {"cluster": "polyvirt", "user": "polyvirt"}}],
        "clusters": [{"name": "polyvirt", "cluster": {
            "server": url,
            "certificate-authority-data": file(authority, "crt")?,
        }}],
        "users": [{"name": "polyvirt", "user": {
            "client-certificate-data": file(user, "crt")?,
            "client-key-data": file(user, "key")?,
        }}],
    });
    Ok(format!("{config:#}\n"))
}

/// The client settings that such a kubeconfig stands for.
pub(crate) async fn parse(text: &str) -> Result<kube::Config, Error> {
    let kubeconfig = Kubeconfig::from_yaml(text)?;
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    // A proxy of the environment has no way to our loopback.
    config.proxy_url = None;
    Ok(config)
}
