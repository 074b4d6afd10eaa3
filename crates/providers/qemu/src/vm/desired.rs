//! From a request to hardware. What a VM has keeps its place: ports, files and addresses do not move.

use polyvirt_contract::model::{CreateVm, DiskSpec, DiskType, ExpandPolicy, NicSpec};
use polyvirt_contract::{ProviderError, Result};
use polyvirt_provider_kit::check::normal_mac;

use crate::cmdline::PORTS;
use crate::errors;
use crate::state::{Disk, Hardware, HotAdd, Nic, Record};
use crate::uuid::Uuid;
use crate::vm::check::device;

/// The card of a VM for which nobody asked for one.
const IMPLICIT: &str = "default";

/// The hardware that is asked for, beside what the VM has or will have.
pub(crate) fn hardware(
    desired: &CreateVm,
    uuid: Uuid,
    record: Option<&Record>,
) -> Result<Hardware> {
    let mut places = Places::of(record);
    let has = record.map(Record::wanted);
    let disks = desired
        .disks
        .iter()
        .map(|disk| data_disk(disk, record, &mut places))
        .collect::<Result<_>>()?;
    let mut nics = desired
        .networks
        .iter()
        .map(|nic| card(nic, uuid, has, &mut places))
        .collect::<Result<Vec<_>>>()?;
    if nics.is_empty() {
        nics.push(implicit(uuid, has, &mut places)?);
    }
    let performance = desired.class.performance.clone().unwrap_or_default();
    let wanted_root = desired
        .class
        .disk_defaults
        .as_ref()
        .map_or(0, |disk| disk.size_gib);
    Ok(Hardware {
        cpu: desired.class.cpu,
        memory_mib: desired.class.memory_mib,
        hot_add: HotAdd {
            cpu: performance.cpu_hot_add,
            memory: performance.memory_hot_add,
        },
        root_gib: if wanted_root == 0 {
            has.map_or(0, |has| has.root_gib)
        } else {
            wanted_root
        },
        disks,
        nics,
    })
}

/// The hardware of a snapshot with disks that came after it. They keep their files, and get another port if theirs was taken.
pub(crate) fn with_later(then: &Hardware, later: &[Disk]) -> Result<Hardware> {
    let mut both = then.clone();
    let mut places = Places::default();
    places.take(then);
    let is_new = |disk: &&Disk| then.disks.iter().all(|old| old.file != disk.file);
    for disk in later.iter().filter(is_new) {
        if then.disk(&disk.name).is_some() {
            return Err(another_disk(&disk.name));
        }
        let port = places.port_like(disk.port)?;
        both.disks.push(Disk {
            port,
            ..disk.clone()
        });
    }
    Ok(both)
}

fn another_disk(name: &str) -> ProviderError {
    errors::precondition(format!(
        "The disk {name} is another one than that of the snapshot, and a VM cannot have both; take it away, then go back"
    ))
}

/// What is taken by the VM as it is, as it will be, and as its snapshots remember it.
struct Places {
    ports: Vec<u8>,
    subnets: Vec<u8>,
    files: Vec<String>,
}

impl Default for Places {
    /// The first disk has a port too.
    fn default() -> Self {
        Self {
            ports: vec![0],
            subnets: Vec::new(),
            files: Vec::new(),
        }
    }
}

impl Places {
    fn of(record: Option<&Record>) -> Self {
        let mut places = Self::default();
        let Some(record) = record else { return places };
        places.take(&record.hardware);
        record
            .pending
            .iter()
            .for_each(|pending| places.take(pending));
        places.files = record.disk_files();
        places
    }

    fn take(&mut self, hardware: &Hardware) {
        self.ports
            .extend(hardware.disks.iter().map(|disk| disk.port));
        self.ports.extend(hardware.nics.iter().map(|nic| nic.port));
        self.subnets
            .extend(hardware.nics.iter().map(|nic| nic.subnet));
    }

    fn port(&mut self) -> Result<u8> {
        let free = (0..PORTS).find(|port| !self.ports.contains(port));
        let port = free.ok_or_else(|| {
            let message = format!("Disks and cards together can be {} at most", PORTS - 1);
            ProviderError::invalid("spec.disks", message)
        })?;
        self.ports.push(port);
        Ok(port)
    }

    /// That port, or a free one if it is taken.
    fn port_like(&mut self, port: u8) -> Result<u8> {
        if self.ports.contains(&port) {
            return self.port();
        }
        self.ports.push(port);
        Ok(port)
    }

    fn subnet(&mut self) -> u8 {
        let free = (0..=u8::MAX)
            .find(|subnet| !self.subnets.contains(subnet))
            .unwrap_or(0);
        self.subnets.push(free);
        free
    }

    fn file(&mut self) -> String {
        let file = free_file(&self.files);
        self.files.push(file.clone());
        file
    }
}

/// The first name of a disk's file that is not taken.
pub(crate) fn free_file(taken: &[String]) -> String {
    let mut number = 1_u32;
    loop {
        let file = format!("data{number}.qcow2");
        if !taken.contains(&file) {
            return file;
        }
        number += 1;
    }
}

fn data_disk(disk: &DiskSpec, record: Option<&Record>, places: &mut Places) -> Result<Disk> {
    let has = record.and_then(|record| record.wanted().disk(&disk.name));
    let old = has.or_else(|| record.and_then(|record| remembered(record, &disk.name)));
    Ok(Disk {
        name: disk.name.clone(),
        file: old.map_or_else(|| places.file(), |old| old.file.clone()),
        size_gib: disk.size_gib,
        online: disk.expand_policy == ExpandPolicy::Online,
        thick: old.map_or_else(|| is_thick(disk.disk_type), |old| old.thick),
        port: has.map_or_else(|| places.port(), |has| Ok(has.port))?,
    })
}

/// A disk that the VM does not have and a snapshot has under that name. A name is one disk as long as a snapshot goes back to it.
fn remembered<'a>(record: &'a Record, name: &str) -> Option<&'a Disk> {
    let mut latest_first = record.snapshots.iter().rev();
    latest_first.find_map(|snapshot| snapshot.hardware.disk(name))
}

const fn is_thick(kind: DiskType) -> bool {
    matches!(kind, DiskType::Thick | DiskType::EagerZeroedThick)
}

fn card(nic: &NicSpec, uuid: Uuid, has: Option<&Hardware>, places: &mut Places) -> Result<Nic> {
    let old = has
        .and_then(|has| has.nic(&nic.name))
        .filter(|old| !old.implicit);
    let generated = || uuid.mac(&nic.name);
    let mac = if nic.mac.is_empty() {
        generated()
    } else {
        normal_mac(&nic.mac)
    };
    let device = device(&nic.model).unwrap_or("virtio-net-pci");
    Ok(Nic {
        name: nic.name.clone(),
        bridge: nic.bridge.clone(),
        vlan: nic.vlan,
        device: device.to_owned(),
        mac,
        mtu: nic.mtu,
        address: nic
            .address
            .as_ref()
            .map_or_else(String::new, |address| address.ip.clone()),
        subnet: old.map_or_else(|| places.subnet(), |old| old.subnet),
        port: old.map_or_else(|| places.port(), |old| Ok(old.port))?,
        implicit: false,
    })
}

fn implicit(uuid: Uuid, has: Option<&Hardware>, places: &mut Places) -> Result<Nic> {
    let old = has.and_then(|has| has.nics.iter().find(|nic| nic.implicit));
    if let Some(old) = old {
        return Ok(old.clone());
    }
    let nic = NicSpec {
        name: IMPLICIT.to_owned(),
        ..NicSpec::default()
    };
    let card = card(&nic, uuid, None, places)?;
    Ok(Nic {
        implicit: true,
        ..card
    })
}

#[cfg(test)]
mod tests {
    use polyvirt_contract::Identity;
    use polyvirt_contract::model::ClassSpec;
    use polyvirt_provider_kit::lineage::Lineage;

    use super::*;
    use crate::state::{FirmwareKind, Plugged, Snapshot, Stage};

    fn uuid() -> Uuid {
        Uuid::of_identity(&Identity::from("test"))
    }

    fn request(disks: &[&str], nics: &[&str]) -> CreateVm {
        let disk = |name: &&str| DiskSpec {
            name: (*name).to_owned(),
            size_gib: 1,
            ..DiskSpec::default()
        };
        let nic = |name: &&str| NicSpec {
            name: (*name).to_owned(),
            ..NicSpec::default()
        };
        CreateVm {
            class: ClassSpec {
                cpu: 1,
                memory_mib: 64,
                ..ClassSpec::default()
            },
            disks: disks.iter().map(disk).collect(),
            networks: nics.iter().map(nic).collect(),
            ..CreateVm::default()
        }
    }

    fn record(hardware: Hardware) -> Record {
        Record {
            uuid: uuid(),
            name: String::new(),
            owner: None,
            stage: Stage::Ready,
            revision: 0,
            machine: String::new(),
            firmware: FirmwareKind::Bios,
            image: String::new(),
            seed: None,
            tags: Vec::new(),
            hardware,
            devices: Vec::new(),
            pending: None,
            plugged: Plugged::default(),
            snapshots: Vec::new(),
            lineage: Lineage::default(),
            last_request: None,
            running: false,
            starts: 0,
            fault: String::new(),
            moving: None,
        }
    }

    #[test]
    fn what_stays_keeps_its_place_and_what_comes_takes_a_free_one() {
        let first = hardware(&request(&["a", "b"], &["x"]), uuid(), None).expect("fits");
        let ports: Vec<u8> = first.disks.iter().map(|d| d.port).collect();
        assert_eq!(ports, [1, 2]);
        assert_eq!(first.nics[0].port, 3);
        let record = record(first.clone());
        let next =
            hardware(&request(&["b", "c"], &["y", "x"]), uuid(), Some(&record)).expect("fits");
        assert_eq!(next.disk("b"), first.disk("b"));
        assert_eq!(next.nic("x"), first.nic("x"));
        let new = next.disk("c").expect("there");
        assert_eq!((new.port, new.file.as_str()), (4, "data3.qcow2"));
        assert_eq!(next.nic("y").map(|nic| nic.subnet), Some(1));
    }

    fn disk(name: &str, file: &str, port: u8) -> Disk {
        Disk {
            name: name.to_owned(),
            file: file.to_owned(),
            size_gib: 1,
            online: false,
            thick: false,
            port,
        }
    }

    #[test]
    fn disks_that_came_later_keep_their_files_beside_the_hardware_of_then() {
        let then = hardware(&request(&["a"], &["x"]), uuid(), None).expect("fits");
        let old = then.disks[0].clone();
        let later = [
            old.clone(),
            disk("b", "data7.qcow2", 9),
            disk("c", "data8.qcow2", then.nics[0].port),
        ];
        let both = with_later(&then, &later).expect("fits");
        let expected = [
            old,
            disk("b", "data7.qcow2", 9),
            disk("c", "data8.qcow2", 3),
        ];
        assert_eq!(both.disks, expected);
        assert_eq!(both.nics, then.nics);
        let refused = with_later(&then, &[disk("a", "data9.qcow2", 9)]);
        assert!(refused.is_err(), "a VM cannot have two disks of one name");
    }

    #[test]
    fn a_name_is_one_disk_as_long_as_a_snapshot_knows_it() {
        let then = hardware(&request(&["a", "b"], &["x"]), uuid(), None).expect("fits");
        let now = hardware(&request(&[], &["x"]), uuid(), None).expect("fits");
        let mut record = record(now);
        record.snapshots.push(snapshot(then));
        let again = hardware(&request(&["c", "b"], &["x"]), uuid(), Some(&record)).expect("fits");
        let files: Vec<_> = again.disks.iter().map(|disk| &*disk.file).collect();
        assert_eq!(files, ["data3.qcow2", "data2.qcow2"]);
        assert_ne!(again.disks[0].port, again.disks[1].port);
    }

    fn snapshot(hardware: Hardware) -> Snapshot {
        Snapshot {
            id: "s".into(),
            name: String::new(),
            description: String::new(),
            memory: false,
            frozen: false,
            hardware,
            plugged: Plugged::default(),
            complete: true,
            taken: 0,
            bytes: 0,
        }
    }

    #[test]
    fn a_vm_without_cards_has_one_that_is_not_told_of() {
        let first = hardware(&request(&[], &[]), uuid(), None).expect("fits");
        assert!(first.nics[0].implicit);
        let again = hardware(&request(&[], &[]), uuid(), Some(&record(first.clone())));
        assert_eq!(again, Ok(first));
    }
}
