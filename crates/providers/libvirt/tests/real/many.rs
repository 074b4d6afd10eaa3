//! Hundreds of domains on one connection.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use futures::future::join_all;
use polyvirt_contract::model::{ClassSpec, CreateVm, ImageSource};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{Provider as _, TaskId};
use polyvirt_provider_libvirt::Libvirt;

use crate::lab::{Lab, nic, open, owner};
use crate::wire::Wire;

const DOMAINS: u32 = 500;

fn xml(number: u32) -> String {
    format!(
        "<domain type='qemu'><name>d{number}</name><uuid>0a1b2c3d-0000-4000-9000-{number:012x}</uuid><memory unit='MiB'>64</memory><os><type machine='q35'>hvm</type></os><features><acpi/></features></domain>"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_domains_are_listed_at_once() {
    let lab = Lab::new().await;
    let mut script = String::new();
    for number in 0..DOMAINS {
        let file = lab.host.path(&format!("d{number}.xml"));
        std::fs::write(&file, xml(number)).expect("written");
        writeln!(script, "define {}", file.display()).expect("written");
    }
    let commands = lab.host.path("define.txt");
    std::fs::write(&commands, &script).expect("written");
    lab.host.shell(&commands);

    let wire = Wire::before(&lab.host);
    let counted = open(wire.url());
    let deadline = Instant::now() + Duration::from_secs(120);
    while counted.list_vms().await.expect("listed").len() < DOMAINS as usize {
        assert!(Instant::now() < deadline, "not all are seen");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let begun = Instant::now();
    let listed = counted.list_vms().await.expect("listed");
    let ours = begun.elapsed();
    assert_eq!(listed.len(), DOMAINS as usize);

    // What a process for each VM costs, measured on twenty of them.
    let begun = Instant::now();
    for number in 0..20 {
        lab.host.virsh(&["dominfo", &format!("d{number}")]);
    }
    let theirs = begun.elapsed() * (DOMAINS / 20);
    let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
    let _ = writeln!(
        std::io::stderr(),
        "{DOMAINS} domains: {ours:?}; virsh for each: {theirs:?}; {ratio:.0} times"
    );
    assert!(ours < Duration::from_secs(1), "{ours:?}");
    at_rest(&wire).await;
    assert!(ratio > 10.0, "{ratio}");
}

/// One connection for all of them, and not a call but signs of life.
async fn at_rest(wire: &Wire) {
    let window = Duration::from_secs(15);
    wire.quiet_for(Duration::from_secs(3), Duration::from_secs(120))
        .await;
    let before = wire.calls().len();
    tokio::time::sleep(window).await;
    let calls = wire.calls();
    let _ = writeln!(
        std::io::stderr(),
        "{} calls on {} connection until all were known, {} in {window:?} of rest",
        before,
        wire.connections(),
        calls.len() - before
    );
    assert_eq!(calls[before..], [0_u32; 0], "something was asked at rest");
    assert_eq!(wire.connections(), 1);
}

/// VMs that are created at once.
const NEW: u32 = 50;
/// What the provider may take for that, in KiB.
const MOST_KIB: u64 = 40 << 10;
/// Says to this program that it is the provider.
const ENDPOINT: &str = "POLYVIRT_TEST_ENDPOINT";
const IMAGE: &str = "POLYVIRT_TEST_IMAGE";
const FIFTY: &str = "many::fifty_vms_are_created_at_once_by_a_small_provider";

fn memory_kib(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let mut words = line.expect("told").split_whitespace();
    words.find_map(|word| word.parse().ok()).expect("a number")
}

fn small(number: u32) -> CreateVm {
    CreateVm {
        owner: Some(owner(&format!("vm-{number}"), number)),
        name: format!("vm-{number}"),
        class: ClassSpec {
            cpu: 1,
            memory_mib: 64,
            ..ClassSpec::default()
        },
        image: ImageSource {
            path: std::env::var(IMAGE).expect("given"),
            ..ImageSource::default()
        },
        networks: vec![nic("eth0")],
        ..CreateVm::default()
    }
}

async fn finished(provider: &Libvirt, task: Option<TaskId>) {
    let Some(task) = task else { return };
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        match provider.task_status(&task).await.expect("known") {
            TaskState::Succeeded => return,
            TaskState::Failed(error) => panic!("{error:?}"),
            TaskState::Running { .. } => assert!(Instant::now() < deadline, "too slow"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn create_fifty(url: &str) {
    let provider = open(url);
    provider.validate().await.expect("libvirt answers");
    let before = memory_kib("VmRSS:");
    let begun = Instant::now();
    let provider = &provider;
    let all = (0..NEW).map(|number| async move {
        let created = provider.create(small(number)).await.expect("accepted");
        finished(provider, created.task).await;
        created.id
    });
    let ids = join_all(all).await;
    let created = begun.elapsed();
    let begun = Instant::now();
    for id in &ids {
        provider
            .describe(id)
            .await
            .expect("answers")
            .expect("there");
    }
    let each = begun.elapsed() / NEW;
    let (now, peak) = (memory_kib("VmRSS:"), memory_kib("VmHWM:"));
    let _ = writeln!(
        std::io::stderr(),
        "{NEW} VMs created at once in {created:?}; resident {before} KiB before, {now} KiB after, {peak} KiB at most\nmicroseconds a look: {}\npeak KiB: {peak}",
        each.as_micros()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_vms_are_created_at_once_by_a_small_provider() {
    if let Ok(url) = std::env::var(ENDPOINT) {
        return create_fifty(&url).await;
    }
    let lab = Lab::new().await;
    // In a process of its own, where no other test's memory is counted.
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child
        .args(["--exact", FIFTY, "--nocapture"])
        .env(ENDPOINT, lab.host.url())
        .env(IMAGE, lab.host.path("images/guest.qcow2"));
    let output = tokio::task::spawn_blocking(move || child.output()).await;
    let output = output.expect("joined").expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let _ = writeln!(std::io::stderr(), "{said}");
    assert!(output.status.success(), "{said}");
    let number = |key: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|text| text.trim().parse::<u64>().ok())
            .expect("told")
    };
    let names = lab.host.virsh(&["list", "--all", "--name"]);
    assert_eq!(names.lines().count(), NEW as usize);
    let begun = Instant::now();
    for number in 0..20 {
        lab.host.virsh(&["dominfo", &format!("vm-{number}")]);
    }
    let virsh = u64::try_from((begun.elapsed() / 20).as_micros()).expect("small");
    let ours = number("microseconds a look:");
    let _ = writeln!(
        std::io::stderr(),
        "a look {ours} µs, a virsh {virsh} µs: {} times",
        virsh / ours.max(1)
    );
    let peak = number("peak KiB:");
    assert!(peak < MOST_KIB, "{peak} KiB");
    assert!(ours < virsh, "a look takes {ours} µs and virsh {virsh} µs");
}
