//! Twenty VMs at once: the machine is not overrun, all of them run, and nothing is left of them.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::future::join_all;
use polyvirt_contract::Provider as _;
use polyvirt_contract::model::{CreateVm, ImageSource, PowerOp, PowerState, VmRef};
use polyvirt_contract::watch::VmEvent;

use crate::lab::{Lab, blank_image, desired, next, runs, stand_in};

const VMS: u32 = 20;
const AT_ONCE: usize = 7;
/// A guest that never comes up counts as starting for 5 s; a little less, for clocks differ.
const SETTLE: Duration = Duration::from_secs(4);

fn small(number: u32, image: &ImageSource) -> CreateVm {
    let mut wanted = desired(&format!("many-{number}"), 200 + number);
    wanted.class.memory_mib = 16;
    wanted.image = image.clone();
    wanted
}

/// The most runs of the stand-in that there were at the same time; each writes + when it begins and - when it ends.
fn most_at_once(log: &Path) -> usize {
    let text = std::fs::read_to_string(log).expect("written");
    let (mut now, mut most) = (0usize, 0);
    for line in text.lines() {
        now = if line == "+" { now + 1 } else { now - 1 };
        most = most.max(now);
    }
    most
}

/// When the machines started, in order; the first words of the emulator are to those who ask what it is.
fn starts(log: &Path) -> Vec<Duration> {
    let text = std::fs::read_to_string(log).expect("written");
    let nanos = text.lines().map(|line| line.parse().expect("a number"));
    let mut starts: Vec<_> = nanos.map(Duration::from_nanos).collect();
    starts.sort();
    starts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_vms_at_once_start_a_few_at_a_time_and_leave_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let img = "echo + >>$LOG; qemu-img \"$@\"; code=$?; echo - >>$LOG; exit $code";
    let img = stand_in(folder.path(), "img", img);
    let qemu = "case \"$*\" in *-uuid*) date +%s%N >>$LOG;; esac; exec qemu-system-x86_64 \"$@\"";
    let qemu = stand_in(folder.path(), "qemu", qemu);
    let lab = Lab::tuned(folder, |config| {
        config.max_starts = AT_ONCE;
        (config.img, config.emulator) = (img.clone(), qemu.clone());
    })
    .await;
    let image = blank_image(lab.folder.path());
    let mut stream = lab.watch().await;

    let begin = async |number| {
        let vm = lab.create(&small(number, &image)).await;
        lab.power(&vm, PowerOp::On).await;
        vm
    };
    let vms = join_all((0..VMS).map(begin)).await;
    let mut seen = BTreeSet::new();
    while seen.len() < vms.len() {
        if let VmEvent::State(state) = next(&mut stream).await
            && state.power == PowerState::On
        {
            seen.insert(state.id);
        }
    }
    let listed = lab.provider.list_vms().await.expect("listed");
    assert_eq!(listed.len(), vms.len());
    assert!(
        listed
            .iter()
            .all(|vm| vm.power == PowerState::On && vm.fault.is_empty())
    );
    assert!(most_at_once(&img.with_extension("log")) <= AT_ONCE);
    let starts = starts(&qemu.with_extension("log"));
    assert_eq!(starts.len(), vms.len());
    for (early, late) in starts.iter().zip(starts.iter().skip(AT_ONCE)) {
        assert!(
            *late >= *early + SETTLE,
            "more than {AT_ONCE} start at once: {starts:?}"
        );
    }
    nothing_is_left_of(&lab, &vms).await;
}

async fn nothing_is_left_of(lab: &Lab, vms: &[VmRef]) {
    let pids: Vec<i32> = vms.iter().map(|vm| lab.pid(vm)).collect();
    assert!(pids.iter().all(|pid| runs(*pid)));
    join_all(vms.iter().map(|vm| lab.delete(vm))).await;
    // One that has ended is there until it was waited for.
    let deadline = Instant::now() + Duration::from_secs(30);
    while pids.iter().any(|pid| runs(*pid)) {
        assert!(Instant::now() < deadline, "a process is left behind");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let left = |place: &str| {
        std::fs::read_dir(lab.folder.path().join(place))
            .expect("listed")
            .count()
    };
    assert_eq!(left("state/vms"), 0);
    assert_eq!(
        left("state/images"),
        1,
        "the image was prepared once, for all"
    );
    assert_eq!(lab.provider.list_vms().await.expect("listed"), []);
}
