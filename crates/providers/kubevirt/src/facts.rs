//! What is worth remembering of an object: a tenth of its size, and already read.

mod plugged;

use std::collections::BTreeSet;

use kube::core::DynamicObject;
use polyvirt_contract::model::{GuestDisks, NicState, Owner, SnapshotState};
use serde_json::Value;

use crate::kinds::{
    CREATING, DESCRIPTION, Kind, LAST_REQUEST, SNAPSHOT_NAME, VM, VmKey, annotation, items, owner,
    text,
};
use crate::map::to_kubevirt::claim_of;
use crate::quantity;
pub(crate) use plugged::is_hot;

/// What KubeVirt says of a machine that gets something by a move.
const MOVES: &[&str] = &["HotVCPUChange", "HotMemoryChange", "MigrationRequired"];
const DOMAIN: &str = "/spec/template/spec/domain";

/// What an object says about a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Vm(Box<VmFacts>),
    Instance(Box<InstanceFacts>),
    Claim(ClaimFacts),
    Snapshot(Box<SnapshotFacts>),
}

/// A VirtualMachine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VmFacts {
    pub(crate) owner: Option<Owner>,
    pub(crate) is_deleting: bool,
    pub(crate) is_creating: bool,
    pub(crate) printable: String,
    pub(crate) size: Size,
    /// Volume and claim; the first is the first disk.
    pub(crate) disks: Vec<(String, String)>,
    /// Those that are on their way out are none.
    pub(crate) cards: Vec<NicState>,
    /// Names of cards that come with a start only.
    pub(crate) cold_cards: Vec<String>,
    pub(crate) needs_restart: bool,
    /// What KubeVirt says is wrong; empty if nothing.
    pub(crate) trouble: String,
    pub(crate) last_request: String,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClaimFacts {
    /// Bytes that it asks for.
    pub(crate) bytes: u64,
    /// Its StorageClass, which the cluster fills in; empty if there is none.
    pub(crate) class: String,
}

impl ClaimFacts {
    fn read(claim: &Value) -> Self {
        Self {
            bytes: claim_bytes(claim),
            class: text(claim, "/spec/storageClassName").to_owned(),
        }
    }
}

/// A VirtualMachineInstance: the machine while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InstanceFacts {
    pub(crate) phase: String,
    pub(crate) is_paused: bool,
    /// Whether it gets something by a move to another node, which KubeVirt begins only if it is told to.
    pub(crate) awaits_move: bool,
    pub(crate) node: String,
    pub(crate) ips: Vec<String>,
    pub(crate) size: Size,
    /// Volumes of its disks, but for those that are on their way.
    pub(crate) disks: Vec<String>,
    /// Disks that it is to have and does not have yet, with what KubeVirt says of each.
    pub(crate) coming: Vec<(String, String)>,
    /// Cards that are in it.
    pub(crate) cards: Vec<NicState>,
    /// Names of cards that it has or gets.
    pub(crate) named_cards: Vec<String>,
    /// All addresses of each card, by the card's name.
    pub(crate) card_ips: Vec<(String, Vec<String>)>,
    pub(crate) guest_os: String,
    pub(crate) guest_kernel: String,
}

/// A snapshot, and whether it is whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SnapshotFacts {
    pub(crate) is_whole: bool,
    pub(crate) state: SnapshotState,
}

/// CPUs and MiB; 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) cpu: u32,
    pub(crate) memory_mib: u64,
}

impl Size {
    /// Whether it is the other one, as far as that is known.
    fn fits(self, wanted: Self) -> bool {
        let cpu = wanted.cpu == 0 || self.cpu == wanted.cpu;
        cpu && (wanted.memory_mib == 0 || self.memory_mib == wanted.memory_mib)
    }
}

impl Fact {
    /// `None` for kinds that say nothing about a VM's state.
    pub(crate) fn read(kind: Kind, object: &DynamicObject) -> Option<Self> {
        match kind {
            Kind::Vm => Some(Self::Vm(Box::new(VmFacts::read(object)))),
            Kind::Vmi => Some(Self::Instance(Box::new(InstanceFacts::read(&object.data)))),
            Kind::Claim => Some(Self::Claim(ClaimFacts::read(&object.data))),
            Kind::Snapshot => Some(Self::Snapshot(Box::new(SnapshotFacts::read(object)))),
            _ => None,
        }
    }
}

/// The VM that an object is about.
pub(crate) fn about(kind: Kind, object: &DynamicObject) -> Option<VmKey> {
    let namespace = object.metadata.namespace.clone()?;
    let name = match kind {
        Kind::Vm | Kind::Vmi => object.metadata.name.clone()?,
        Kind::Snapshot => text(&object.data, "/spec/source/name").to_owned(),
        _ => annotation(object, VM)?.to_owned(),
    };
    Some(VmKey { namespace, name })
}

/// Bytes that a claim asks for.
pub(crate) fn claim_bytes(claim: &Value) -> u64 {
    quantity::parse(text(claim, "/spec/resources/requests/storage")).unwrap_or(0)
}

impl VmFacts {
    fn read(object: &DynamicObject) -> Self {
        let data = &object.data;
        let printable = text(data, "/status/printableStatus").to_owned();
        Self {
            owner: owner(object),
            is_deleting: object.metadata.deletion_timestamp.is_some(),
            is_creating: annotation(object, CREATING).is_some(),
            trouble: trouble(data, &printable),
            printable,
            size: spec_size(data, DOMAIN),
            disks: disks(data, "/spec/template/spec"),
            cards: cards(items(data, &format!("{DOMAIN}/devices/interfaces"))),
            cold_cards: cold_cards(items(data, &format!("{DOMAIN}/devices/interfaces"))),
            needs_restart: has_condition(data, "RestartRequired"),
            last_request: annotation(object, LAST_REQUEST)
                .unwrap_or_default()
                .to_owned(),
        }
    }
}

/// Disks with a claim, in the order of the machine; media that come and go are none.
fn disks(data: &Value, spec: &str) -> Vec<(String, String)> {
    let volumes = items(data, &format!("{spec}/volumes"));
    let with_claim = |disk: &Value| {
        let name = text(disk, "/name");
        let volume = volumes
            .iter()
            .find(|volume| text(volume, "/name") == name)?;
        Some((name.to_owned(), claim_of(volume)?.to_owned()))
    };
    let disks = items(data, &format!("{spec}/domain/devices/disks")).iter();
    disks
        .filter(|disk| disk.get("cdrom").is_none())
        .filter_map(with_claim)
        .collect()
}

fn cards(entries: &[Value]) -> Vec<NicState> {
    let card = |entry: &Value| NicState {
        name: text(entry, "/name").to_owned(),
        mac: hardware_address(text(entry, "/macAddress")),
        ip: String::new(),
    };
    let stays = |entry: &&Value| text(entry, "/state") != "absent";
    entries.iter().filter(stays).map(card).collect()
}

/// KubeVirt plugs in cards on a bridge and those of SR-IOV. Of others that come it says nothing.
fn cold_cards(entries: &[Value]) -> Vec<String> {
    let is_cold = |entry: &&Value| entry.get("bridge").or(entry.get("sriov")).is_none();
    let cold = entries.iter().filter(is_cold);
    cold.map(|entry| text(entry, "/name").to_owned()).collect()
}

fn card_names_of(entries: &[Value]) -> Vec<String> {
    let names = entries.iter().map(|entry| text(entry, "/name").to_owned());
    names.collect()
}

/// KubeVirt takes dashes and capitals too.
fn hardware_address(text: &str) -> String {
    text.to_ascii_lowercase().replace('-', ":")
}

fn spec_size(data: &Value, domain: &str) -> Size {
    let cpu = data.pointer(&format!("{domain}/cpu"));
    let guest = text(data, &format!("{domain}/memory/guest"));
    let asked = text(data, &format!("{domain}/resources/requests/memory"));
    let memory = [guest, asked].into_iter().find(|text| !text.is_empty());
    Size {
        cpu: cpu.map_or(0, cpus),
        memory_mib: memory.and_then(quantity::mib).unwrap_or(0),
    }
}

fn cpus(topology: &Value) -> u32 {
    let count = |key: &str| {
        let found = topology.get(key).and_then(Value::as_u64).unwrap_or(1);
        u32::try_from(found.max(1)).unwrap_or(1)
    };
    count("sockets") * count("cores") * count("threads")
}

fn condition<'a>(data: &'a Value, kind: &str) -> Option<&'a Value> {
    let all = items(data, "/status/conditions");
    all.iter().find(|entry| text(entry, "/type") == kind)
}

/// Whether KubeVirt says so of an object.
pub(crate) fn has_condition(data: &Value, kind: &str) -> bool {
    condition(data, kind).is_some_and(is_true)
}

fn is_true(condition: &Value) -> bool {
    text(condition, "/status") == "True"
}

/// What KubeVirt calls an error, with the words of the condition that explains it.
fn trouble(data: &Value, printable: &str) -> String {
    let failure = condition(data, "Failure").filter(|c| is_true(c));
    let why = failure.or_else(|| {
        let unmet = |kind| condition(data, kind).filter(|c| !is_true(c));
        unmet("PodScheduled")
            .or_else(|| unmet("DataVolumesReady"))
            .or_else(|| unmet("Ready"))
    });
    let why = why.map(|c| text(c, "/message")).unwrap_or_default();
    let is_error = printable.starts_with("Err")
        || matches!(
            printable,
            "CrashLoopBackOff" | "ImagePullBackOff" | "DataVolumeError"
        );
    match (is_error, why) {
        (true, "") => printable.to_owned(),
        (true, why) => format!("{printable}: {why}"),
        (false, why) if failure.is_some() => why.to_owned(),
        (false, _) => String::new(),
    }
}

impl InstanceFacts {
    fn read(data: &Value) -> Self {
        let interfaces = items(data, "/status/interfaces");
        let spec = spec_size(data, "/spec/domain");
        let now = data.pointer("/status/currentCPUTopology").map(cpus);
        let memory = quantity::mib(text(data, "/status/memory/guestCurrent"));
        Self {
            phase: text(data, "/status/phase").to_owned(),
            is_paused: has_condition(data, "Paused"),
            awaits_move: MOVES.iter().any(|kind| has_condition(data, kind)),
            node: text(data, "/status/nodeName").to_owned(),
            ips: addresses(interfaces),
            size: Size {
                cpu: now.unwrap_or(spec.cpu),
                memory_mib: memory.filter(|mib| *mib > 0).unwrap_or(spec.memory_mib),
            },
            disks: plugged::disks(data),
            coming: plugged::coming(data),
            cards: interfaces.iter().filter_map(running_card).collect(),
            named_cards: card_names_of(items(data, "/spec/domain/devices/interfaces")),
            card_ips: interfaces.iter().filter_map(card_ips).collect(),
            guest_os: text(data, "/status/guestOSInfo/prettyName").to_owned(),
            guest_kernel: text(data, "/status/guestOSInfo/kernelRelease").to_owned(),
        }
    }
}

impl InstanceFacts {
    /// Whether the machine has the size, disks and cards that its VirtualMachine says, and no others, but for what comes with a
    /// start only.
    pub(crate) fn has_all(&self, vm: &VmFacts) -> bool {
        let cards = self.has_cards(vm) || self.lacks_cold_cards(vm);
        self.size.fits(vm.size) && self.has_disks(vm) && cards
    }

    /// Whether its disks are those of its VirtualMachine.
    pub(crate) fn has_disks(&self, vm: &VmFacts) -> bool {
        let wanted: BTreeSet<&str> = vm.disks.iter().map(|(name, _)| name.as_str()).collect();
        wanted == self.disks.iter().map(String::as_str).collect()
    }

    /// Whether its cards are those of its VirtualMachine.
    pub(crate) fn has_cards(&self, vm: &VmFacts) -> bool {
        card_names(&self.cards) == card_names(&vm.cards)
    }

    /// Whether a card waits for a start, though KubeVirt does not say so.
    pub(crate) fn lacks_cold_cards(&self, vm: &VmFacts) -> bool {
        let mut cold = vm.cold_cards.iter();
        cold.any(|name| !self.named_cards.contains(name))
    }
}

fn card_names(cards: &[NicState]) -> BTreeSet<&str> {
    cards.iter().map(|card| card.name.as_str()).collect()
}

/// `None` for what the guest has made itself, and for a card that the pod has and the machine does not, or not any more.
fn running_card(entry: &Value) -> Option<NicState> {
    let name = text(entry, "/name");
    let source = text(entry, "/infoSource");
    let plugged = source.is_empty() || source.contains("domain");
    (plugged && !name.is_empty()).then(|| NicState {
        name: name.to_owned(),
        mac: hardware_address(text(entry, "/mac")),
        ip: text(entry, "/ipAddress").to_owned(),
    })
}

/// Cards that KubeVirt knows by a name. What the guest has made itself is nobody's card.
fn card_ips(entry: &Value) -> Option<(String, Vec<String>)> {
    let name = Some(text(entry, "/name")).filter(|name| !name.is_empty())?;
    let ips = addresses(std::slice::from_ref(entry));
    (!ips.is_empty()).then(|| (name.to_owned(), ips))
}

fn addresses(interfaces: &[Value]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for entry in interfaces {
        let listed = items(entry, "/ipAddresses")
            .iter()
            .filter_map(Value::as_str);
        for ip in std::iter::once(text(entry, "/ipAddress")).chain(listed) {
            if !ip.is_empty() && !found.iter().any(|known| known == ip) {
                found.push(ip.to_owned());
            }
        }
    }
    found
}

impl SnapshotFacts {
    fn read(object: &DynamicObject) -> Self {
        let data = &object.data;
        let ready = data.pointer("/status/readyToUse").and_then(Value::as_bool);
        let quiet = items(data, "/status/indications")
            .iter()
            .any(|word| word.as_str() == Some("GuestAgent"));
        let id = object.metadata.name.clone().unwrap_or_default();
        Self {
            is_whole: ready == Some(true) && object.metadata.deletion_timestamp.is_none(),
            state: SnapshotState {
                id: id.into(),
                name: annotation(object, SNAPSHOT_NAME)
                    .unwrap_or_default()
                    .to_owned(),
                description: annotation(object, DESCRIPTION)
                    .unwrap_or_default()
                    .to_owned(),
                taken: taken(object),
                guest: if quiet {
                    GuestDisks::Quiet
                } else {
                    GuestDisks::AsTheyWere
                },
                ..SnapshotState::default()
            },
        }
    }
}

fn taken(object: &DynamicObject) -> i64 {
    let said = text(&object.data, "/status/creationTime").parse();
    let said = said
        .ok()
        .map(|time: k8s_openapi::jiff::Timestamp| time.as_second());
    let made = object.metadata.creation_timestamp.as_ref();
    said.or(made.map(|time| time.0.as_second())).unwrap_or(0)
}
