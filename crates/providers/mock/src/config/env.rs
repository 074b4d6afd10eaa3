//! The environment of a provider's process, as managers in the field set it.

use std::time::Duration;

use polyvirt_contract::ErrorKind;

use crate::config::{ConfigError, MockConfig};
use crate::faults::{Effect, Latency, Often, Rule};
use crate::rpc::Rpc;

impl MockConfig {
    /// Reads `PROVIDER_ENDPOINT`, `MOCK_FAILURE_MODE` (a call such as `create`, several with commas, or `all`) and
    /// `MOCK_SLOW_MODE` (`true`: answers take 100 to 600 ms).
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let set = |key: &str| get(key).filter(|value| !value.trim().is_empty());
        let mut config = match set("PROVIDER_ENDPOINT") {
            Some(url) => Self::from_url(&url)?,
            None => Self::default(),
        };
        for word in set("MOCK_FAILURE_MODE")
            .iter()
            .flat_map(|modes| modes.split(','))
        {
            config.faults.push(failure_mode(word.trim())?);
        }
        if set("MOCK_SLOW_MODE").is_some_and(|value| value == "true") {
            config.faults.push(Rule::Latency(Latency {
                min: Duration::from_millis(100),
                max: Duration::from_millis(600),
            }));
        }
        Ok(config)
    }
}

fn failure_mode(word: &str) -> Result<Rule, ConfigError> {
    let rpc = match word {
        "all" => None,
        word => Some(Rpc::parse(word).ok_or_else(|| ConfigError::BadValue {
            key: "MOCK_FAILURE_MODE".to_owned(),
            value: word.to_owned(),
            want: "a call such as create or image_prepare, or all",
        })?),
    };
    Ok(Rule::Call {
        rpc,
        effect: Effect::Fail(ErrorKind::Internal),
        often: Often::Always,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<MockConfig, ConfigError> {
        MockConfig::from_env(|key| {
            let found = pairs.iter().find(|(k, _)| *k == key);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn an_empty_environment_is_the_default() {
        assert_eq!(
            read(&[("MOCK_FAILURE_MODE", "")]),
            Ok(MockConfig::default())
        );
    }

    #[test]
    fn modes_become_rules() {
        let config = read(&[
            ("PROVIDER_ENDPOINT", "mock://memory?seed=9"),
            ("MOCK_FAILURE_MODE", "image_prepare,all"),
            ("MOCK_SLOW_MODE", "true"),
        ])
        .expect("readable");
        assert_eq!(config.seed, 9);
        let fail = Effect::Fail(ErrorKind::Internal);
        assert_eq!(
            config.faults[0],
            Rule::call(Rpc::ImagePrepare, fail, Often::Always)
        );
        assert!(matches!(config.faults[1], Rule::Call { rpc: None, .. }));
        assert!(matches!(config.faults[2], Rule::Latency(_)));
    }

    #[test]
    fn an_unknown_mode_is_named() {
        let error = read(&[("MOCK_FAILURE_MODE", "explode")]).expect_err("unknown");
        assert!(error.to_string().contains("explode"), "{error}");
    }
}
