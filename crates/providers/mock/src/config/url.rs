//! `mock://memory?createTime=3s&asyncTasks=true&fail=Create:Unavailable:3`.

use std::path::PathBuf;

use crate::clock::Clock;
use crate::config::{ConfigError, MockConfig, Offer, Resize, Storage, TaskMode};
use crate::faults::Rule;
use crate::units;

/// Options that are not faults.
const KEYS: &[&str] = &[
    "asyncTasks",
    "basic",
    "clock",
    "onlineResize",
    "seed",
    "stagingDir",
    "watchBuffer",
    "hosts",
    "hostCpus",
    "hostMemory",
    "hostGpus",
    "hostVfs",
    "zones",
    "missingImage",
    "corruptImage",
    "createTime",
    "deleteTime",
    "powerTime",
    "reconfigureTime",
    "snapshotTime",
    "cloneTime",
    "imageTime",
    "diskTime",
    "bootTime",
    "shutdownTime",
];

pub(super) fn known_keys() -> String {
    [KEYS, Rule::KEYS].concat().join(", ")
}

impl MockConfig {
    /// Reads a `Provider.spec.endpoint`: `mock://memory` or `mock:///a/folder`, with options after a `?`. An option may be
    /// given more than once where it names one of many things (faults, images).
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let not_a_mock = || ConfigError::NotAMock(url.to_owned());
        let rest = url.strip_prefix("mock://").ok_or_else(not_a_mock)?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let storage = match place.strip_suffix('/').unwrap_or(place) {
            "" if place.is_empty() => Storage::Memory,
            "memory" => Storage::Memory,
            path if path.starts_with('/') => Storage::Directory(PathBuf::from(decoded(path))),
            _ => return Err(not_a_mock()),
        };
        let mut config = Self {
            storage,
            ..Self::default()
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            config.set(&decoded(key), &decoded(value))?;
        }
        Ok(config)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        if Rule::KEYS.contains(&key) {
            self.faults.push(Rule::parse(key, value)?);
            return Ok(());
        }
        if let Some(time) = self.time(key) {
            *time = read(key, value, "a time such as 50ms or 3s", units::duration)?;
            return Ok(());
        }
        self.set_option(key, value)
    }

    fn time(&mut self, key: &str) -> Option<&mut std::time::Duration> {
        let times = &mut self.times;
        Some(match key {
            "createTime" => &mut times.create,
            "deleteTime" => &mut times.delete,
            "powerTime" => &mut times.power,
            "reconfigureTime" => &mut times.reconfigure,
            "snapshotTime" => &mut times.snapshot,
            "cloneTime" => &mut times.clone,
            "imageTime" => &mut times.image,
            "diskTime" => &mut times.disk,
            "bootTime" => &mut times.boot,
            "shutdownTime" => &mut times.shutdown,
            _ => return None,
        })
    }

    fn set_option(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let truth = |a, b| {
            read(key, value, "true or false", units::truth).map(|yes| if yes { a } else { b })
        };
        match key {
            "asyncTasks" => {
                let yes = read(key, value, "true or false", units::truth)?;
                self.tasks = if yes {
                    TaskMode::Async
                } else {
                    TaskMode::Immediate
                };
            }
            "basic" => {
                let yes = read(key, value, "true or false", units::truth)?;
                self.offer = if yes { Offer::Basic } else { Offer::Full };
            }
            "onlineResize" => self.resize = truth(Resize::Online, Resize::AtRestart)?,
            "clock" => self.clock = read(key, value, "tokio or manual", clock)?,
            "missingImage" => drop(self.missing_images.insert(value.to_owned())),
            "corruptImage" => drop(self.corrupt_images.insert(value.to_owned())),
            "stagingDir" => self.staging = PathBuf::from(value),
            _ => return self.set_number(key, value),
        }
        Ok(())
    }

    fn set_number(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        const WANT: &str = "a whole number";
        match key {
            "seed" => self.seed = read(key, value, WANT, |v| v.parse().ok())?,
            "watchBuffer" => self.watch_buffer = read(key, value, WANT, positive)?,
            "hosts" => self.hosts.count = read(key, value, WANT, positive)?,
            "zones" => self.hosts.zones = read(key, value, WANT, positive)?,
            "hostGpus" => self.hosts.gpus = read(key, value, WANT, positive)?,
            "hostVfs" => self.hosts.virtual_functions = read(key, value, WANT, positive)?,
            "hostCpus" => self.hosts.cpus = read(key, value, WANT, positive)?,
            "hostMemory" => {
                self.hosts.memory_mib =
                    read(key, value, "a size such as 256Gi", units::memory_mib)?;
            }
            _ => return Err(ConfigError::UnknownKey(key.to_owned())),
        }
        Ok(())
    }
}

fn positive<T: std::str::FromStr + PartialOrd + From<u8>>(text: &str) -> Option<T> {
    text.parse().ok().filter(|number| *number >= T::from(1))
}

fn clock(word: &str) -> Option<Clock> {
    match word {
        "tokio" => Some(Clock::Tokio),
        "manual" => Some(Clock::Manual),
        _ => None,
    }
}

fn read<T>(
    key: &str,
    value: &str,
    want: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T, ConfigError> {
    parse(value).ok_or_else(|| ConfigError::BadValue {
        key: key.to_owned(),
        value: value.to_owned(),
        want,
    })
}

/// Undoes percent-encoding; a `%` that encodes nothing stays, because `10%` is how a person writes a chance.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = (byte == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        let byte_of = |hex| u8::from_str_radix(hex, 16).ok();
        let (value, length) = hex.and_then(byte_of).map_or((byte, 1), |value| (value, 3));
        out.push(value);
        at += length;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_example_of_the_documentation_is_read() {
        let url = "mock://memory?latency=50ms&createTime=3s&asyncTasks=true&fail=Create:Unavailable:3&lose=Create:1\
                   &hosts=4&hostCpus=64&hostMemory=256Gi&seed=1&break=10%&missingImage=a%20b";
        let config = MockConfig::from_url(url).expect("readable");
        assert_eq!(config.storage, Storage::Memory);
        assert_eq!(config.tasks, TaskMode::Async);
        assert_eq!(config.times.create, Duration::from_secs(3));
        assert_eq!(config.faults.len(), 4);
        assert_eq!(config.hosts.count, 4);
        assert_eq!(config.hosts.memory_mib, 256 * 1024);
        assert_eq!(config.seed, 1);
        assert!(config.missing_images.contains("a b"));
    }

    #[test]
    fn folders_and_defaults() {
        let config =
            MockConfig::from_url("mock:///var/lib/polyvirt-mock?basic=true").expect("readable");
        let folder = PathBuf::from("/var/lib/polyvirt-mock");
        assert_eq!(config.storage, Storage::Directory(folder));
        assert_eq!(config.offer, Offer::Basic);
        for url in ["mock://", "mock://memory", "mock://memory/"] {
            assert_eq!(
                MockConfig::from_url(url),
                Ok(MockConfig::default()),
                "{url}"
            );
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (url, word) in [
            ("qemu://x", "qemu://x"),
            ("mock://elsewhere", "elsewhere"),
            ("mock:///", "mock:///"),
            ("mock://memory?createTme=3s", "createTime"),
            ("mock://memory?createTime=soon", "soon"),
            ("mock://memory?hosts=0", "hosts"),
            ("mock://memory?hostMemory=256G", "256Gi"),
            ("mock://memory?fail=Create", "fail=Create"),
            ("mock://memory?asyncTasks=yes", "true or false"),
        ] {
            let error = MockConfig::from_url(url).expect_err(url).to_string();
            assert!(error.contains(word), "{url}: {error}");
        }
    }
}
