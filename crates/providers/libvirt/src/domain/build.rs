//! The XML of a new domain.

use polyvirt_contract::Result;
use polyvirt_contract::model::{ClassSpec, Firmware};
use polyvirt_provider_kit::devices::DeviceAddress;
use polyvirt_provider_kit::uuid::Uuid;

use super::disk::{self, Place};
use super::edit;
use super::hostdev;
use super::machine::AGENT;
use super::marks::Marks;
use super::nic::NicPart;
use super::tuning::{self, Board, Extra};
use crate::xml::Element;

/// What guests run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Virt {
    Kvm,
    Tcg,
}

/// Ports that stay free for what is plugged in later.
const SPARE_PORTS: usize = 8;
/// Ports for what every domain has.
const OWN_PORTS: usize = 8;

/// A domain to make.
pub(crate) struct New<'a> {
    pub(crate) uuid: Uuid,
    pub(crate) name: &'a str,
    pub(crate) class: &'a ClassSpec,
    pub(crate) virt: Virt,
    pub(crate) marks: &'a Marks,
    /// Where the first disk is.
    pub(crate) root: &'a Place,
    /// Where the guest sees the others, and where they are.
    pub(crate) disks: Vec<(String, Place)>,
    pub(crate) nics: Vec<NicPart>,
    /// The file of the seed.
    pub(crate) seed: Option<String>,
    /// The file of the Ignition configuration.
    pub(crate) ignition: Option<String>,
    /// Devices of the host.
    pub(crate) devices: &'a [DeviceAddress],
}

/// The domain's XML.
pub(crate) fn domain(new: &New<'_>) -> Result<Element> {
    let extra = tuning::extra(new.class)?;
    let limits = new.class.limits.as_ref();
    let mut domain = Element::new("domain")
        .with("type", if new.virt == Virt::Kvm { "kvm" } else { "qemu" })
        .holding(Element::new("name").saying(new.name))
        .holding(Element::new("uuid").saying(new.uuid))
        .holding(Element::new("metadata").holding(new.marks.element()))
        .holding(Element::new("memory").with("unit", "MiB").saying(0))
        .holding(Element::new("vcpu").saying(1))
        .maybe(memory_backing(&extra))
        .maybe(tuning::cputune(limits))
        .maybe(tuning::memtune(limits))
        .maybe(numatune(&extra))
        .maybe(new.ignition.as_deref().map(ignition))
        .holding(os(new.class, &extra))
        .holding(features(new.class))
        .holding(cpu(new, &extra))
        .holding(Element::new("clock").with("offset", "utc"))
        .holding(devices(new, &extra));
    edit::size(&mut domain, new.class);
    Ok(domain)
}

fn memory_backing(extra: &Extra) -> Option<Element> {
    let size = extra.hugepages?;
    let page = || Element::new("page").with("size", size).with("unit", "KiB");
    let pages = Element::new("hugepages").maybe((size != 0).then(page));
    Some(Element::new("memoryBacking").holding(pages))
}

fn numatune(extra: &Extra) -> Option<Element> {
    let nodes = extra.numa_nodeset.as_ref()?;
    let memory = Element::new("memory")
        .with("mode", "strict")
        .with("nodeset", nodes);
    Some(Element::new("numatune").holding(memory))
}

/// The file's path is seen in the arguments of QEMU; what is in it is not.
fn ignition(path: &str) -> Element {
    let entry = Element::new("entry")
        .with("name", "opt/com.coreos/config")
        .with("file", path);
    Element::new("sysinfo").with("type", "fwcfg").holding(entry)
}

fn secure_boot(class: &ClassSpec) -> bool {
    class.security.as_ref().is_some_and(|s| s.secure_boot)
}

fn os(class: &ClassSpec, extra: &Extra) -> Element {
    let machine = extra.machine.as_deref().unwrap_or("q35");
    let kind = Element::new("type")
        .with("arch", "x86_64")
        .with("machine", machine)
        .saying("hvm");
    let os = Element::new("os");
    let secure = secure_boot(class);
    if class.firmware == Firmware::Bios && !secure {
        return os.holding(kind);
    }
    let says = if secure { "yes" } else { "no" };
    let feature = |name: &str| {
        Element::new("feature")
            .with("enabled", says)
            .with("name", name)
    };
    let firmware = Element::new("firmware")
        .holding(feature("secure-boot"))
        .holding(feature("enrolled-keys"));
    os.with("firmware", "efi").holding(kind).holding(firmware)
}

fn features(class: &ClassSpec) -> Element {
    let smm = || Element::new("smm").with("state", "on");
    let ioapic = || Element::new("ioapic").with("driver", "qemu");
    Element::new("features")
        .holding(Element::new("acpi"))
        .holding(Element::new("apic"))
        .maybe(secure_boot(class).then(smm))
        .maybe(has_iommu(class).then(ioapic))
}

fn has_iommu(class: &ClassSpec) -> bool {
    class.security.as_ref().is_some_and(|s| s.vtd)
}

fn cpu(new: &New<'_>, extra: &Extra) -> Element {
    let performance = new.class.performance.clone().unwrap_or_default();
    let nested = performance.nested_virtualization || performance.virtualization_based_security;
    let usual = match new.virt {
        Virt::Tcg => "maximum",
        Virt::Kvm if nested => "host-passthrough",
        Virt::Kvm => "host-model",
    };
    let mode = match (&extra.cpu_mode, &extra.cpu_model) {
        (Some(mode), _) => mode.as_str(),
        (None, Some(_)) => "custom",
        (None, None) => usual,
    };
    let cpu = Element::new("cpu").with("mode", mode);
    match &extra.cpu_model {
        Some(model) => cpu.with("match", "exact").holding(
            Element::new("model")
                .with("fallback", "forbid")
                .saying(model),
        ),
        None => cpu,
    }
}

fn devices(new: &New<'_>, extra: &Extra) -> Element {
    let root = disk::element(disk::ROOT, new.root, &extra.disks)
        .holding(Element::new("boot").with("order", 1));
    let data = new
        .disks
        .iter()
        .map(|(target, place)| disk::element(target, place, &extra.disks));
    Element::new("devices")
        .holding(root)
        .holding_all(data)
        .maybe(new.seed.as_deref().map(disk::seed))
        .holding_all(buses(
            extra.board,
            new.disks.len() + new.nics.len() + new.devices.len(),
        ))
        .holding(
            Element::new("controller")
                .with("type", "usb")
                .with("model", "none"),
        )
        .holding_all(new.nics.iter().map(NicPart::element))
        .holding(serial("serial"))
        .holding(serial("console"))
        .holding(agent())
        .maybe(tpm(new.class))
        .holding(screen())
        .holding(video(extra))
        .holding_all(new.devices.iter().map(hostdev::element))
        .holding(Element::new("memballoon").with("model", "virtio"))
        .holding(random())
        .maybe(has_iommu(new.class).then(iommu))
}

/// The bus that devices are on. A PCI bus has free slots; on PCI Express each device needs a port, and so do those that come later.
fn buses(board: Board, devices: usize) -> Vec<Element> {
    let controller = |index: usize, model: &str| {
        Element::new("controller")
            .with("type", "pci")
            .with("index", index)
            .with("model", model)
    };
    let count = OWN_PORTS + SPARE_PORTS.max(devices + 4);
    match board {
        Board::I440fx => vec![controller(0, "pci-root")],
        Board::Q35 => std::iter::once(controller(0, "pcie-root"))
            .chain((1..=count).map(|index| controller(index, "pcie-root-port")))
            .collect(),
    }
}

fn serial(kind: &str) -> Element {
    let target = Element::new("target").with("port", 0);
    let target = match kind {
        "console" => target.with("type", "serial"),
        _ => target,
    };
    Element::new(kind).with("type", "pty").holding(target)
}

fn agent() -> Element {
    let target = Element::new("target")
        .with("type", "virtio")
        .with("name", AGENT);
    Element::new("channel").with("type", "unix").holding(target)
}

/// On a socket, which libvirt guards; a port would be open to every user of the host.
fn screen() -> Element {
    Element::new("graphics")
        .with("type", "vnc")
        .holding(Element::new("listen").with("type", "socket"))
}

fn video(extra: &Extra) -> Element {
    let kind = extra.video.as_deref().unwrap_or("vga");
    Element::new("video").holding(Element::new("model").with("type", kind))
}

fn random() -> Element {
    let backend = Element::new("backend")
        .with("model", "random")
        .saying("/dev/urandom");
    Element::new("rng").with("model", "virtio").holding(backend)
}

fn iommu() -> Element {
    let driver = Element::new("driver").with("intremap", "on");
    Element::new("iommu").with("model", "intel").holding(driver)
}

fn tpm(class: &ClassSpec) -> Option<Element> {
    let security = class.security.as_ref().filter(|s| s.tpm)?;
    let (model, version) = match security.tpm_version.as_str() {
        "1.2" => ("tpm-tis", "1.2"),
        _ => ("tpm-crb", "2.0"),
    };
    let backend = Element::new("backend")
        .with("type", "emulator")
        .with("version", version);
    Some(Element::new("tpm").with("model", model).holding(backend))
}
