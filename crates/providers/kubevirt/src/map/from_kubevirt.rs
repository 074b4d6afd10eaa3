//! What a VM is, from what is known of its objects.

use std::collections::BTreeMap;

use polyvirt_api::kubevirt::details;
use polyvirt_contract::RequestId;
use polyvirt_contract::model::{DiskState, NicState, PowerState, SnapshotState, Stage, VmState};

use crate::facts::{ClaimFacts, InstanceFacts, SnapshotFacts, VmFacts};
use crate::kinds::VmKey;
use crate::quantity;

/// All that is known of one VM.
pub(crate) struct Known<'a> {
    pub(crate) key: &'a VmKey,
    pub(crate) vm: &'a VmFacts,
    pub(crate) instance: Option<&'a InstanceFacts>,
    /// Claims, by their names.
    pub(crate) claims: BTreeMap<&'a str, ClaimFacts>,
    /// Only those that are whole count; `None` if the cluster has no such thing.
    pub(crate) snapshots: Option<Vec<&'a SnapshotFacts>>,
    pub(crate) revision: u64,
}

impl Known<'_> {
    pub(crate) fn state(&self) -> VmState {
        let vm = self.vm;
        let running = self.instance.filter(|instance| instance.is_up());
        let size = running.map_or(vm.size, |instance| instance.size);
        VmState {
            id: self.key.id(),
            name: self.key.name.clone(),
            owner: vm.owner.clone(),
            revision: self.revision,
            stage: stage(vm),
            power: power(vm, self.instance),
            ips: running.map(|i| i.ips.clone()).unwrap_or_default(),
            console_url: String::new(),
            cpu: size.cpu,
            memory_mib: size.memory_mib,
            root: self.vm.disks.first().map(|disk| self.disk(disk)),
            disks: self.is_marked().then(|| self.disks()),
            nics: Some(self.cards()),
            host: running.map(|i| i.node.clone()).unwrap_or_default(),
            restart_required: self.restart_required(),
            last_request: RequestId::non_empty(vm.last_request.clone()),
            fault: vm.trouble.clone(),
            snapshots: self.snapshots(),
            details: self.details(),
        }
    }

    /// Claims of VMs that nobody marked are not watched.
    fn is_marked(&self) -> bool {
        self.vm.owner.is_some()
    }

    fn disks(&self) -> Vec<DiskState> {
        let beyond = self.vm.disks.iter().skip(1);
        beyond.map(|disk| self.disk(disk)).collect()
    }

    fn disk(&self, (volume, claim): &(String, String)) -> DiskState {
        DiskState {
            id: claim.clone(),
            name: volume.clone(),
            path: format!("{}/{claim}", self.key.namespace),
            size_gib: quantity::gib(self.claims.get(claim.as_str()).map_or(0, |c| c.bytes)),
            format: "raw".to_owned(),
        }
    }

    /// The cards that were asked for, with what the machine says of them while it runs.
    fn cards(&self) -> Vec<NicState> {
        let told = self.instance.map_or(&[][..], |i| i.cards.as_slice());
        let one = |card: &NicState| {
            let live = told.iter().find(|live| live.name == card.name);
            let mac = live.map(|live| &live.mac).filter(|mac| !mac.is_empty());
            NicState {
                name: card.name.clone(),
                mac: mac.unwrap_or(&card.mac).clone(),
                ip: live.map(|live| live.ip.clone()).unwrap_or_default(),
            }
        };
        self.vm.cards.iter().map(one).collect()
    }

    /// KubeVirt says that something waits for a restart, or for a move that nobody has begun: a restart brings that too. Which
    /// field is seen by comparing.
    fn restart_required(&self) -> Vec<String> {
        let moves = self.vm.printable == "Migrating";
        let is_held = |i: &&InstanceFacts| {
            let cold = i.is_up() && i.lacks_cold_cards(self.vm);
            self.vm.needs_restart || cold || (i.awaits_move && !moves)
        };
        let Some(instance) = self.instance.filter(is_held) else {
            return Vec::new();
        };
        let (wants, has) = (self.vm.size, instance.size);
        let differs = [
            ("spec.resources.cpu", wants.cpu != has.cpu),
            (
                "spec.resources.memoryMiB",
                wants.memory_mib != has.memory_mib,
            ),
            ("spec.disks", !instance.has_disks(self.vm)),
            ("spec.networks", !instance.has_cards(self.vm)),
        ];
        let found: Vec<String> = differs
            .iter()
            .filter(|(_, differs)| *differs)
            .map(|(path, _)| (*path).to_owned())
            .collect();
        match found.as_slice() {
            [] if self.vm.needs_restart => vec!["spec.class".to_owned()],
            _ => found,
        }
    }

    fn snapshots(&self) -> Option<Vec<SnapshotState>> {
        let known = self.snapshots.as_ref().filter(|_| self.is_marked())?;
        let whole = known.iter().filter(|snapshot| snapshot.is_whole);
        let mut states: Vec<SnapshotState> = whole.map(|s| s.state.clone()).collect();
        states.sort_by(|a, b| (a.taken, a.id.as_str()).cmp(&(b.taken, b.id.as_str())));
        Some(states)
    }

    fn details(&self) -> BTreeMap<String, String> {
        let guest = |text: fn(&InstanceFacts) -> &String| self.living().map(|i| text(i).clone());
        let root = self.vm.disks.first().map(|(_, claim)| claim.clone());
        let claim = root.as_deref().and_then(|claim| self.claims.get(claim));
        let class = claim.map(|claim| claim.class.clone());
        let plain = [
            (details::PRINTABLE_STATUS, Some(self.printable().to_owned())),
            (details::PHASE, guest(|i| &i.phase)),
            (details::ROOT_STORAGE_CLASS, class),
            (details::ROOT_CLAIM, root),
            (details::GUEST_OS, guest(|i| &i.guest_os)),
            (details::GUEST_KERNEL, guest(|i| &i.guest_kernel)),
        ];
        let plain = plain
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value.filter(|v| !v.is_empty())?)));
        plain.chain(self.card_ips()).collect()
    }

    /// The machine, unless it has ended and only its object is left for a moment.
    fn living(&self) -> Option<&InstanceFacts> {
        let ended =
            |instance: &&InstanceFacts| matches!(instance.phase.as_str(), "Succeeded" | "Failed");
        self.instance.filter(|instance| !ended(instance))
    }

    /// KubeVirt's word for the state. The instance is heard first and the VirtualMachine's word comes after it, when nothing that
    /// is worth a write changes any more: so the word is taken for what it will be.
    fn printable(&self) -> &str {
        let phase = self.living().map(|instance| instance.phase.as_str());
        match (self.vm.printable.as_str(), phase) {
            ("Starting" | "Provisioning" | "WaitingForVolumeBinding", Some("Running")) => "Running",
            ("Running" | "Stopping", None) => "Stopped",
            (word, _) => word,
        }
    }

    fn card_ips(&self) -> impl Iterator<Item = (String, String)> {
        let cards = self.living().into_iter().flat_map(|i| &i.card_ips);
        cards.map(|(card, ips)| (format!("{}{card}", details::IPS_OF_CARD), ips.join(",")))
    }
}

impl InstanceFacts {
    /// Whether there is a machine behind it.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.phase.as_str(), "Running" | "Unknown")
    }
}

fn stage(vm: &VmFacts) -> Stage {
    match (vm.is_deleting, vm.is_creating) {
        (true, _) => Stage::Deleting,
        (_, true) => Stage::Creating,
        _ => Stage::Whole,
    }
}

/// The instance tells: a VirtualMachine says Starting and Running of what it hopes for.
fn power(vm: &VmFacts, instance: Option<&InstanceFacts>) -> PowerState {
    let Some(instance) = instance else {
        return match vm.printable.as_str() {
            "Unknown" => PowerState::Unknown,
            _ => PowerState::Off,
        };
    };
    match instance.phase.as_str() {
        "Running" if instance.is_paused => PowerState::Suspended,
        "Running" => PowerState::On,
        "Unknown" => PowerState::Unknown,
        _ => PowerState::Off,
    }
}
