//! What a clone is to have of its own.

use serde::Deserialize;
use serde_json::Value;

use crate::model::CloneVm;
use crate::{ProviderError, Result};

const CUSTOMIZATION: &str = "spec.customization";

/// A request to clone, read and checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneWish {
    /// What changes in the guest.
    pub customization: Customization,
    /// The size of the copy; `None` for that of its source.
    pub size: Option<CloneSize>,
}

/// Another size than that of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloneSize {
    /// Virtual CPUs.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The first disk has at least so many GiB; 0 for whatever it has.
    pub root_gib: u32,
}

/// The parts of a guest customization that providers carry out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Customization {
    /// The guest's host name; empty for that of the copy.
    pub hostname: String,
    /// Tags in the place of those of the source; empty to keep these.
    pub tags: Vec<String>,
    /// Addresses of cards.
    pub networks: Vec<CardCustomization>,
}

/// The address of one card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CardCustomization {
    /// The card.
    pub name: String,
    /// Whether a server is asked for the address; `None` if nothing is said.
    pub dhcp: Option<bool>,
    /// A fixed address; empty for none.
    pub ip_address: String,
    /// The network part of the address, such as 255.255.255.0.
    pub subnet_mask: String,
    /// The default gateway.
    pub gateway: String,
    /// Name servers.
    pub dns: Vec<String>,
}

/// Reads a request to clone. `acts` lists the fields of the customization that the provider carries out
/// (`networks[].gateway`); any other that says something is refused, so that nothing is passed over in silence.
pub fn read_clone(request: &CloneVm, acts: &[&str]) -> Result<CloneWish> {
    if request.target_name.is_empty() {
        let message = "A clone needs a name";
        return Err(ProviderError::invalid("spec.target.name", message));
    }
    Ok(CloneWish {
        customization: customization(&request.customize_json, acts)?,
        size: size(request)?,
    })
}

fn size(request: &CloneVm) -> Result<Option<CloneSize>> {
    let Some(class) = &request.class else {
        return Ok(None);
    };
    if class.cpu == 0 || class.memory_mib == 0 {
        let message = "The class of a clone needs CPUs and memory";
        return Err(ProviderError::invalid("spec.target.classRef", message));
    }
    Ok(Some(CloneSize {
        cpu: class.cpu,
        memory_mib: class.memory_mib,
        root_gib: class.disk_defaults.as_ref().map_or(0, |disk| disk.size_gib),
    }))
}

fn customization(json: &str, acts: &[&str]) -> Result<Customization> {
    if json.trim().is_empty() {
        return Ok(Customization::default());
    }
    let value: Value = serde_json::from_str(json).map_err(|error| unreadable(&error))?;
    let mut said = Vec::new();
    leaves("", &value, &mut said);
    if let Some(field) = said.iter().find(|field| !acts.contains(&field.as_str())) {
        let message = format!(
            "This provider cannot carry out {field} for a clone; take it away, and do it in the guest"
        );
        return Err(ProviderError::invalid(
            format!("{CUSTOMIZATION}.{field}"),
            message,
        ));
    }
    serde_json::from_value(value).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> ProviderError {
    // Only the place is told, and never what is there, which may be secret.
    let place = match (error.line(), error.column()) {
        (0, _) => "a field has the wrong type".to_owned(),
        (line, column) => format!("line {line}, column {column}"),
    };
    let message = format!(
        "The customization cannot be read ({place}); write it as in VMClone.spec.customization"
    );
    ProviderError::invalid(CUSTOMIZATION, message)
}

/// The paths of all fields that say something: not those that are empty, or false as when they are left out.
fn leaves(path: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Null | Value::Bool(false) => {}
        Value::String(text) if text.is_empty() => {}
        Value::Array(items) => {
            let path = format!("{path}[]");
            for item in items {
                leaves(&path, item, found);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                leaves(&format!("{path}{dot}{name}"), value, found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClassSpec, CloneMode};

    const ACTS: &[&str] = &["hostname", "tags[]", "networks[].name"];

    fn request(json: &str) -> CloneVm {
        CloneVm {
            owner: None,
            source: "a".into(),
            target_name: "b".to_owned(),
            mode: CloneMode::Full,
            class: None,
            placement: None,
            customize_json: json.to_owned(),
        }
    }

    #[test]
    fn what_acts_is_read_and_what_says_nothing_is_no_trouble() {
        let json = r#"{"hostname":"x","tags":["t"],"networks":[{"name":"n","dns":[]}],"domain":"","sysprep":{"enabled":false}}"#;
        let wish = read_clone(&request(json), ACTS).expect("readable");
        assert_eq!(wish.customization.hostname, "x");
        assert_eq!(wish.customization.networks[0].name, "n");
        assert_eq!(wish.size, None);
        assert_eq!(
            read_clone(&request(" "), ACTS).expect("readable"),
            CloneWish::default()
        );
    }

    #[test]
    fn what_does_not_act_is_refused_by_name() {
        for (json, field) in [
            (r#"{"timeZone":"UTC"}"#, "timeZone"),
            (
                r#"{"networks":[{"name":"n"},{"gateway":"10.0.0.1"}]}"#,
                "networks[].gateway",
            ),
            (
                r#"{"guestCommands":[{"command":"x"}]}"#,
                "guestCommands[].command",
            ),
        ] {
            let error = read_clone(&request(json), ACTS).expect_err("refused");
            let at = format!("spec.customization.{field}");
            assert_eq!(error.field.as_deref(), Some(at.as_str()));
            assert!(error.message.contains(field), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_repeated() {
        for json in ["{", r#"{"hostname":["secret"]}"#, "7"] {
            let error = read_clone(&request(json), &["hostname", "hostname[]", ""]);
            let error = error.expect_err("refused");
            assert_eq!(error.field.as_deref(), Some(CUSTOMIZATION));
            assert!(!error.message.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_class_without_a_size_is_refused() {
        let mut wanted = request("");
        wanted.class = Some(ClassSpec::default());
        let error = read_clone(&wanted, ACTS).expect_err("refused");
        assert_eq!(error.field.as_deref(), Some("spec.target.classRef"));
    }
}
