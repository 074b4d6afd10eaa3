//! Devices of hosts: what a request matches, and who gets which.
//!
//! A host tells of devices by name and number: `nvidia.com/tesla-t4: 4`, `sriov/net1: 16`. The part before the slash is the
//! vendor or the kind, the part after it the model. A request matches a name by kind, vendor and model; words are compared
//! without case and whatever stands between them: `Tesla T4` is `nvidia.com/TU104GL_Tesla_T4`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};

use polyvirt_contract::model::Host;

/// What a device is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceKind {
    /// Anything that vendor and model match.
    #[default]
    Any,
    /// A graphics or compute card, or a part of one.
    Gpu,
    /// A virtual function of a network card.
    Sriov,
}

/// Devices of one kind that a VM needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceRequest {
    /// What they are.
    pub kind: DeviceKind,
    /// Who makes them: `nvidia` or `nvidia.com`; empty for anybody.
    pub vendor: String,
    /// The model; for virtual functions the network. Empty for any.
    pub model: String,
    /// How many.
    pub count: u32,
    /// The least memory of each, in MiB; zero for any. The host tells it in the label `<domain>/gpu.memory`, or does not match.
    pub memory_mib: u64,
}

impl Display for DeviceRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            DeviceKind::Any => "",
            DeviceKind::Gpu => "gpu",
            DeviceKind::Sriov => "sriov",
        };
        let words = [kind, self.vendor.as_str(), self.model.as_str()];
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        write!(f, "{} × {}", self.count, words.join(" "))?;
        match self.memory_mib {
            0 => Ok(()),
            least => write!(f, " of {least} MiB"),
        }
    }
}

/// Names that stand for network hardware, whoever makes it.
const NETWORK: [&str; 6] = ["sriov", "rdma", "hostdev", "nic", "hca", "vf"];
/// Makers whose other devices are all cards that compute.
const GPU_MAKERS: [&str; 2] = ["nvidia.com", "amd.com"];

impl DeviceRequest {
    /// Whether a device of this name on this host will do.
    pub fn matches(&self, name: &str, host: &Host) -> bool {
        let (domain, rest) = name.split_once('/').unwrap_or(("", name));
        let kind = match self.kind {
            DeviceKind::Any => true,
            DeviceKind::Gpu => is_gpu(domain, rest),
            DeviceKind::Sriov => is_sriov(domain, rest),
        };
        kind && self.made_by(domain)
            && self.is_model(domain, rest, host)
            && self.has_memory(domain, host)
    }

    fn has_memory(&self, domain: &str, host: &Host) -> bool {
        let told = host.labels.get(&format!("{domain}/gpu.memory"));
        let told: Option<u64> = told.and_then(|mib| mib.parse().ok());
        self.memory_mib == 0 || told.is_some_and(|mib| mib >= self.memory_mib)
    }

    fn made_by(&self, domain: &str) -> bool {
        let (vendor, domain) = (
            self.vendor.to_ascii_lowercase(),
            domain.to_ascii_lowercase(),
        );
        vendor.is_empty() || vendor == domain || domain.split('.').any(|part| part == vendor)
    }

    /// A network is meant by its whole name. A card may be by a part: people say T4. One that is just called `gpu` has its model
    /// in a label of the host.
    fn is_model(&self, domain: &str, rest: &str, host: &Host) -> bool {
        if self.kind == DeviceKind::Sriov {
            return self.model.is_empty() || self.model == rest;
        }
        let product = host.labels.get(&format!("{domain}/gpu.product"));
        let product = product.filter(|_| words(rest) == ["gpu"]);
        let has = |text: &str| contains(&words(text), &words(&self.model));
        has(rest) || product.is_some_and(|product| has(product))
    }
}

fn is_sriov(domain: &str, rest: &str) -> bool {
    domain.eq_ignore_ascii_case("sriov")
        || words(rest)
            .iter()
            .any(|word| word == "sriov" || word == "vf")
}

fn is_gpu(domain: &str, rest: &str) -> bool {
    let words = words(rest);
    let network = words.iter().any(|word| NETWORK.contains(&word.as_str()));
    let made = GPU_MAKERS
        .iter()
        .any(|maker| domain.eq_ignore_ascii_case(maker));
    let named =
        words.iter().any(|word| word == "gpu" || word == "vgpu") || domain.starts_with("gpu.");
    !network && !domain.eq_ignore_ascii_case("sriov") && (made || named)
}

/// The words of a name, in small letters.
fn words(name: &str) -> Vec<String> {
    let parts = name.split(|c: char| !c.is_ascii_alphanumeric());
    parts
        .filter(|part| !part.is_empty())
        .map(str::to_ascii_lowercase)
        .collect()
}

fn contains(all: &[String], some: &[String]) -> bool {
    some.is_empty() || all.windows(some.len()).any(|window| window == some)
}

/// A request that cannot be met, and how many devices are free that match it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The request.
    pub wanted: DeviceRequest,
    /// Free devices that match it.
    pub free: u32,
}

/// How many of each device each VM may have of what is free, so that all requests are met; exact: if there is a way, it is
/// found.
pub fn allocate(
    requests: &[DeviceRequest],
    host: &Host,
    free: &BTreeMap<&str, u32>,
) -> Result<BTreeMap<String, u32>, Missing> {
    let mut matching = Matching::new(requests, host, free);
    for (index, request) in requests.iter().enumerate() {
        for _ in 0..request.count {
            if !matching.give(index, &mut BTreeSet::new()) {
                let free = matching.fitting[index].iter().map(|name| free[name]).sum();
                return Err(Missing {
                    wanted: request.clone(),
                    free,
                });
            }
        }
    }
    Ok(matching.given())
}

/// Devices given to requests so far. One more is given by moving others, if need be: augmenting paths.
struct Matching<'a> {
    /// For each request the names that match it.
    fitting: Vec<Vec<&'a str>>,
    free: &'a BTreeMap<&'a str, u32>,
    /// For each name the requests that have one of it.
    holders: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Matching<'a> {
    fn new(requests: &[DeviceRequest], host: &Host, free: &'a BTreeMap<&'a str, u32>) -> Self {
        let fitting = |request: &DeviceRequest| {
            let names = free.keys().copied();
            names.filter(|name| request.matches(name, host)).collect()
        };
        Self {
            fitting: requests.iter().map(fitting).collect(),
            free,
            holders: BTreeMap::new(),
        }
    }

    fn give(&mut self, request: usize, tried: &mut BTreeSet<&'a str>) -> bool {
        for name in self.fitting[request].clone() {
            if tried.insert(name) && self.make_room(name, tried) {
                self.holders.entry(name).or_default().push(request);
                return true;
            }
        }
        false
    }

    fn make_room(&mut self, name: &'a str, tried: &mut BTreeSet<&'a str>) -> bool {
        let holders = self.holders.get(name).cloned().unwrap_or_default();
        if holders.len() < self.free.get(name).map_or(0, |free| *free as usize) {
            return true;
        }
        let moved = holders.iter().position(|holder| self.give(*holder, tried));
        if let (Some(at), Some(list)) = (moved, self.holders.get_mut(name)) {
            list.remove(at);
        }
        moved.is_some()
    }

    fn given(&self) -> BTreeMap<String, u32> {
        let counted = self.holders.iter().filter(|(_, list)| !list.is_empty());
        counted
            .map(|(name, list)| {
                (
                    (*name).to_owned(),
                    u32::try_from(list.len()).unwrap_or(u32::MAX),
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: DeviceKind, vendor: &str, model: &str, count: u32) -> DeviceRequest {
        DeviceRequest {
            kind,
            vendor: vendor.to_owned(),
            model: model.to_owned(),
            count,
            memory_mib: 0,
        }
    }

    #[test]
    fn requests_match_names() {
        let mut host = Host::default();
        host.labels.insert(
            "amd.com/gpu.product".to_owned(),
            "Instinct-MI300X".to_owned(),
        );
        let table = [
            (DeviceKind::Gpu, "", "", "nvidia.com/gpu", true),
            (DeviceKind::Gpu, "", "", "nvidia.com/tesla-t4", true),
            (DeviceKind::Gpu, "", "", "gpu.intel.com/i915", true),
            (DeviceKind::Gpu, "", "", "example.com/vgpu-8", true),
            (DeviceKind::Gpu, "", "", "sriov/net1", false),
            (DeviceKind::Gpu, "", "", "nvidia.com/hostdev", false),
            (DeviceKind::Gpu, "", "", "example.com/fpga", false),
            (DeviceKind::Gpu, "nvidia", "", "nvidia.com/gpu", true),
            (
                DeviceKind::Gpu,
                "NVIDIA",
                "Tesla T4",
                "nvidia.com/TU104GL_Tesla_T4",
                true,
            ),
            (
                DeviceKind::Gpu,
                "nvidia.com",
                "tesla-t4",
                "nvidia.com/tesla-t4",
                true,
            ),
            (DeviceKind::Gpu, "", "t4", "nvidia.com/tesla-t4", true),
            (DeviceKind::Gpu, "", "t4", "nvidia.com/tesla-t40", false),
            (DeviceKind::Gpu, "amd", "", "nvidia.com/gpu", false),
            (DeviceKind::Gpu, "intel", "", "gpu.intel.com/i915", true),
            (DeviceKind::Gpu, "", "a100", "nvidia.com/gpu", false),
            (DeviceKind::Gpu, "", "MI300X", "amd.com/gpu", true),
            (DeviceKind::Sriov, "", "", "sriov/net1", true),
            (DeviceKind::Sriov, "", "net1", "sriov/net1", true),
            (DeviceKind::Sriov, "", "net2", "sriov/net1", false),
            (DeviceKind::Sriov, "", "storage", "sriov/storage", true),
            (
                DeviceKind::Sriov,
                "",
                "storage",
                "sriov/backup-storage",
                false,
            ),
            (DeviceKind::Sriov, "", "a-b", "sriov/a.b", false),
            (
                DeviceKind::Sriov,
                "",
                "",
                "intel.com/intel_sriov_netdevice",
                true,
            ),
            (DeviceKind::Sriov, "", "", "nvidia.com/gpu", false),
            (
                DeviceKind::Any,
                "example.com",
                "fpga",
                "example.com/fpga",
                true,
            ),
            (DeviceKind::Any, "", "fpga", "sriov/net1", false),
        ];
        for (kind, vendor, model, name, expected) in table {
            let request = request(kind, vendor, model, 1);
            assert_eq!(
                request.matches(name, &host),
                expected,
                "{request} and {name}"
            );
        }
    }

    #[test]
    fn a_card_has_the_memory_that_its_host_tells() {
        let mut telling = Host::default();
        let label = ("nvidia.com/gpu.memory".to_owned(), "16384".to_owned());
        telling.labels.extend([label]);
        let silent = Host::default();
        for (least, host, expected) in [
            (0, &silent, true),
            (8192, &silent, false),
            (16384, &telling, true),
            (16385, &telling, false),
        ] {
            let wanted = DeviceRequest {
                memory_mib: least,
                ..request(DeviceKind::Gpu, "", "", 1)
            };
            assert_eq!(wanted.matches("nvidia.com/gpu", host), expected, "{wanted}");
        }
    }

    #[test]
    fn a_request_that_takes_anything_gives_way_to_one_that_does_not() {
        let free = BTreeMap::from([("nvidia.com/a100", 1), ("nvidia.com/t4", 1)]);
        let any = request(DeviceKind::Gpu, "", "", 1);
        let a100 = request(DeviceKind::Gpu, "", "a100", 1);
        let both = allocate(&[any.clone(), a100.clone()], &Host::default(), &free).expect("both");
        assert_eq!(both.values().sum::<u32>(), 2);
        let missing =
            allocate(&[a100.clone(), a100.clone()], &Host::default(), &free).expect_err("one only");
        assert_eq!((missing.wanted, missing.free), (a100, 1));
        let missing = allocate(
            &[request(DeviceKind::Sriov, "", "", 1)],
            &Host::default(),
            &free,
        );
        assert_eq!(missing.expect_err("none").free, 0);
        assert_eq!(any.to_string(), "1 × gpu");
    }
}
