//! What guests read at their first boot.

use super::*;

fn user(lowered: &Lowered) -> CloudInitSeen {
    let user = lowered.vm.spec.user_data.as_ref();
    let given = user.and_then(|u| u.cloud_init.clone()).unwrap_or_default();
    CloudInitSeen {
        inline: given.inline,
        secret: given.secret_ref.map(|s| s.name),
        key: given.secret_key,
    }
}

#[derive(Debug, PartialEq, Eq)]
struct CloudInitSeen {
    inline: Option<String>,
    secret: Option<String>,
    key: Option<String>,
}

fn seen(inline: Option<&str>, secret: Option<&str>, key: Option<&str>) -> CloudInitSeen {
    let text = |t: Option<&str>| t.map(str::to_owned);
    CloudInitSeen {
        inline: text(inline),
        secret: text(secret),
        key: text(key),
    }
}

fn with_maps() -> World {
    let mut world = world();
    let data = BTreeMap::from([
        (
            "userdata".to_owned(),
            "#cloud-config\nfrom: map\n".to_owned(),
        ),
        ("mine".to_owned(), "#!/bin/sh\n".to_owned()),
    ]);
    world.maps.insert("map".into(), Some(data));
    world.maps.insert("gone".into(), None);
    world
}

#[test]
fn user_data_may_stand_anywhere() {
    let plain = "#cloud-config\na: 1\n";
    for (init, expected) in [
        (json!({"userData": plain}), seen(Some(plain), None, None)),
        (
            json!({"userDataBase64": "I2Nsb3VkLWNvbmZpZwphOiAxCg=="}),
            seen(Some(plain), None, None),
        ),
        (
            json!({"secretRef": {"name": "s", "key": "userdata"}}),
            seen(None, Some("s"), Some("userdata")),
        ),
        (
            json!({"userDataSecretRef": {"name": "s"}}),
            seen(None, Some("s"), None),
        ),
        (
            json!({"userData": plain, "secretRef": {"name": "s", "key": "k"}}),
            seen(Some(plain), Some("s"), Some("k")),
        ),
        (
            json!({"userDataConfigMapRef": {"name": "map"}}),
            seen(Some("#cloud-config\nfrom: map\n"), None, None),
        ),
        (
            json!({"userDataConfigMapRef": {"name": "map", "key": "mine"}}),
            seen(Some("#!/bin/sh\n"), None, None),
        ),
        (json!({}), seen(Some("#cloud-config\n{}\n"), None, None)),
    ] {
        let lowered = with_maps().spec(json!({ "cloudInit": init }));
        assert_eq!(user(&lowered), expected, "{init}");
    }
    let top = world().spec(json!({ "userData": plain }));
    assert_eq!(user(&top), seen(Some(plain), None, None));
    assert!(world().spec(json!({})).vm.spec.user_data.is_none());
}

#[test]
fn what_is_named_and_not_there_is_told() {
    for (init, text) in [
        (
            json!({"userDataConfigMapRef": {"name": "gone"}}),
            "There is no ConfigMap gone",
        ),
        (
            json!({"userDataConfigMapRef": {"name": "map", "key": "x"}}),
            "has no key x",
        ),
        (json!({"userDataBase64": "!"}), "no text in Base64"),
    ] {
        let error = with_maps().error(json!({ "cloudInit": init }));
        assert!(error.to_string().contains(text), "{error}");
    }
    let spec = machine(json!({"cloudInit": {"userDataConfigMapRef": {"name": "a"}, "networkDataConfigMapRef": {"name": "b"}}})).spec;
    assert_eq!(config_maps(&spec), ["a", "b"]);
}

#[test]
fn only_what_everybody_can_read_stands_in_the_vm() {
    let option = |init: Value| {
        let lowered = world().spec(json!({ "cloudInit": init }));
        serde_json::to_value(options(&lowered).cloud_init).unwrap()
    };
    assert_eq!(
        option(json!({"userData": "#!/bin/sh\n"})),
        json!({"medium": "noCloud", "keep": "inline"})
    );
    assert_eq!(
        option(json!({"type": "configDrive", "secretRef": {"name": "s"}})),
        json!({"medium": "configDrive", "keep": "secret"})
    );
    assert_eq!(
        option(json!({"userData": "#!/bin/sh\n", "networkDataSecretRef": {"name": "s"}}))["keep"],
        "secret"
    );
}

#[test]
fn network_data_is_one_document() {
    let network = |init: Value| {
        let lowered = world().spec(json!({ "cloudInit": init }));
        let given = lowered.vm.spec.network_data.and_then(|n| n.cloud_init);
        given.map(|g| (g.inline, g.secret_ref.map(|s| s.name)))
    };
    let secret = json!({"name": "s", "key": "networkdata"});
    assert_eq!(network(json!({})), None);
    assert_eq!(
        network(json!({"networkData": "version: 2\n", "networkDataSecretRef": secret})),
        Some((Some("version: 2\n".to_owned()), None))
    );
    assert_eq!(
        network(json!({"networkDataSecretRef": secret})),
        Some((None, Some("s".to_owned())))
    );
}

#[test]
fn keys_get_into_a_cloud_config() {
    let keys = json!(["ssh-ed25519 AAAA me@host"]);
    let with = |more: Value| {
        let mut spec = json!({ "sshKeys": keys });
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        world().spec(spec)
    };
    let list = "ssh_authorized_keys:\n- \"ssh-ed25519 AAAA me@host\"\n";
    for (more, expected) in [
        (json!({}), format!("#cloud-config\n{list}")),
        (
            json!({"userData": "#cloud-config\npackages:\n- vim\n"}),
            format!("#cloud-config\npackages:\n- vim\n{list}"),
        ),
    ] {
        let lowered = with(more);
        assert!(lowered.ignored.is_empty());
        assert_eq!(user(&lowered).inline.as_deref(), Some(expected.as_str()));
    }
    let script = with(json!({"userData": "#!/bin/sh\n"}));
    assert_eq!(user(&script).inline.as_deref(), Some("#!/bin/sh\n"));
    assert!(script.ignored[0].contains("spec.sshKeys"));
}

/// What is lowered must be what the engine takes.
#[test]
fn the_engine_takes_what_is_made_here() {
    for spec in [
        json!({"cloudInit": {}}),
        json!({"sshKeys": ["ssh-ed25519 AAAA"]}),
        json!({"cloudInit": {"userData": "#cloud-config\n", "networkData": "version: 2\n"}}),
        json!({"sshKeys": ["ssh-ed25519 AAAA"], "userData": "#cloud-config\nusers:\n  - name: a\n"}),
    ] {
        let lowered = world().spec(spec.clone());
        let rendered = user_data::render(&Sources::of(&lowered.vm.spec), &Secrets::new());
        assert!(rendered.is_ok(), "{spec}: {rendered:?}");
    }
}
