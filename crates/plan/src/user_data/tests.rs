//! The whole way from manifest and Secrets to what the provider is given.

use polyvirt_api::infra::{CloudInit, Ignition, LocalRef, MetaData, NetworkData};

use super::*;

fn cloud_init(inline: Option<&str>, secret: Option<&str>) -> CloudInit {
    CloudInit {
        inline: inline.map(str::to_owned),
        secret_ref: secret.map(LocalRef::new),
        secret_key: None,
    }
}

#[test]
fn a_key_that_is_named_is_the_only_one_that_counts() {
    let secrets = secret(
        "s",
        &[
            ("userdata", b"#cloud-config\na: 1"),
            ("mine", b"#!/bin/sh\n"),
        ],
    );
    let named = |key: &str| api::UserData {
        cloud_init: Some(CloudInit {
            secret_key: Some(key.to_owned()),
            ..cloud_init(None, Some("s"))
        }),
        ignition: None,
    };
    let found = render_user(&named("mine"), &secrets).unwrap();
    assert_eq!(found.user_data.unwrap().bytes().as_ref(), b"#!/bin/sh\n");
    let problem = render_user(&named("other"), &secrets).unwrap_err();
    assert!(
        problem.message.contains("none of the keys other"),
        "{problem}"
    );
}

fn user(inline: Option<&str>, secret: Option<&str>) -> api::UserData {
    api::UserData {
        cloud_init: Some(cloud_init(inline, secret)),
        ignition: None,
    }
}

fn secret(name: &str, entries: &[(&str, &[u8])]) -> Secrets {
    let data = entries
        .iter()
        .map(|(k, v)| ((*k).to_owned(), Bytes::copy_from_slice(v)))
        .collect();
    Secrets::from([(name.to_owned(), Some(data))])
}

fn render_user(user: &api::UserData, secrets: &Secrets) -> Result<Rendered, Problem> {
    render(
        &Sources {
            user: Some(user),
            ..Sources::default()
        },
        secrets,
    )
}

fn bytes_of(user: &api::UserData, secrets: &Secrets) -> Bytes {
    render_user(user, secrets)
        .unwrap()
        .user_data
        .unwrap()
        .bytes()
        .clone()
}

#[test]
fn nothing_given_is_nothing_rendered() {
    let nothing = api::UserData::default();
    assert_eq!(
        render_user(&nothing, &Secrets::new()),
        Ok(Rendered::default())
    );
    assert_eq!(
        render(&Sources::default(), &Secrets::new()),
        Ok(Rendered::default())
    );
}

#[test]
fn the_secrets_to_fetch_are_named_with_their_fields() {
    let user = user(Some("#cloud-config\n"), Some("web"));
    let meta = MetaData {
        cloud_init: Some(cloud_init(None, Some("meta"))),
    };
    let network = NetworkData {
        cloud_init: Some(cloud_init(Some("version: 2"), None)),
    };
    let sources = Sources {
        user: Some(&user),
        meta: Some(&meta),
        network: Some(&network),
    };
    assert_eq!(
        secrets_needed(&sources),
        [
            ("spec.userData.cloudInit.secretRef.name", "web"),
            ("spec.metaData.cloudInit.secretRef.name", "meta")
        ]
    );
    let ignition = Ignition {
        secret_ref: Some(LocalRef::new("ign")),
        inline: None,
    };
    let user = api::UserData {
        cloud_init: None,
        ignition: Some(ignition),
    };
    let sources = Sources {
        user: Some(&user),
        ..Sources::default()
    };
    assert_eq!(
        secrets_needed(&sources),
        [("spec.userData.ignition.secretRef.name", "ign")]
    );
}

#[test]
fn keys_are_tried_in_order() {
    let keys = [
        "userdata",
        "userData",
        "user-data",
        "cloud-init",
        "cloud-config",
    ];
    for (first, wanted) in keys.iter().enumerate() {
        let present = keys[first..].iter().chain(&["USERDATA", "other"]);
        let data = present
            .map(|key| ((*key).to_owned(), format!("#!{key}").into()))
            .collect();
        let secrets = Secrets::from([("web".to_owned(), Some(data))]);
        assert_eq!(
            bytes_of(&user(None, Some("web")), &secrets),
            format!("#!{wanted}")
        );
    }
}

#[test]
fn inline_and_secret_become_one_message() {
    let secrets = secret("web", &[("userdata", b"#!/bin/sh\n")]);
    let both = user(Some("#cloud-config\n"), Some("web"));
    let found = bytes_of(&both, &secrets);
    assert_eq!(found, bytes_of(&both, &secrets));
    let text = String::from_utf8(found.to_vec()).unwrap();
    let config = text.find("text/cloud-config").unwrap();
    assert!(text.find("text/x-shellscript").unwrap() > config, "{text}");
}

#[test]
fn a_missing_secret_is_named() {
    for secrets in [Secrets::new(), Secrets::from([("web".to_owned(), None)])] {
        let problem = render_user(&user(None, Some("web")), &secrets).unwrap_err();
        assert_eq!(problem.reason, Reason::SecretInvalid);
        assert_eq!(problem.field, "spec.userData.cloudInit.secretRef.name");
        assert!(
            problem.message.starts_with("There is no Secret web"),
            "{problem}"
        );
    }
}

#[test]
fn a_missing_key_is_told_with_those_that_are_there() {
    let secrets = secret(
        "web",
        &[("password", b"hunter2"), ("user_data", b"hunter2")],
    );
    let problem = render_user(&user(None, Some("web")), &secrets).unwrap_err();
    assert_eq!(problem.reason, Reason::SecretInvalid);
    assert!(
        problem
            .message
            .contains("userdata, userData, user-data, cloud-init, cloud-config"),
        "{problem}"
    );
    assert!(
        problem.message.contains("it has password, user_data"),
        "{problem}"
    );
    assert!(!problem.message.contains("hunter2"), "{problem}");
    let problem = render_user(&user(None, Some("web")), &secret("web", &[])).unwrap_err();
    assert!(problem.message.contains("no keys at all"), "{problem}");
}

#[test]
fn a_problem_in_a_secret_names_secret_and_key_and_never_its_content() {
    let secrets = secret(
        "web",
        &[("userdata", b"#cloud-config\npassword: \"hunter2\n")],
    );
    let problem = render_user(&user(None, Some("web")), &secrets).unwrap_err();
    assert_eq!(problem.reason, Reason::UserDataInvalid);
    assert_eq!(problem.field, "spec.userData.cloudInit.secretRef.name");
    assert!(
        problem
            .message
            .starts_with("Secret web, key userdata: Line "),
        "{problem}"
    );
    assert!(!problem.message.contains("hunter2"), "{problem}");
}

#[test]
fn nothing_and_too_much_are_refused() {
    let problem = render_user(&user(Some(" \n"), None), &Secrets::new()).unwrap_err();
    assert_eq!(problem.field, "spec.userData.cloudInit.inline");
    assert!(problem.message.starts_with("This is empty"), "{problem}");
    let problem = render_user(&user(None, None), &Secrets::new()).unwrap_err();
    assert_eq!(problem.field, "spec.userData.cloudInit");

    let long = format!("#!/bin/sh\n{}", "#".repeat(MAX_BYTES));
    let problem = render_user(&user(Some(&long), None), &Secrets::new()).unwrap_err();
    assert!(
        problem.message.starts_with("This is 1048586 bytes"),
        "{problem}"
    );
}

#[test]
fn the_joined_message_is_measured_too() {
    let half = format!("#!/bin/sh\n{}", "#".repeat(MAX_BYTES / 2));
    let secrets = secret("web", &[("userdata", half.as_bytes())]);
    let problem = render_user(&user(Some(&half), Some("web")), &secrets).unwrap_err();
    assert_eq!(problem.field, "spec.userData.cloudInit");
}

#[test]
fn cloud_init_and_ignition_exclude_each_other() {
    let ignition = Ignition {
        inline: Some("{\"ignition\":{\"version\":\"3.4.0\"}}".to_owned()),
        secret_ref: None,
    };
    let alone = api::UserData {
        cloud_init: None,
        ignition: Some(ignition.clone()),
    };
    let found = render_user(&alone, &Secrets::new()).unwrap().user_data;
    assert!(matches!(found, Some(UserData::Ignition(_))));
    let both = api::UserData {
        ignition: Some(ignition),
        ..user(Some("#cloud-config\n"), None)
    };
    let problem = render_user(&both, &Secrets::new()).unwrap_err();
    assert_eq!(problem.field, "spec.userData");
}

#[test]
fn metadata_and_network_configuration_come_from_secrets_too() {
    let meta = MetaData {
        cloud_init: Some(cloud_init(Some("a: 1\n"), Some("s"))),
    };
    let network = NetworkData {
        cloud_init: Some(cloud_init(None, Some("s"))),
    };
    let sources = Sources {
        user: None,
        meta: Some(&meta),
        network: Some(&network),
    };
    let secrets = secret(
        "s",
        &[
            ("meta_data", b"b: 2\n"),
            ("network_config", b"version: 2\n"),
        ],
    );
    let found = render(&sources, &secrets).unwrap();
    assert_eq!(found.meta_data, "{\"a\":1,\"b\":2}");
    assert_eq!(found.network_data, "version: 2\n");
    let problem = render(
        &sources,
        &secret(
            "s",
            &[("metadata", b"b: 2\n"), ("network-config", b"x: 1\n")],
        ),
    )
    .unwrap_err();
    assert_eq!(problem.field, "spec.networkData.cloudInit.secretRef.name");
}

#[test]
fn what_is_rendered_is_never_printed() {
    let rendered = render_user(&user(Some("#!/bin/sh\n# hunter2"), None), &Secrets::new()).unwrap();
    assert_eq!(
        format!("{rendered:?}"),
        "Rendered { user_data_bytes: Some(19), meta_data_bytes: 0, network_data_bytes: 0 }"
    );
}
