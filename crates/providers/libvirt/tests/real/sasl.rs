//! A name and a password for libvirt itself, over TLS without a certificate of ours.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use polyvirt_contract::ErrorKind;
use polyvirt_provider_libvirt::Secret;

use crate::host::Host;
use crate::ways::{Authority, free_port, tried};

const USER: &str = "polyvirt";
const PASSWORD: &str = "pencil, sharp = good";

/// The file in which libvirt's library looks for passwords.
fn add_user(file: &Path) {
    let mut tool = Command::new("saslpasswd2")
        .args(["-p", "-c", "-a", "libvirt", "-f"])
        .arg(file)
        .arg(USER)
        .stdin(Stdio::piped())
        .spawn()
        .expect("saslpasswd2 is installed; run hack/packages.sh");
    let mut input = tool.stdin.take().expect("an input");
    input.write_all(PASSWORD.as_bytes()).expect("written");
    drop(input);
    assert!(tool.wait().expect("ends").success());
}

fn secrets(ca: &str, user: &str, password: &str) -> BTreeMap<String, Secret> {
    [("ca.crt", ca), ("username", user), ("password", password)]
        .into_iter()
        .map(|(name, text)| (name.to_owned(), Secret::new(text)))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_and_a_password_are_enough_where_libvirt_asks_for_them() {
    let authority = Authority::new("ours");
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = authority.leaf("localhost");
    for (name, text) in [
        ("ca.pem", &authority.pem),
        ("server.pem", &certificate),
        ("server.key", &key),
    ] {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let (tls, tcp) = (free_port(), free_port());
    let at = |name: &str| folder.path().join(name).display().to_string();
    let host = Host::with(&format!(
        "listen_tls = 1\ntls_port = \"{tls}\"\nca_file = \"{}\"\ncert_file = \"{}\"\nkey_file = \"{}\"\ntls_no_verify_certificate = 1\nauth_tls = \"sasl\"\nlisten_tcp = 1\ntcp_port = \"{tcp}\"\nauth_tcp = \"sasl\"\nlisten_addr = \"127.0.0.1\"",
        at("ca.pem"),
        at("server.pem"),
        at("server.key")
    ));
    let passwords = host.path("passwd.db");
    add_user(&passwords);
    let url = format!("qemu+tls://localhost:{tls}/system");
    for way in ["scram-sha-256", "scram-sha-512", "plain"] {
        let settings = format!(
            "mech_list: {way}\npwcheck_method: auxprop\nauxprop_plugin: sasldb\nsasldb_path: {}\n",
            passwords.display()
        );
        std::fs::write(host.path("sasl/libvirt.conf"), settings).expect("written");
        // It is read when the daemon begins.
        host.kill();
        host.run();
        let right = secrets(&authority.pem, USER, PASSWORD);
        assert_eq!(tried(&url, right).await, Ok(1), "{way}");
        for (user, password) in [(USER, "wrong"), ("nobody", PASSWORD)] {
            let wrong = secrets(&authority.pem, user, password);
            let error = tried(&url, wrong).await.expect_err("not let in");
            println!("{way}: {error}");
            assert_eq!(error.kind, ErrorKind::Unauthenticated, "{way}: {error:?}");
            assert!(!error.message.contains(password), "{error}");
        }
    }
    // Without them it says what is missing.
    let mut none = secrets(&authority.pem, USER, PASSWORD);
    none.remove("username");
    let error = tried(&url, none).await.expect_err("no name");
    assert!(
        error.message.contains("put username and password"),
        "{error}"
    );
    // A way that others listen to gets no password.
    let plain = format!("qemu+tcp://127.0.0.1:{tcp}/system?allowPlaintext=true");
    let error = tried(&plain, secrets(&authority.pem, USER, PASSWORD)).await;
    let error = error.expect_err("not in clear");
    println!("tcp: {error}");
    assert_eq!(error.kind, ErrorKind::Unauthenticated, "{error:?}");
}
