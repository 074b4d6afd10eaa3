//! Bounds on what a provider on the wire can make us keep. It is not trusted beyond its own VMs: what it tells ends in a
//! status that has a limit of its own, and in the memory of all.

use crate::model::VmState;

const NAME: usize = 1024;
const TEXT: usize = 4096;
const FEW: usize = 64;
const MANY: usize = 512;

/// The VM with no text longer and no list longer than any hypervisor has a use for.
pub fn modest(mut vm: VmState) -> VmState {
    for name in [&mut vm.name, &mut vm.host] {
        cut(name, NAME);
    }
    for text in [&mut vm.console_url, &mut vm.fault] {
        cut(text, TEXT);
    }
    for list in [&mut vm.ips, &mut vm.restart_required] {
        list.truncate(FEW);
        for item in list.iter_mut() {
            cut(item, NAME);
        }
    }
    for disk in vm.disks.iter_mut().flatten().chain(&mut vm.root) {
        for text in [
            &mut disk.id,
            &mut disk.name,
            &mut disk.path,
            &mut disk.format,
        ] {
            cut(text, TEXT);
        }
    }
    for nic in vm.nics.iter_mut().flatten() {
        for text in [&mut nic.name, &mut nic.mac, &mut nic.ip] {
            cut(text, NAME);
        }
    }
    for snapshot in vm.snapshots.iter_mut().flatten() {
        cut(&mut snapshot.name, NAME);
        cut(&mut snapshot.description, TEXT);
    }
    shorten(&mut vm.disks);
    shorten(&mut vm.nics);
    shorten(&mut vm.snapshots);
    let details = std::mem::take(&mut vm.details).into_iter().take(FEW);
    vm.details = details.map(|(k, v)| (cut_off(k), cut_off(v))).collect();
    vm
}

fn shorten<T>(list: &mut Option<Vec<T>>) {
    if let Some(list) = list {
        list.truncate(MANY);
    }
}

fn cut_off(mut text: String) -> String {
    cut(&mut text, TEXT);
    text
}

/// Cuts at a character.
fn cut(text: &mut String, limit: usize) {
    if text.len() > limit {
        let end = text.floor_char_boundary(limit);
        text.truncate(end);
        text.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use crate::model::{DiskState, SnapshotState};

    use super::*;

    #[test]
    fn what_is_true_of_a_vm_is_left_alone() {
        let vm = VmState {
            name: "web".into(),
            ips: vec!["10.0.0.1".into(), "fd00::1".into()],
            fault: "The image is broken".into(),
            disks: Some(vec![DiskState::default(); 3]),
            details: [("cpu".to_owned(), "host".to_owned())].into(),
            ..VmState::default()
        };
        assert_eq!(modest(vm.clone()), vm);
    }

    #[test]
    fn a_flood_is_cut_down() {
        let flood = "ü".repeat(1 << 20);
        let vm = modest(VmState {
            name: flood.clone(),
            fault: flood.clone(),
            ips: vec![flood.clone(); 1000],
            disks: Some(vec![
                DiskState {
                    path: flood.clone(),
                    ..DiskState::default()
                };
                4
            ]),
            snapshots: Some(vec![SnapshotState::default(); 10_000]),
            details: (0..1000)
                .map(|n| (n.to_string(), "x".repeat(9999)))
                .collect(),
            ..VmState::default()
        });
        assert!(vm.name.len() <= NAME && vm.fault.len() <= TEXT);
        assert!(vm.ips.len() == FEW && vm.ips[0].len() <= NAME);
        assert!(vm.disks.is_some_and(|d| d[0].path.len() <= TEXT));
        assert_eq!(vm.snapshots.map(|s| s.len()), Some(MANY));
        assert!(vm.details.len() == FEW && vm.details.values().all(|v| v.len() <= TEXT));
    }
}
