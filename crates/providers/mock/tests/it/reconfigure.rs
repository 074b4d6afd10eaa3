use polyvirt_contract::model::{
    CreateVm, DiskDefaults, ExpandPolicy, PerformanceProfile, PowerOp, VmState,
};
use polyvirt_contract::{ErrorKind, Provider};
use polyvirt_provider_mock::{HostPool, Resize, Rpc};

use crate::common::{
    SECOND, created, created_as, disk, manual, nic, now, power, request, seen, with, with_tasks,
};

fn sized(cpu: u32, memory_mib: u64) -> CreateVm {
    let mut request = request("a");
    (request.class.cpu, request.class.memory_mib) = (cpu, memory_mib);
    request
}

fn size(vm: &VmState) -> (u32, u64) {
    (vm.cpu, vm.memory_mib)
}

#[test]
fn a_stopped_vm_changes_at_once() {
    let mock = manual();
    let vm = created(&mock, "a");
    assert_eq!(now(mock.reconfigure(&vm, sized(4, 1024))), Ok(None));
    let found = seen(&mock, &vm.id);
    assert_eq!(size(&found), (4, 1024));
    assert!(found.restart_required.is_empty());
}

#[test]
fn a_running_vm_changes_at_its_next_start_and_says_so() {
    let mock = manual();
    for restart in [PowerOp::Reboot, PowerOp::Off] {
        let vm = created(&mock, "a");
        power(&mock, &vm, PowerOp::On).expect("started");
        now(mock.reconfigure(&vm, sized(4, 4096))).expect("stored");
        let found = seen(&mock, &vm.id);
        assert_eq!(size(&found), (2, 2048));
        assert_eq!(
            found.restart_required,
            ["spec.resources.cpu", "spec.resources.memoryMiB"]
        );
        power(&mock, &vm, restart).expect("restarted");
        let found = seen(&mock, &vm.id);
        assert_eq!(size(&found), (4, 4096));
        assert!(found.restart_required.is_empty());
        now(mock.delete(&vm)).expect("deleted");
    }
}

#[test]
fn what_waits_is_forgotten_when_it_is_no_longer_wanted() {
    let mock = manual();
    let vm = created(&mock, "a");
    power(&mock, &vm, PowerOp::On).expect("started");
    now(mock.reconfigure(&vm, sized(4, 2048))).expect("stored");
    now(mock.reconfigure(&vm, sized(2, 2048))).expect("taken back");
    assert!(seen(&mock, &vm.id).restart_required.is_empty());
    power(&mock, &vm, PowerOp::Reboot).expect("restarted");
    assert_eq!(size(&seen(&mock, &vm.id)), (2, 2048));
}

#[test]
fn growth_acts_at_once_where_it_is_allowed() {
    let online = with(|config| config.resize = Resize::Online);
    let hot_add = |request: CreateVm| {
        let mut request = request;
        request.class.performance = Some(PerformanceProfile {
            cpu_hot_add: true,
            ..PerformanceProfile::default()
        });
        request
    };
    let vm = created(&online, "a");
    power(&online, &vm, PowerOp::On).expect("started");
    now(online.reconfigure(&vm, sized(4, 1024))).expect("changed");
    let found = seen(&online, &vm.id);
    assert_eq!(size(&found), (4, 2048), "a running VM gives no memory back");
    assert_eq!(found.restart_required, ["spec.resources.memoryMiB"]);

    let by_class = manual();
    let vm = created_as(&by_class, hot_add(request("a")));
    power(&by_class, &vm, PowerOp::On).expect("started");
    now(by_class.reconfigure(&vm, hot_add(sized(4, 4096)))).expect("changed");
    assert_eq!(size(&seen(&by_class, &vm.id)), (4, 2048));
}

#[test]
fn disks_come_grow_and_go_but_never_shrink() {
    let mock = manual();
    let with_disks = |disks: &[(&str, u32)]| CreateVm {
        disks: disks
            .iter()
            .map(|(name, gib)| disk(name, *gib, ExpandPolicy::Online))
            .collect(),
        ..request("a")
    };
    let vm = created_as(&mock, with_disks(&[("data", 10)]));
    power(&mock, &vm, PowerOp::On).expect("started");
    let disks = |mock| {
        let disks = seen(mock, &vm.id).disks.expect("told");
        disks
            .into_iter()
            .map(|disk| (disk.name, disk.size_gib))
            .collect::<Vec<_>>()
    };
    now(mock.reconfigure(&vm, with_disks(&[("log", 5), ("data", 20)]))).expect("changed");
    assert_eq!(
        disks(&mock),
        [("log".to_owned(), 5), ("data".to_owned(), 20)]
    );
    let error =
        now(mock.reconfigure(&vm, with_disks(&[("log", 5), ("data", 19)]))).expect_err("shrinks");
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert_eq!(error.field.as_deref(), Some("spec.disks[1].sizeGiB"));
    now(mock.reconfigure(&vm, with_disks(&[("data", 20)]))).expect("changed");
    assert_eq!(disks(&mock), [("data".to_owned(), 20)]);
}

#[test]
fn a_disk_that_may_not_grow_in_a_running_vm_waits() {
    let mock = manual();
    let with_disk = |gib| CreateVm {
        disks: vec![disk("data", gib, ExpandPolicy::Offline)],
        ..request("a")
    };
    let vm = created_as(&mock, with_disk(10));
    power(&mock, &vm, PowerOp::On).expect("started");
    now(mock.reconfigure(&vm, with_disk(20))).expect("stored");
    let found = seen(&mock, &vm.id);
    assert_eq!(found.disks.expect("told")[0].size_gib, 10);
    assert_eq!(found.restart_required, ["spec.disks"]);
    power(&mock, &vm, PowerOp::Reboot).expect("restarted");
    assert_eq!(seen(&mock, &vm.id).disks.expect("told")[0].size_gib, 20);
}

#[test]
fn the_first_disk_grows_with_the_class() {
    let mock = manual();
    let with_root = |size_gib| {
        let mut request = request("a");
        request.class.disk_defaults = Some(DiskDefaults {
            size_gib,
            ..DiskDefaults::default()
        });
        request
    };
    let vm = created_as(&mock, with_root(40));
    let root = || {
        now(mock.disk_info(&vm.id, "", None))
            .expect("told")
            .virtual_size_bytes
            >> 30
    };
    assert_eq!(root(), 40);
    now(mock.reconfigure(&vm, with_root(50))).expect("grown");
    assert_eq!(root(), 50);
    let error = now(mock.reconfigure(&vm, with_root(45))).expect_err("shrinks");
    assert_eq!(error.field.as_deref(), Some("class.diskDefaults.size"));
    now(mock.reconfigure(&vm, request("a"))).expect("no word of the first disk");
    assert_eq!(root(), 50);
}

#[test]
fn cards_and_tags_follow() {
    let mock = manual();
    let vm = created(&mock, "a");
    power(&mock, &vm, PowerOp::On).expect("started");
    let wanted = CreateVm {
        networks: vec![nic("eth0"), nic("eth1")],
        tags: vec!["red".to_owned(), "green".to_owned()],
        ..request("a")
    };
    now(mock.reconfigure(&vm, wanted)).expect("changed");
    let found = seen(&mock, &vm.id);
    assert_eq!(found.ips.len(), 2);
    assert_eq!(found.details["tags"], "red,green");
    now(mock.reconfigure(&vm, request("a"))).expect("changed");
    assert!(seen(&mock, &vm.id).nics.expect("told").is_empty());
}

#[test]
fn what_is_so_already_changes_nothing() {
    let mock = with_tasks();
    let vm = created(&mock, "a");
    mock.advance(SECOND);
    let before = seen(&mock, &vm.id).revision;
    assert_eq!(now(mock.reconfigure(&vm, request("a"))), Ok(None));
    assert_eq!(seen(&mock, &vm.id).revision, before);
    assert_eq!(mock.counts().of(Rpc::Reconfigure).mutations, 0);
}

#[test]
fn a_host_has_no_more_than_it_has() {
    let mock = with(|config| {
        config.hosts = HostPool {
            count: 1,
            cpus: 4,
            memory_mib: 8192,
            zones: 1,
            ..HostPool::default()
        };
    });
    let vm = created(&mock, "a");
    let error = now(mock.reconfigure(&vm, sized(8, 2048))).expect_err("too much");
    assert_eq!(error.kind, ErrorKind::Exhausted);
    assert_eq!(size(&seen(&mock, &vm.id)), (2, 2048));
    now(mock.reconfigure(&vm, sized(4, 8192))).expect("all there is");
}

#[test]
fn virtual_hardware_is_raised_only_while_off() {
    let mock = manual();
    let vm = created(&mock, "a");
    power(&mock, &vm, PowerOp::On).expect("started");
    let error = now(mock.hardware_upgrade(&vm, 21)).expect_err("runs");
    assert_eq!(error.kind, ErrorKind::Precondition);
    power(&mock, &vm, PowerOp::Off).expect("stopped");
    now(mock.hardware_upgrade(&vm, 21)).expect("raised");
    now(mock.hardware_upgrade(&vm, 20)).expect("newer already");
    assert_eq!(seen(&mock, &vm.id).details["hardwareVersion"], "21");
}
