use std::path::Path;

use crate::pki::{FRONT_PROXY, Pki};
use crate::ports::Ports;
use crate::state::StateDir;

/// The command line of etcd: one member, mutual TLS on every port.
pub(crate) fn etcd(state: &StateDir, pki: &Pki, ports: Ports) -> Vec<String> {
    let url = ports.etcd_url();
    // A single member talks to no peer; any free port will do.
    let peer = "https://127.0.0.1:0";
    let mut flags = vec![
        flag("data-dir", state.etcd_data().display()),
        flag("listen-client-urls", &url),
        flag("advertise-client-urls", &url),
        flag("listen-peer-urls", peer),
        flag("initial-advertise-peer-urls", peer),
        flag("initial-cluster", format!("default={peer}")),
        // Alone it wins every election, so it need not wait a second for the first.
        flag("heartbeat-interval", 20),
        flag("election-timeout", 100),
        flag("log-level", "warn"),
    ];
    for prefix in ["", "peer-"] {
        flags.push(flag(&format!("{prefix}client-cert-auth"), true));
        flags.push(file_flag(
            &format!("{prefix}trusted-ca-file"),
            pki,
            "etcd-ca.crt",
        ));
        flags.push(file_flag(&format!("{prefix}cert-file"), pki, "etcd.crt"));
        flags.push(file_flag(&format!("{prefix}key-file"), pki, "etcd.key"));
    }
    if state.is_ephemeral() {
        flags.push("--unsafe-no-fsync".to_owned());
    }
    flags
}

/// The command line of the API server.
pub(crate) fn apiserver(pki: &Pki, ports: Ports, accounts: Accounts) -> Vec<String> {
    let mut flags = aggregation(pki);
    if accounts == Accounts::Missing {
        // The plugin would wait for them for ever.
        flags.push(flag("disable-admission-plugins", "ServiceAccount"));
    }
    flags.extend([
        flag("bind-address", "127.0.0.1"),
        flag("advertise-address", "127.0.0.1"),
        flag("secure-port", ports.apiserver),
        flag("etcd-servers", ports.etcd_url()),
        file_flag("etcd-cafile", pki, "etcd-ca.crt"),
        file_flag("etcd-certfile", pki, "etcd-client.crt"),
        file_flag("etcd-keyfile", pki, "etcd-client.key"),
        file_flag("tls-cert-file", pki, "serving.crt"),
        file_flag("tls-private-key-file", pki, "serving.key"),
        file_flag("client-ca-file", pki, "ca.crt"),
        flag("anonymous-auth", false),
        flag("authorization-mode", "RBAC"),
        flag("service-account-issuer", "https://kubernetes.default.svc"),
        file_flag("service-account-key-file", pki, "service-account.pub"),
        file_flag(
            "service-account-signing-key-file",
            pki,
            "service-account.key",
        ),
        flag("service-cluster-ip-range", "10.96.0.0/16"),
        flag("endpoint-reconciler-type", "none"),
        flag("profiling", false),
    ]);
    flags
}

/// Whether anybody makes the service account of each namespace, which pods are given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Accounts {
    #[default]
    Missing,
    Made,
}

/// Lets the API server hand requests on to others, in the name of its users.
fn aggregation(pki: &Pki) -> Vec<String> {
    vec![
        file_flag("requestheader-client-ca-file", pki, "front-proxy-ca.crt"),
        flag("requestheader-allowed-names", FRONT_PROXY),
        flag("requestheader-username-headers", "X-Remote-User"),
        flag("requestheader-group-headers", "X-Remote-Group"),
        flag("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
        file_flag("proxy-client-cert-file", pki, "front-proxy.crt"),
        file_flag("proxy-client-key-file", pki, "front-proxy.key"),
    ]
}

/// What makes the API server write its audit log.
pub(crate) fn audit(policy: &Path, log: &Path) -> Vec<String> {
    vec![
        flag("audit-policy-file", policy.display()),
        flag("audit-log-path", log.display()),
        // One file: a reader need not follow rotations (the size is in MiB).
        flag("audit-log-maxsize", 100_000),
    ]
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

fn file_flag(name: &str, pki: &Pki, file: &str) -> String {
    flag(name, pki.file(file).display())
}
