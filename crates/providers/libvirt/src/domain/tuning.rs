//! What of a class becomes which element, and which words of `extraConfig` are understood.

use polyvirt_contract::model::{ClassSpec, ResourceLimits};
use polyvirt_contract::{ProviderError, Result};
use polyvirt_provider_kit::devices::DeviceAddress;

use crate::xml::Element;

/// Words of `class.extraConfig` that act here. Those of other hypervisors have other beginnings and are passed over.
pub(crate) const WORDS: &[&str] = &[
    "libvirt.cpuMode",
    "libvirt.cpuModel",
    "libvirt.diskCache",
    "libvirt.diskIo",
    "libvirt.growFileSystems",
    "libvirt.hostdev",
    "libvirt.hugepages",
    "libvirt.iotune.readBytesSec",
    "libvirt.iotune.readIopsSec",
    "libvirt.iotune.totalBytesSec",
    "libvirt.iotune.totalIopsSec",
    "libvirt.iotune.writeBytesSec",
    "libvirt.iotune.writeIopsSec",
    "libvirt.machine",
    "libvirt.numaNodeset",
    "libvirt.ovs",
    "libvirt.video",
];
const OURS: &str = "libvirt.";
const FIELD: &str = "class.extraConfig";
const IOTUNE: &[(&str, &str)] = &[
    ("totalBytesSec", "total_bytes_sec"),
    ("readBytesSec", "read_bytes_sec"),
    ("writeBytesSec", "write_bytes_sec"),
    ("totalIopsSec", "total_iops_sec"),
    ("readIopsSec", "read_iops_sec"),
    ("writeIopsSec", "write_iops_sec"),
];

/// How disks are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskTuning {
    pub(crate) cache: Option<String>,
    pub(crate) io: Option<String>,
    pub(crate) iotune: Option<Element>,
}

/// Whether guests are asked to grow the file systems of disks that have grown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FileSystems {
    #[default]
    Grow,
    Leave,
}

/// What kind of machine a VM is, as far as its buses go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Board {
    /// PCI Express; devices are on root ports.
    #[default]
    Q35,
    /// PCI; devices are on one bus. It has neither secure boot nor an IOMMU.
    I440fx,
}

impl Board {
    fn of(machine: &str) -> Option<Self> {
        match machine {
            "q35" => Some(Self::Q35),
            "pc" => Some(Self::I440fx),
            _ if machine.starts_with("pc-q35-") => Some(Self::Q35),
            _ if machine.starts_with("pc-i440fx-") => Some(Self::I440fx),
            _ => None,
        }
    }
}

/// What `extraConfig` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    pub(crate) machine: Option<String>,
    pub(crate) board: Board,
    pub(crate) cpu_mode: Option<String>,
    pub(crate) cpu_model: Option<String>,
    /// A page size in KiB; 0 for the host's default.
    pub(crate) hugepages: Option<u64>,
    pub(crate) numa_nodeset: Option<String>,
    pub(crate) video: Option<String>,
    pub(crate) ovs: bool,
    /// Devices of the host.
    pub(crate) hostdevs: Vec<DeviceAddress>,
    pub(crate) disks: DiskTuning,
    pub(crate) file_systems: FileSystems,
}

/// Reads `extraConfig`. A word of ours that is not known, or a value that makes no sense, is refused.
pub(crate) fn extra(class: &ClassSpec) -> Result<Extra> {
    let ours = class
        .extra_config
        .keys()
        .filter(|key| key.starts_with(OURS));
    for key in ours {
        if !WORDS.contains(&key.as_str()) {
            return Err(wrong(key, &format!("known are {}", WORDS.join(", "))));
        }
    }
    let word = |name: &str| class.extra_config.get(&format!("{OURS}{name}")).cloned();
    let machine = checked("machine", word("machine"), is_word)?;
    Ok(Extra {
        board: board(machine.as_deref(), class)?,
        machine,
        cpu_mode: checked("cpuMode", word("cpuMode"), is_cpu_mode)?,
        cpu_model: checked("cpuModel", word("cpuModel"), is_word)?,
        hugepages: word("hugepages").map(|text| hugepages(&text)).transpose()?,
        numa_nodeset: checked("numaNodeset", word("numaNodeset"), is_nodeset)?,
        video: checked("video", word("video"), is_word)?,
        ovs: word("ovs").is_some_and(|text| text == "true"),
        hostdevs: hostdevs(&word("hostdev").unwrap_or_default())?,
        disks: DiskTuning {
            cache: checked("diskCache", word("diskCache"), is_cache)?,
            io: checked("diskIo", word("diskIo"), is_io)?,
            iotune: iotune(word)?,
        },
        file_systems: match checked("growFileSystems", word("growFileSystems"), is_switch)? {
            Some(text) if text == "false" => FileSystems::Leave,
            _ => FileSystems::Grow,
        },
    })
}

fn wrong(key: &str, why: &str) -> ProviderError {
    ProviderError::invalid(FIELD, format!("{key} is not understood; {why}"))
}

fn checked(name: &str, value: Option<String>, fits: fn(&str) -> bool) -> Result<Option<String>> {
    match value {
        Some(text) if !fits(&text) => {
            let key = format!("{OURS}{name}");
            Err(wrong(&key, &format!("it cannot be {text:?}")))
        }
        other => Ok(other),
    }
}

fn board(machine: Option<&str>, class: &ClassSpec) -> Result<Board> {
    let Some(name) = machine else {
        return Ok(Board::default());
    };
    let key = format!("{OURS}machine");
    let known = || {
        wrong(
            &key,
            &format!(
                "{name} is not supported. Use q35, pc, or a version of one of them such as pc-q35-8.2 or pc-i440fx-8.2"
            ),
        )
    };
    let board = Board::of(name).ok_or_else(known)?;
    let security = class.security.as_ref();
    let modern = security.is_some_and(|security| security.secure_boot || security.vtd);
    if board == Board::I440fx && modern {
        let text = format!(
            "{key}: {name} has neither secure boot nor an IOMMU. Use q35, or remove them from class.securityProfile"
        );
        return Err(ProviderError::invalid(FIELD, text));
    }
    Ok(board)
}

fn is_word(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.chars().all(fits)
}

fn is_switch(text: &str) -> bool {
    matches!(text, "true" | "false")
}

fn is_cpu_mode(text: &str) -> bool {
    matches!(
        text,
        "host-passthrough" | "host-model" | "maximum" | "custom"
    )
}

fn is_cache(text: &str) -> bool {
    let known = [
        "default",
        "none",
        "writethrough",
        "writeback",
        "directsync",
        "unsafe",
    ];
    known.contains(&text)
}

fn is_io(text: &str) -> bool {
    matches!(text, "threads" | "native" | "io_uring")
}

fn is_nodeset(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_digit() || matches!(c, ',' | '-' | '^');
    !text.is_empty() && text.chars().all(fits)
}

fn hugepages(text: &str) -> Result<u64> {
    match text {
        "true" => Ok(0),
        "2Mi" => Ok(2048),
        "1Gi" => Ok(1 << 20),
        _ => Err(wrong("libvirt.hugepages", "write true, 2Mi or 1Gi")),
    }
}

/// `0000:03:00.0,0000:04:00.1`.
fn hostdevs(text: &str) -> Result<Vec<DeviceAddress>> {
    let list = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let read = list.map(|part| DeviceAddress::try_from(part.to_owned()));
    read.map(|address| address.map_err(|why| wrong("libvirt.hostdev", &why.to_string())))
        .collect()
}

fn iotune(word: impl Fn(&str) -> Option<String>) -> Result<Option<Element>> {
    let mut element = Element::new("iotune");
    for (name, tag) in IOTUNE {
        let Some(text) = word(&format!("iotune.{name}")) else {
            continue;
        };
        let number: u64 = text
            .parse()
            .map_err(|_| wrong(&format!("libvirt.iotune.{name}"), "write a whole number"))?;
        element.push(Element::new(tag).saying(number));
    }
    Ok((!element.children.is_empty()).then_some(element))
}

/// Shares and limits of processor time: a limit is in thousandths of a CPU.
pub(crate) fn cputune(limits: Option<&ResourceLimits>) -> Option<Element> {
    const PERIOD: i64 = 100_000;
    let limits = limits?;
    let mut element = Element::new("cputune");
    if let Some(shares) = limits.cpu_shares {
        element.push(Element::new("shares").saying(shares));
    }
    if let Some(limit) = limits.cpu_limit {
        element.push(Element::new("global_period").saying(PERIOD));
        let quota = i64::from(limit) * PERIOD / 1000;
        element.push(Element::new("global_quota").saying(quota.max(1000)));
    }
    (!element.children.is_empty()).then_some(element)
}

/// The most memory that the machine's process may take.
pub(crate) fn memtune(limits: Option<&ResourceLimits>) -> Option<Element> {
    let most = limits?.memory_limit_mib?;
    let limit = Element::new("hard_limit").with("unit", "MiB").saying(most);
    Some(Element::new("memtune").holding(limit))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Extra> {
        let text = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let extra_config: BTreeMap<_, _> = pairs.iter().map(text).collect();
        extra(&ClassSpec {
            extra_config,
            ..ClassSpec::default()
        })
    }

    #[test]
    fn words_of_ours_act_and_those_of_others_are_passed_over() {
        let read = read(&[
            ("kubevirt.io/x", "anything"),
            ("libvirt.hostdev", "0000:03:00.0, 0000:04:00.1"),
            ("libvirt.hugepages", "2Mi"),
            ("libvirt.iotune.totalIopsSec", "500"),
            ("libvirt.diskCache", "none"),
        ])
        .expect("sound");
        assert_eq!(read.hostdevs.len(), 2);
        assert_eq!(read.hugepages, Some(2048));
        let iotune = read.disks.iotune.expect("there").to_string();
        assert_eq!(
            iotune,
            "<iotune><total_iops_sec>500</total_iops_sec></iotune>"
        );
    }

    #[test]
    fn what_makes_no_sense_names_the_word() {
        for (key, value) in [
            ("libvirt.machin", "q35"),
            ("libvirt.machine", "q35'/><evil"),
            ("libvirt.machine", "microvm"),
            ("libvirt.cpuMode", "fast"),
            ("libvirt.hugepages", "3Mi"),
            ("libvirt.hostdev", "03:00.0"),
            ("libvirt.iotune.readIopsSec", "many"),
            ("libvirt.numaNodeset", "a"),
        ] {
            let error = read(&[(key, value)]).expect_err(key);
            assert_eq!(error.field.as_deref(), Some(FIELD));
            assert!(error.message.contains(key), "{error}");
        }
    }
}
