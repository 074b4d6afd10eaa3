//! Devices of a host that its operator lends to VMs: graphics cards, network functions, parts of either.
//!
//! ```text
//!   devices=nvidia.com/tesla-t4@0000:41:00.0,nvidia.com/tesla-t4@0000:42:00.0,nvidia.com/grid@83b8f4f2-509f-382f-3c1e-e6bfe0fa1001
//! ```
//!
//! Only what is named here is lent: a device can read and write the memory of its VM, and most of the host's devices are in
//! use by the host. A device is lent to one VM at a time; who has it is written in the VM's own definition, so that nothing
//! can be out of step with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use polyvirt_contract::{ErrorKind, ProviderError, Result};
use serde::{Deserialize, Serialize};

/// Where a device is on its host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum DeviceAddress {
    /// A function on the PCI bus.
    Pci {
        /// The domain.
        domain: u16,
        /// The bus.
        bus: u8,
        /// The slot.
        slot: u8,
        /// The function.
        function: u8,
    },
    /// A part of a device that its driver has cut off, by UUID.
    Mediated(String),
}

/// A text is no address of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoAddress(String);

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        write!(
            f,
            "{text:?} is no address of a device; write it as lspci -D does (0000:41:00.0), or the UUID of a mediated device"
        )
    }
}

impl std::error::Error for NoAddress {}

impl TryFrom<String> for DeviceAddress {
    type Error = NoAddress;

    fn try_from(text: String) -> std::result::Result<Self, NoAddress> {
        let found = pci(&text).or_else(|| mediated(&text));
        found.ok_or(NoAddress(text))
    }
}

impl From<DeviceAddress> for String {
    fn from(address: DeviceAddress) -> Self {
        address.to_string()
    }
}

impl fmt::Display for DeviceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pci {
                domain,
                bus,
                slot,
                function,
            } => write!(f, "{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"),
            Self::Mediated(uuid) => f.write_str(uuid),
        }
    }
}

fn pci(text: &str) -> Option<DeviceAddress> {
    let (rest, function) = text.rsplit_once('.')?;
    let mut parts = rest.split(':');
    let mut next = |most: u32| number(parts.next()?, most);
    let (domain, bus, slot) = (next(0xffff)?, next(0xff)?, next(0x1f)?);
    let end = parts.next().is_none();
    let address = DeviceAddress::Pci {
        domain: u16::try_from(domain).ok()?,
        bus: u8::try_from(bus).ok()?,
        slot: u8::try_from(slot).ok()?,
        function: u8::try_from(number(function, 7)?).ok()?,
    };
    end.then_some(address)
}

fn number(text: &str, most: u32) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u32::from_str_radix(text, 16).ok().filter(|_| digits)?;
    (number <= most).then_some(number)
}

fn mediated(text: &str) -> Option<DeviceAddress> {
    let lengths = text.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    let digits = text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
    (lengths && digits).then(|| DeviceAddress::Mediated(text.to_ascii_lowercase()))
}

/// What a host lends, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices(BTreeMap<String, BTreeSet<DeviceAddress>>);

impl Devices {
    /// Reads `name@address,name@address`. `None` if that is no list of devices, or one is named twice.
    pub fn parse(text: &str) -> Option<Self> {
        let mut named = BTreeMap::<String, BTreeSet<_>>::new();
        let mut all = BTreeSet::new();
        for entry in text.split(',').map(str::trim).filter(|e| !e.is_empty()) {
            let (name, address) = entry.rsplit_once('@')?;
            let address = DeviceAddress::try_from(address.to_owned()).ok()?;
            if !is_name(name) || !all.insert(address.clone()) {
                return None;
            }
            named.entry(name.to_owned()).or_default().insert(address);
        }
        Some(Self(named))
    }

    /// How many there are of each, used or not.
    pub fn counts(&self) -> BTreeMap<String, u32> {
        let count = |all: &BTreeSet<_>| u32::try_from(all.len()).unwrap_or(u32::MAX);
        let counts = self.0.iter().map(|(name, all)| (name.clone(), count(all)));
        counts.collect()
    }

    /// Whether the device is lent at all.
    pub fn has(&self, device: &DeviceAddress) -> bool {
        self.0.values().any(|all| all.contains(device))
    }

    /// Devices for a VM, none of which another one has. The caller sees to it that nobody else chooses until the choice is
    /// written down.
    pub fn choose(
        &self,
        asked: &BTreeMap<String, u32>,
        taken: &BTreeSet<DeviceAddress>,
    ) -> Result<Vec<DeviceAddress>> {
        let mut chosen = Vec::new();
        for (name, number) in asked {
            let wanted = usize::try_from(*number).unwrap_or(usize::MAX);
            let all = self.0.get(name).into_iter().flatten();
            let free = all.filter(|address| !taken.contains(address));
            let before = chosen.len();
            chosen.extend(free.take(wanted).cloned());
            let found = chosen.len() - before;
            if found < wanted {
                return Err(self.too_few(name, wanted, found));
            }
        }
        Ok(chosen)
    }

    fn too_few(&self, name: &str, wanted: usize, free: usize) -> ProviderError {
        let text = match self.0.get(name) {
            Some(all) => format!(
                "{wanted} of {name} are asked for and {free} of {} are free on this host; wait for a VM that gives one back, or add devices",
                all.len()
            ),
            None => format!(
                "This host lends no {name}; name its devices in the option devices of the Provider's endpoint ({name}@ADDRESS)"
            ),
        };
        ProviderError::new(ErrorKind::Exhausted, text).at("spec.resources.devices")
    }
}

fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    !text.is_empty() && text.len() <= 128 && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "nvidia.com/t4@0000:41:00.0, nvidia.com/t4@0000:42:00.1,nvidia.com/grid@83B8F4F2-509f-382f-3c1e-e6bfe0fa1001";

    fn address(text: &str) -> DeviceAddress {
        DeviceAddress::try_from(text.to_owned()).expect("an address")
    }

    fn asked(name: &str, number: u32) -> BTreeMap<String, u32> {
        BTreeMap::from([(name.to_owned(), number)])
    }

    #[test]
    fn addresses_are_read_as_tools_print_them() {
        for text in ["0000:41:00.0", "00ff:03:1f.7"] {
            assert_eq!(address(text).to_string(), text);
        }
        let uuid = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001";
        assert_eq!(address(uuid), DeviceAddress::Mediated(uuid.to_owned()));
        for wrong in [
            "",
            "41:00.0",
            "0000:41:00",
            "0000:41:20.0",
            "0000:41:00.8",
            "0000:41:00:1.0",
            "0000:+1:00.0",
            "83b8f4f2",
        ] {
            assert!(
                DeviceAddress::try_from(wrong.to_owned()).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_list_names_each_device_once() {
        let devices = Devices::parse(LIST).expect("readable");
        let counts = devices.counts();
        assert_eq!(counts["nvidia.com/t4"], 2);
        assert_eq!(counts["nvidia.com/grid"], 1);
        assert_eq!(Devices::parse(""), Some(Devices::default()));
        for wrong in [
            "t4",
            "@0000:41:00.0",
            "t4@here",
            "a b@0000:41:00.0",
            "a@0000:41:00.0,b@0000:41:00.0",
        ] {
            assert_eq!(Devices::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_device_that_somebody_has_is_not_lent_again() {
        let devices = Devices::parse(LIST).expect("readable");
        let taken = BTreeSet::from([address("0000:41:00.0")]);
        let one = devices.choose(&asked("nvidia.com/t4", 1), &taken);
        assert_eq!(one.expect("one is free"), [address("0000:42:00.1")]);
        let two = devices.choose(&asked("nvidia.com/t4", 2), &taken);
        let two = two.expect_err("one is free");
        assert_eq!(two.kind, ErrorKind::Exhausted);
        assert!(two.message.contains("1 of 2 are free"), "{two}");
        let none = devices.choose(&asked("amd.com/mi300", 1), &taken);
        let none = none.expect_err("there is none");
        assert!(none.message.contains("amd.com/mi300@ADDRESS"), "{none}");
    }

    /// Eight devices, a thousand requests in random order: nobody ever has what another one has.
    #[test]
    fn a_thousand_requests_for_eight_devices() {
        let list: Vec<_> = (0..8).map(|i| format!("gpu@0000:0{i}:00.0")).collect();
        let devices = Devices::parse(&list.join(",")).expect("readable");
        let mut held = BTreeMap::<u64, Vec<DeviceAddress>>::new();
        let (mut seed, mut served, mut refused) = (0x9e37_79b9_7f4a_7c15_u64, 0, 0);
        for request in 0..1000_u64 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            if seed.is_multiple_of(3) {
                held.pop_first();
            }
            let number = u32::try_from(seed % 4 + 1).expect("small");
            let taken: BTreeSet<_> = held.values().flatten().cloned().collect();
            match devices.choose(&asked("gpu", number), &taken) {
                Ok(chosen) => {
                    assert_eq!(chosen.len(), number as usize);
                    assert!(chosen.iter().all(|device| !taken.contains(device)));
                    held.insert(request, chosen);
                    served += 1;
                }
                Err(_) => refused += 1,
            }
        }
        assert!(served > 100 && refused > 100, "{served} {refused}");
    }
}
