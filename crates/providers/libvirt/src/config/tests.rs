use super::url::SYSTEM_SOCKET;
use super::*;

fn transport_of(url: &str) -> Transport {
    LibvirtConfig::from_url(url).expect(url).transport
}

fn at(host: &str, port: u16) -> Address {
    Address {
        host: host.to_owned(),
        port,
    }
}

#[test]
fn endpoints_are_read_as_libvirt_reads_them() {
    let socket = PathBuf::from(SYSTEM_SOCKET);
    assert_eq!(transport_of("qemu:///system"), Transport::Unix { socket });
    let socket = PathBuf::from("/a b");
    assert_eq!(
        transport_of("qemu+unix:///system?socket=/a%20b"),
        Transport::Unix { socket }
    );
    assert_eq!(
        transport_of("qemu+tls://hv1/system"),
        Transport::Tls(at("hv1", 16514))
    );
    assert_eq!(
        transport_of("qemu+tls://[::1]:99/system"),
        Transport::Tls(at("::1", 99))
    );
    assert_eq!(
        transport_of("qemu+tcp://h/system?allowPlaintext=true"),
        Transport::Tcp(at("h", 16509))
    );
    let ssh = Transport::Ssh {
        address: at("h", 2222),
        user: "root".to_owned(),
        socket: "/s".to_owned(),
    };
    assert_eq!(transport_of("qemu+ssh://root@h:2222/system?socket=/s"), ssh);
}

#[test]
fn options_are_read_and_secrets_are_not_shown() {
    let url = "qemu:///session?pool=vms&network=lan&accel=tcg&imageHosts=any";
    let config = LibvirtConfig::from_url(url).expect("readable");
    assert_eq!((config.pool.as_str(), config.accel), ("vms", Accel::Tcg));
    assert_eq!(config.network.as_deref(), Some("lan"));
    assert_eq!(config.driver, "qemu:///session");
    let secrets = BTreeMap::from([("password".to_owned(), Secret::new("hunter2\n"))]);
    let config = config.with_credentials(secrets);
    let password = config.secret(&["token", "password"]).expect("there");
    assert_eq!(password.text(), Some("hunter2"));
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn what_cannot_be_read_is_named() {
    for (url, word) in [
        ("http://x", "http://x"),
        ("qemu:///elsewhere", "elsewhere"),
        ("qemu+tcp://h/system", "allowPlaintext"),
        ("qemu+tls:///system", "qemu+tls"),
        ("qemu+ssh://root:pw@h/system", "password"),
        ("qemu+tls://h:x/system", "h:x"),
        ("qemu:///system?pools=x", "pool"),
        ("qemu:///system?accel=xen", "kvm"),
        ("qemu:///system?scratch=x", "absolute"),
        ("qemu+xen:///system", "xen"),
    ] {
        let error = LibvirtConfig::from_url(url).expect_err(url).to_string();
        assert!(error.contains(word), "{url}: {error}");
        assert!(!error.contains("root:pw"), "{error}");
    }
}

#[test]
fn only_tls_can_go_without_verification() {
    for (url, word) in [
        ("qemu:///system", "certificate"),
        ("qemu+tcp://h/system?allowPlaintext=true", "certificate"),
        ("qemu+ssh://root@h/system", "known_hosts"),
    ] {
        let config = LibvirtConfig::from_url(url).expect(url);
        assert!(config.clone().with_server_check(ServerCheck::Full).is_ok());
        let refused = config.with_server_check(ServerCheck::Skip).expect_err(url);
        assert!(refused.to_string().contains(word), "{refused}");
    }
    let config = LibvirtConfig::from_url("qemu+tls://h/system").expect("readable");
    assert_eq!(config.server_check, ServerCheck::Full);
    let config = config.with_server_check(ServerCheck::Skip);
    assert_eq!(config.expect("allowed").server_check, ServerCheck::Skip);
}

#[test]
fn one_endpoint_may_name_several_hosts() {
    let urls = "qemu+ssh://a/system?pool=x,y,qemu+tls://b/system?host=hv-b,qemu:///system";
    let all = LibvirtConfig::list_from_url(urls).expect("readable");
    let public: Vec<_> = all.iter().map(LibvirtConfig::public).collect();
    assert_eq!(public[..2], ["ssh:a:22", "tls:b:16514"]);
    assert_eq!((all.len(), all[0].pool.as_str()), (3, "x,y"));
    assert_eq!(all[1].host.as_deref(), Some("hv-b"));
    assert_eq!(
        LibvirtConfig::list_from_url("qemu:///system").map(|all| all.len()),
        Ok(1)
    );
    let many = vec!["qemu:///system"; 65].join(",");
    assert_eq!(
        LibvirtConfig::list_from_url(&many),
        Err(ConfigError::TooMany(65))
    );
    assert!(LibvirtConfig::list_from_url("qemu:///system,qemu:///x").is_err());
}

#[test]
fn an_operator_says_what_a_host_is() {
    let url = "qemu:///system?labels=disktype=ssd;rack=r7&zone=north";
    let config = LibvirtConfig::from_url(url).expect("readable");
    let labels = config.labels.beneath(BTreeMap::new());
    assert_eq!(labels["disktype"], "ssd");
    assert_eq!(
        (labels["rack"].as_str(), config.zone.as_str()),
        ("r7", "north")
    );
    for url in ["qemu:///system?labels=ssd", "qemu:///system?zone=a b"] {
        let error = LibvirtConfig::from_url(url).expect_err(url);
        assert!(matches!(error, ConfigError::BadValue { .. }), "{error}");
    }
}
