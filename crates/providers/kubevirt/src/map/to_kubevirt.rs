//! The VirtualMachine that a request asks for.

use polyvirt_api::kubevirt::{BootDevice, KubevirtOptions, NamedKind};
use polyvirt_contract::Result;
use polyvirt_contract::model::CreateVm;
use serde_json::{Value, json};

use crate::kinds::{CREATING, Kind, PLACED, TAGS, VmKey, items, text};
use crate::map::cards::Card;
use crate::map::cloud_init::{self, Seed};
use crate::map::hardware;
use crate::map::layout::{Disk, Layout, Source};
use crate::map::objects::{self, Marks};
use crate::map::place;
use crate::map::seat::Seat;
use crate::map::unplug::Leaving;
use crate::quantity;

/// Whether a VirtualMachine is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    Halted,
    Always,
    /// Some other strategy that somebody chose.
    As(String),
}

impl Run {
    /// As a VirtualMachine says it.
    pub(crate) fn of(vm: &Value) -> Self {
        match text(vm, "/spec/runStrategy") {
            "" | "Halted" => Self::Halted,
            "Always" => Self::Always,
            other => Self::As(other.to_owned()),
        }
    }

    pub(crate) fn word(&self) -> &str {
        match self {
            Self::Halted => "Halted",
            Self::Always => "Always",
            Self::As(word) => word,
        }
    }
}

/// Whether all that belongs to the VM is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Making {
    Begun,
    Done,
}

/// What a VirtualMachine is made from.
pub(crate) struct Wish<'a> {
    pub(crate) key: &'a VmKey,
    pub(crate) request: &'a CreateVm,
    pub(crate) options: &'a KubevirtOptions,
    pub(crate) layout: &'a Layout,
    pub(crate) cards: &'a [Card],
    pub(crate) seed: Option<&'a Seed>,
    pub(crate) run: Run,
    pub(crate) making: Making,
    /// What is there: disks keep their claims and buses.
    pub(crate) live: Option<&'a Value>,
    /// The node that it goes to.
    pub(crate) seat: Seat,
    /// Whether it runs now: a disk that comes is plugged in while it does.
    pub(crate) hot: Hot,
    /// Cards that are on their way out.
    pub(crate) leaving: &'a [Leaving],
    /// The UID of the cluster that the owner of the options must be in.
    pub(crate) cluster: &'a str,
}

/// Whether the machine runs while it is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hot {
    Running,
    Stopped,
}

impl Wish<'_> {
    /// The whole object, as it is applied.
    pub(crate) fn virtual_machine(&self) -> Result<Value> {
        let marks = self.marks();
        let mut spec = json!({
            "runStrategy": self.run.word(),
            "template": {
                "metadata": {"labels": marks.labels()},
                "spec": self.template()?,
            },
        });
        if let Some(found) = named(self.options.instancetype.as_ref(), "Instancetype") {
            spec["instancetype"] = found;
        }
        if let Some(found) = named(self.options.preference.as_ref(), "Preference") {
            spec["preference"] = found;
        }
        let mut object = objects::named(Kind::Vm, self.key, &marks);
        self.annotate(&mut object);
        self.own(&mut object);
        object["spec"] = spec;
        Ok(object)
    }

    fn marks(&self) -> Marks<'_> {
        Marks {
            owner: self.request.owner.as_ref(),
            labels: &self.options.labels,
        }
    }

    fn annotate(&self, object: &mut Value) {
        let annotations = &mut object["metadata"]["annotations"];
        if !self.request.tags.is_empty() {
            annotations[TAGS] = json!(self.request.tags.join(","));
        }
        put(annotations, PLACED, json!(self.seat.text()));
        if self.making == Making::Begun {
            annotations[CREATING] = json!("true");
        }
    }

    /// The owner must be in the same cluster, else the garbage collector would take the VM for garbage.
    fn own(&self, object: &mut Value) {
        let owner = self.options.owner.as_ref();
        if let Some(owner) = owner.filter(|o| !o.cluster.is_empty() && o.cluster == self.cluster) {
            object["metadata"]["ownerReferences"] = json!([{
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "name": owner.name,
                "uid": owner.uid,
            }]);
        }
    }

    fn template(&self) -> Result<Value> {
        let options = self.options;
        let mut spec = json!({
            "domain": self.domain()?,
            "networks": self.networks(),
            "volumes": self.volumes(),
        });
        put(&mut spec, "nodeSelector", json!(options.node_selector));
        put(&mut spec, "tolerations", json!(options.tolerations));
        let affinity = self.seat.affinity(options.affinity.as_ref());
        put(&mut spec, "affinity", affinity);
        Ok(spec)
    }

    fn domain(&self) -> Result<Value> {
        let (class, options) = (&self.request.class, self.options);
        let mut domain = json!({
            "devices": self.devices(),
            "firmware": hardware::firmware(class),
        });
        if options.instancetype.is_none() {
            domain["cpu"] = hardware::cpu(class, options)?;
            domain["memory"] =
                json!({"guest": quantity::of_bytes(hardware::memory(class, options))});
        }
        put(&mut domain, "features", hardware::features(class, options));
        put(&mut domain, "resources", hardware::resources(class));
        if let Some(machine) = &options.machine_type {
            domain["machine"] = json!({"type": machine});
        }
        Ok(domain)
    }

    fn networks(&self) -> Vec<Value> {
        let leaving = self.leaving.iter().map(|card| card.network.clone());
        self.cards
            .iter()
            .map(Card::network)
            .chain(leaving)
            .collect()
    }

    fn interfaces(&self) -> Vec<Value> {
        let card = |(place, card): (usize, &Card)| {
            let boots = (place == 0)
                .then(|| self.boots(BootDevice::Network))
                .flatten();
            card.interface(boots)
        };
        let leaving = self.leaving.iter().map(|card| card.interface.clone());
        let cards = self.cards.iter().enumerate().map(card);
        cards.chain(leaving).collect()
    }

    fn devices(&self) -> Value {
        let options = self.options;
        let mut devices = json!({
            "autoattachPodInterface": false,
            "disks": self.disks(),
            "interfaces": self.interfaces(),
            "rng": {},
        });
        put(&mut devices, "gpus", Value::Array(self.gpus()));
        let others = options.host_devices.iter().map(place::device).collect();
        put(&mut devices, "hostDevices", others);
        if let Some(multiqueue) = options.network_multiqueue {
            devices["networkInterfaceMultiqueue"] = json!(multiqueue);
        }
        let security = self.request.class.security.as_ref();
        if security.is_some_and(|security| security.tpm) {
            devices["tpm"] = json!({"persistent": true});
        }
        devices
    }

    /// Its place among what is tried for boot. Nothing said: the first disk, then the medium.
    fn boots(&self, device: BootDevice) -> Option<usize> {
        let usual = [BootDevice::Disk, BootDevice::Cdrom];
        let said = self.options.boot_order.as_slice();
        let order = if said.is_empty() { &usual[..] } else { said };
        let place = order.iter().position(|entry| *entry == device)?;
        let first = order.iter().take(place).filter(|entry| self.has(**entry));
        Some(first.count() + 1)
    }

    fn has(&self, device: BootDevice) -> bool {
        match device {
            BootDevice::Disk => true,
            BootDevice::Network => !self.cards.is_empty(),
            BootDevice::Cdrom => self.layout.cdrom.is_some(),
        }
    }

    fn disks(&self) -> Vec<Value> {
        let mut disks: Vec<Value> = Vec::new();
        disks.push(self.disk(&self.layout.root, self.boots(BootDevice::Disk)));
        disks.extend(self.layout.others.iter().map(|disk| self.disk(disk, None)));
        if let Some(cdrom) = &self.layout.cdrom {
            let mut entry = json!({"name": cdrom.volume, "cdrom": {"bus": "sata"}});
            put(
                &mut entry,
                "bootOrder",
                json!(self.boots(BootDevice::Cdrom)),
            );
            disks.push(entry);
        }
        if self.seed_volume().is_some() {
            disks.push(json!({"name": cloud_init::VOLUME, "disk": {"bus": "virtio"}}));
        }
        disks
    }

    fn disk(&self, disk: &Disk, boots: Option<usize>) -> Value {
        let live = self.live_entry("/spec/template/spec/domain/devices/disks", &disk.volume);
        let live_bus = live.map(|entry| text(entry, "/disk/bus"));
        let usual = if self.is_plugged_in(disk) {
            "scsi"
        } else {
            "virtio"
        };
        let bus = disk
            .bus
            .as_deref()
            .or(live_bus.filter(|bus| !bus.is_empty()))
            .unwrap_or(usual);
        let mut entry = json!({"name": disk.volume, "disk": {"bus": bus}});
        put(&mut entry, "bootOrder", json!(boots));
        entry
    }

    /// Whether the disk comes while the machine runs.
    fn is_plugged_in(&self, disk: &Disk) -> bool {
        let there = self.live_entry("/spec/template/spec/volumes", &disk.volume);
        self.hot == Hot::Running && there.is_none()
    }

    fn volumes(&self) -> Vec<Value> {
        let mut volumes: Vec<Value> = self.layout.all().map(|disk| self.volume(disk)).collect();
        volumes.extend(self.seed_volume());
        volumes
    }

    /// What the guest reads at its first boot.
    fn seed_volume(&self) -> Option<Value> {
        let secret = objects::seed_name(self.key);
        match self.live {
            Some(_) => {
                let there = self.live_entry("/spec/template/spec/volumes", cloud_init::VOLUME);
                Seed::kept(self.seed, there, &secret)
            }
            None => Some(self.seed?.volume(&secret)),
        }
    }

    /// A disk that is there keeps its claim: a restore may have given it another.
    fn volume(&self, disk: &Disk) -> Value {
        let there = self.live_entry("/spec/template/spec/volumes", &disk.volume);
        if let Some(live) = there.filter(|entry| claim_of(entry).is_some()) {
            return live.clone();
        }
        let name = disk.claim.name();
        let mut source = match disk.source {
            Source::Empty => json!({"persistentVolumeClaim": {"claimName": name}}),
            _ => json!({"dataVolume": {"name": name}}),
        };
        if self.is_plugged_in(disk) {
            for kind in ["persistentVolumeClaim", "dataVolume"] {
                if let Some(entry) = source.get_mut(kind) {
                    entry["hotpluggable"] = json!(true);
                }
            }
        }
        source["name"] = json!(disk.volume);
        source
    }

    fn live_entry(&self, list: &str, name: &str) -> Option<&Value> {
        let entries = items(self.live?, list);
        entries.iter().find(|entry| text(entry, "/name") == name)
    }
}

/// The claim of a volume, if it has one.
pub(crate) fn claim_of(volume: &Value) -> Option<&str> {
    let claim = text(volume, "/persistentVolumeClaim/claimName");
    let volume = text(volume, "/dataVolume/name");
    [claim, volume].into_iter().find(|name| !name.is_empty())
}

/// Puts the value there unless it says nothing.
pub(crate) fn put(object: &mut Value, key: &str, value: Value) {
    let empty = match &value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if !empty {
        object[key] = value;
    }
}

fn named(reference: Option<&NamedKind>, what: &str) -> Option<Value> {
    let reference = reference?;
    let kind = match reference.kind.as_str() {
        "" => format!("VirtualMachineCluster{what}"),
        kind => kind.to_owned(),
    };
    Some(json!({"name": reference.name, "kind": kind}))
}
