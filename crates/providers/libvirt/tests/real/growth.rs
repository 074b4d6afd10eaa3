//! Disks that grow while their guest runs, with what is on them.

use polyvirt_contract::Provider as _;
use polyvirt_contract::model::{CreateVm, DiskDefaults, DiskSpec, ExpandPolicy, VmRef};

use crate::lab::{Lab, guest_image};

const OPT_OUT: &str = "libvirt.growFileSystems";

fn disk(name: &str, size_gib: u32) -> DiskSpec {
    DiskSpec {
        name: name.to_owned(),
        size_gib,
        expand_policy: ExpandPolicy::Online,
        ..DiskSpec::default()
    }
}

/// Makes a file system on each disk that has this serial number, and mounts it.
async fn fill(lab: &Lab, vm: &VmRef, target: &str, point: &str) {
    fill_with(lab, vm, (target, point), "mkfs.ext4 -q -m 0").await;
}

async fn fill_with(lab: &Lab, vm: &VmRef, (target, point): (&str, &str), make: &str) {
    let script = format!(
        "for d in /sys/block/vd*; do if [ \"$(cat $d/serial)\" = polyvirt-{target} ]; then {make} /dev/${{d##*/}} >/dev/null && mkdir -p {point} && mount /dev/${{d##*/}} {point} && seq 1 20000 > {point}/kept && sync && echo done; fi; done"
    );
    assert_eq!(lab.run(vm, &script).await, "done");
}

/// How large the file system at that place is, in MiB.
async fn mib(lab: &Lab, vm: &VmRef, point: &str) -> u64 {
    let script = format!("df -m {point} | tail -n 1 | awk '{{print $2}}'");
    lab.run(vm, &script).await.parse().expect("a number")
}

/// Reconfigures, and tells what is said of that disk's file system.
async fn grown(lab: &Lab, vm: &VmRef, desired: &CreateVm, name: &str) -> String {
    lab.done(lab.provider.reconfigure(vm, desired.clone()).await)
        .await;
    let state = lab.state(vm).await;
    assert_eq!(state.restart_required, Vec::<String>::new());
    let key = format!("fileSystem.{name}");
    state.details.get(&key).cloned().unwrap_or_default()
}

fn with_root(desired: &mut CreateVm, gib: u32) {
    desired.class.disk_defaults = Some(DiskDefaults {
        size_gib: gib,
        ..DiskDefaults::default()
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_grows_with_its_file_system_and_nothing_else_is_touched() {
    let lab = Lab::new().await;
    let mut desired = lab.desired("grows", 1);
    desired.disks = vec![disk("whole", 1), disk("empty", 1)];
    let vm = lab.create(&desired).await;
    lab.boot(&vm).await;
    fill(&lab, &vm, "vdb", "/mnt/whole").await;
    assert!(mib(&lab, &vm, "/mnt/whole").await < 1024);
    let small = mib(&lab, &vm, "/data").await;
    assert!(small < 32, "{small}");

    // A file system on the whole disk.
    desired.disks[0].size_gib = 2;
    let said = grown(&lab, &vm, &desired, "whole").await;
    println!("{said}");
    assert!(said.starts_with("grown: ext4 on vd"), "{said}");
    assert!(mib(&lab, &vm, "/mnt/whole").await > 1800);
    lab.run(&vm, "seq 1 20000 | cmp - /mnt/whole/kept").await;

    // One on the last partition of the first disk.
    with_root(&mut desired, 1);
    let said = grown(&lab, &vm, &desired, "root").await;
    println!("{said}");
    assert_eq!(said, "grown: ext4 on vda2 at /data");
    assert!(mib(&lab, &vm, "/data").await > 800);
    assert_eq!(lab.run(&vm, "cat /data/boots").await, "1");

    // A disk without one: it grows, and nothing is made of it.
    desired.disks[1].size_gib = 2;
    let said = grown(&lab, &vm, &desired, "empty").await;
    println!("{said}");
    assert!(said.starts_with("not grown: nothing on vd"), "{said}");
    lab.until_runs(
        &vm,
        "[ \"$(cat /sys/block/vd*/size | grep -c 4194304)\" = 2 ]",
    )
    .await;
    leaves(&lab, &vm, &mut desired).await;
    lab.delete(&vm).await;
}

/// Reasons for which a file system stays as it is. Each disk grows all the same.
async fn leaves(lab: &Lab, vm: &VmRef, desired: &mut CreateVm) {
    for (before, after, why) in [
        (
            "mount -o remount,ro /mnt/whole",
            "mount -o remount,rw /mnt/whole",
            "mounted for reading only",
        ),
        (
            "mv /usr/sbin/resize2fs /tmp/",
            "mv /tmp/resize2fs /usr/sbin/",
            "the guest has no resize2fs",
        ),
        (
            "mv /usr/sbin/resize2fs /tmp/; printf '#!/bin/sh\\necho broken; exit 3\\n' > /usr/sbin/resize2fs; chmod +x /usr/sbin/resize2fs",
            "mv /tmp/resize2fs /usr/sbin/",
            "resize2fs failed: broken",
        ),
    ] {
        let size = mib(lab, vm, "/mnt/whole").await;
        lab.run(vm, before).await;
        desired.disks[0].size_gib += 1;
        let said = grown(lab, vm, desired, "whole").await;
        println!("{said}");
        assert!(
            said.starts_with("not grown: ") && said.contains(why),
            "{said}"
        );
        assert_eq!(mib(lab, vm, "/mnt/whole").await, size);
        lab.run(vm, after).await;
    }
    let leave = (OPT_OUT.to_owned(), "false".to_owned());
    desired.class.extra_config.extend([leave]);
    desired.disks[0].size_gib += 1;
    let said = grown(lab, vm, desired, "whole").await;
    assert_eq!(said, "not grown: the class says so");
    desired.class.extra_config.remove(OPT_OUT);

    // What was left behind is made up for when the disk grows next.
    desired.disks[0].size_gib += 1;
    let said = grown(lab, vm, desired, "whole").await;
    assert!(said.starts_with("grown: "), "{said}");
    assert!(mib(lab, vm, "/mnt/whole").await > 6 << 10);
    lab.run(vm, "seq 1 20000 | cmp - /mnt/whole/kept").await;
    silent(lab, vm, desired).await;
}

/// An agent that says nothing holds up nothing.
async fn silent(lab: &Lab, vm: &VmRef, desired: &mut CreateVm) {
    let stop = "(sleep 1; killall -STOP qemu-ga) </dev/null >/dev/null 2>&1 & echo";
    lab.run(vm, stop).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    desired.disks[0].size_gib += 1;
    let said = grown(lab, vm, desired, "whole").await;
    println!("{said}");
    assert!(said.starts_with("not grown: "), "{said}");
}

/// The test guest itself has only ext4: the tools and drivers of others are brought to it on a disk.
async fn learn_more(lab: &Lab, vm: &VmRef) {
    let more = guest_image().with_file_name("file-systems.qcow2");
    let copy = lab.host.path("file-systems.qcow2");
    std::fs::copy(more, &copy).expect("hack/guest.sh makes it");
    let copy = copy.display().to_string();
    let attach = ["attach-disk", "grows", &copy, "vdq", "--live"];
    lab.host
        .virsh(&[&attach[..], &["--subdriver", "qcow2"][..]].concat());
    let learn = "
        disk() { for d in /sys/block/vd*; do case $(cat $d/serial) in polyvirt-*) ;; *) [ $(cat $d/size) != 131072 ] || echo ${d##*/} ;; esac; done; }
        while [ -z \"$(disk)\" ]; do sleep 1; done
        mount /dev/$(disk) /mnt && cd /mnt
        find lib usr -type f | while read file; do [ -e /$file ] || cp $file /$file; done
        modules=$(cat etc/modules.order); cd /; umount /mnt
        for file in $modules; do insmod /lib/modules/$file || true; done
        grep -c -e xfs -e btrfs /proc/filesystems";
    assert_eq!(lab.run(vm, learn).await, "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_systems_of_other_kinds_grow_too() {
    let lab = Lab::new().await;
    let mut desired = lab.desired("grows", 1);
    desired.disks = vec![disk("red", 1), disk("green", 1)];
    let vm = lab.create(&desired).await;
    lab.boot(&vm).await;
    learn_more(&lab, &vm).await;
    let kinds = [
        ("xfs", "vdb", "mkfs.xfs -q"),
        ("btrfs", "vdc", "mkfs.btrfs -q"),
    ];
    for (place, (kind, target, make)) in kinds.into_iter().enumerate() {
        let point = format!("/mnt/{kind}");
        fill_with(&lab, &vm, (target, &point), make).await;
        assert!(mib(&lab, &vm, &point).await <= 1024);
        desired.disks[place].size_gib = 2;
        let name = desired.disks[place].name.clone();
        let said = grown(&lab, &vm, &desired, &name).await;
        println!("{said}");
        assert!(said.starts_with(&format!("grown: {kind} on vd")), "{said}");
        assert!(mib(&lab, &vm, &point).await > 1800);
        lab.run(&vm, &format!("seq 1 20000 | cmp - {point}/kept"))
            .await;
    }
    lab.delete(&vm).await;
}
