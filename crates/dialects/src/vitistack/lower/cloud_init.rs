//! What the guest reads at its first boot. What is in a Secret stays there: only its name and key go on.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use polyvirt_api::infra::{CloudInit, LocalRef, NetworkData, UserData};
use polyvirt_api::kubevirt::{CloudInitMedium, CloudInitOption, CloudInitPlace};
use polyvirt_api::vitistack::{
    Machine, MachineCloudInit, MachineCloudInitType, MachineDataRef, MachineSpec,
};

use super::ConfigMaps;
use super::error::LowerError;

const USER_KEY: &str = "userdata";
const NETWORK_KEY: &str = "networkdata";
const EMPTY: &str = "#cloud-config\n{}\n";

/// What a Machine says to its guest.
#[derive(Default)]
pub(super) struct Guest {
    pub user_data: Option<Box<UserData>>,
    pub network_data: Option<Box<NetworkData>>,
    pub option: Option<CloudInitOption>,
}

/// Names of the ConfigMaps that a Machine reads.
pub fn config_maps(spec: &MachineSpec) -> Vec<String> {
    let given = spec.cloud_init.as_deref();
    let refs = given.map(|c| [&c.user_data_config_map_ref, &c.network_data_config_map_ref]);
    let refs = refs.into_iter().flatten().flatten();
    refs.map(|r| r.name.clone()).collect()
}

pub(super) fn resolve(
    machine: &Machine,
    maps: &ConfigMaps,
    ignored: &mut Vec<String>,
) -> Result<Guest, LowerError> {
    let spec = &machine.spec;
    let given = spec.cloud_init.as_deref();
    if given.is_none() && spec.user_data.is_none() && spec.ssh_keys.is_empty() {
        return Ok(Guest::default());
    }
    let blank = MachineCloudInit::default();
    let given = given.unwrap_or(&blank);
    let mut user = user_data(given, spec, maps)?;
    add_keys(&mut user, &spec.ssh_keys, ignored);
    let network = network_data(given, maps)?;
    let option = CloudInitOption {
        medium: match given.type_ {
            MachineCloudInitType::NoCloud => CloudInitMedium::NoCloud,
            MachineCloudInitType::ConfigDrive => CloudInitMedium::ConfigDrive,
        },
        keep: place(&user, network.as_ref()),
    };
    Ok(Guest {
        user_data: Some(Box::new(UserData {
            cloud_init: Some(user),
            ignition: None,
        })),
        network_data: network.map(|n| {
            Box::new(NetworkData {
                cloud_init: Some(n),
            })
        }),
        option: Some(option),
    })
}

/// What stands in the Machine for all to read may stand in the VM, too. What is in a Secret may not.
fn place(user: &CloudInit, network: Option<&CloudInit>) -> CloudInitPlace {
    let secret = user.secret_ref.is_some() || network.is_some_and(|n| n.secret_ref.is_some());
    if secret {
        CloudInitPlace::Secret
    } else {
        CloudInitPlace::Inline
    }
}

/// A text and a Secret are joined. A ConfigMap is a text that stands elsewhere.
fn user_data(
    given: &MachineCloudInit,
    spec: &MachineSpec,
    maps: &ConfigMaps,
) -> Result<CloudInit, LowerError> {
    let plain = filled(given.user_data.as_ref()).or_else(|| filled(spec.user_data.as_ref()));
    let text = text(
        plain,
        ("spec.cloudInit.userDataBase64", &given.user_data_base64),
        (
            "spec.cloudInit.userDataConfigMapRef",
            given.user_data_config_map_ref.as_ref(),
            USER_KEY,
        ),
        maps,
    )?;
    let named = given.secret_ref.as_ref();
    let secret = named.or(given.user_data_secret_ref.as_ref());
    let mut user = document(text, secret);
    if user.inline.is_none() && user.secret_ref.is_none() {
        user.inline = Some(EMPTY.to_owned());
    }
    Ok(user)
}

/// A guest reads one network configuration: a text goes before a Secret.
fn network_data(
    given: &MachineCloudInit,
    maps: &ConfigMaps,
) -> Result<Option<CloudInit>, LowerError> {
    let text = text(
        filled(given.network_data.as_ref()),
        (
            "spec.cloudInit.networkDataBase64",
            &given.network_data_base64,
        ),
        (
            "spec.cloudInit.networkDataConfigMapRef",
            given.network_data_config_map_ref.as_ref(),
            NETWORK_KEY,
        ),
        maps,
    )?;
    let secret = given.network_data_secret_ref.as_ref();
    let network = document(text.clone(), secret.filter(|_| text.is_none()));
    let some = network.inline.is_some() || network.secret_ref.is_some();
    Ok(some.then_some(network))
}

fn document(inline: Option<String>, secret: Option<&MachineDataRef>) -> CloudInit {
    CloudInit {
        inline,
        secret_ref: secret.map(|s| LocalRef::new(&s.name)),
        secret_key: secret.and_then(|s| s.key.clone().filter(|k| !k.is_empty())),
    }
}

fn filled(text: Option<&String>) -> Option<String> {
    text.filter(|t| !t.trim().is_empty()).cloned()
}

type Coded<'a> = (&'static str, &'a Option<String>);
type Mapped<'a> = (&'static str, Option<&'a MachineDataRef>, &'static str);

fn text(
    plain: Option<String>,
    coded: Coded<'_>,
    mapped: Mapped<'_>,
    maps: &ConfigMaps,
) -> Result<Option<String>, LowerError> {
    if plain.is_some() {
        return Ok(plain);
    }
    if let (field, Some(code)) = coded {
        return decoded(field, code).map(Some);
    }
    match mapped {
        (field, Some(wanted), usual) => looked_up(field, wanted, usual, maps).map(Some),
        _ => Ok(None),
    }
}

fn decoded(field: &'static str, code: &str) -> Result<String, LowerError> {
    let plain: String = code.split_whitespace().collect();
    let bytes = BASE64_STANDARD.decode(plain).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| LowerError::invalid(field, "This is no text in Base64. Encode it again"))
}

fn looked_up(
    field: &'static str,
    wanted: &MachineDataRef,
    usual: &str,
    maps: &ConfigMaps,
) -> Result<String, LowerError> {
    let name = &wanted.name;
    let missing = |message| LowerError::Missing {
        field: field.to_owned(),
        message,
    };
    let Some(Some(data)) = maps.get(name) else {
        return Err(missing(format!(
            "There is no ConfigMap {name} in the namespace of the Machine. Create it, or correct the name"
        )));
    };
    let key = wanted.key.as_deref().unwrap_or(usual);
    let text = data.get(key).cloned();
    text.ok_or_else(|| missing(format!("ConfigMap {name} has no key {key}")))
}

/// Keys of a Machine go into its cloud-config, where it has one that can take them.
fn add_keys(user: &mut CloudInit, keys: &[String], ignored: &mut Vec<String>) {
    if keys.is_empty() {
        return;
    }
    let quoted = |key: &String| format!("- {}", serde_json::Value::from(key.trim()));
    let lines: Vec<_> = keys.iter().map(quoted).collect();
    let list = format!("ssh_authorized_keys:\n{}\n", lines.join("\n"));
    match user.inline.take() {
        None => user.inline = Some(format!("#cloud-config\n{list}")),
        Some(text) if text == EMPTY => user.inline = Some(format!("#cloud-config\n{list}")),
        Some(text) if takes_keys(&text) => {
            user.inline = Some(format!("{}\n{list}", text.trim_end()));
        }
        Some(text) => {
            user.inline = Some(text);
            ignored.push("spec.sshKeys beside user data that is no plain cloud-config".to_owned());
        }
    }
}

/// A cloud-config in block style that lists no keys itself.
fn takes_keys(text: &str) -> bool {
    let mut lines = text.lines();
    let head = lines
        .next()
        .is_some_and(|line| line.trim() == "#cloud-config");
    let blocks = |line: &str| !line.starts_with(['{', '[', '.']) && !line.starts_with("---");
    head && lines.all(|line| blocks(line) && !line.starts_with("ssh_authorized_keys"))
}
