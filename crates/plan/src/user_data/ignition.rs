//! Ignition configurations: JSON of a version that an Ignition in the field can read.

use bytes::Bytes;
use serde_json::Value;

use super::document::{Document, only_one};
use super::yaml;
use crate::problem::Problem;

const SUPPORTED: &str = "2.0.0 to 2.4.0, or 3.0.0 and later 3.x";
const NEWEST_2: u64 = 4;

/// The configuration as it is.
pub(super) fn config(documents: &[Document]) -> Result<Bytes, Problem> {
    let document = only_one(documents)?;
    let text = document.text()?;
    check(text).map_err(|message| document.problem(message))?;
    Ok(document.bytes().clone())
}

fn check(text: &str) -> Result<(), String> {
    let config: Value = serde_json::from_str(text).map_err(|e| no_json(text, &e))?;
    if !config.is_object() {
        return Err("An Ignition configuration is a JSON object. Begin it with {".to_owned());
    }
    if config.get("ignitionVersion").is_some() {
        return Err(format!(
            "Version 1 of Ignition is long gone. Write the configuration for version {SUPPORTED}"
        ));
    }
    let version = config.pointer("/ignition/version").and_then(Value::as_str);
    let Some(version) = version else {
        return Err(format!(
            "There is no ignition.version. Set it to the version of the format, {SUPPORTED}"
        ));
    };
    if is_supported(version) {
        return Ok(());
    }
    Err(format!(
        "The ignition.version is not known. Set it to {SUPPORTED}"
    ))
}

fn no_json(text: &str, error: &serde_json::Error) -> String {
    if text.trim_start().starts_with("#cloud-config") {
        return "This is a cloud-config. Move it to spec.userData.cloudInit".to_owned();
    }
    if is_butane(text) {
        return "This is Butane. Transpile it to Ignition first: butane --strict < config.bu > config.ign".to_owned();
    }
    format!(
        "Line {}, column {} is no valid JSON. Correct it",
        error.line(),
        error.column()
    )
}

fn is_butane(text: &str) -> bool {
    let Ok(Some(config)) = yaml::mapping(text) else {
        return false;
    };
    config.contains_key("variant") && config.contains_key("version")
}

/// Experimental versions such as `3.6.0-experimental` are left to the guest.
fn is_supported(version: &str) -> bool {
    let core = version.split_once('-').map_or(version, |(core, _)| core);
    let numbers: Option<Vec<u64>> = core.split('.').map(|n| n.parse().ok()).collect();
    match numbers.as_deref() {
        Some([2, minor, _]) => *minor <= NEWEST_2 || version != core,
        Some([3, _, _]) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        config(&[Document::for_test(text.to_owned())])
            .expect_err(text)
            .message
    }

    #[test]
    fn every_version_in_the_field_is_passed_on_untouched() {
        for version in [
            "2.0.0",
            "2.4.0",
            "2.5.0-experimental",
            "3.0.0",
            "3.5.0",
            "3.7.0-experimental",
        ] {
            let text =
                format!("{{\"ignition\": {{\"version\": \"{version}\"}}, \"passwd\": {{}}}}");
            let found = config(&[Document::for_test(text.clone())]);
            assert_eq!(found, Ok(Bytes::from(text)));
        }
    }

    #[test]
    fn mistakes_are_told_with_advice_and_without_content() {
        for (text, advice) in [
            ("variant: fcos\nversion: 1.5.0\npasswd: hunter2\n", "butane"),
            ("#cloud-config\nusers: []\n", "spec.userData.cloudInit"),
            (
                "{\"ignition\": {\"version\": \"3.4.0\"},\n \"hunter2\" }",
                "Line 2, column",
            ),
            ("[]", "JSON object"),
            ("\"hunter2\"", "JSON object"),
            ("{}", "no ignition.version"),
            ("{\"ignition\": {\"version\": 3}}", "no ignition.version"),
            ("{\"ignition\": {\"version\": \"hunter2\"}}", "not known"),
            ("{\"ignition\": {\"version\": \"3.4\"}}", "3.0.0 and later"),
            ("{\"ignition\": {\"version\": \"2.9.0\"}}", "2.0.0 to 2.4.0"),
            ("{\"ignition\": {\"version\": \"4.0.0\"}}", "not known"),
            ("{\"ignitionVersion\": 1}", "Version 1"),
        ] {
            let message = message(text);
            assert!(message.contains(advice), "{message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
    }
}
