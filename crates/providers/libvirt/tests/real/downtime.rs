//! How long a guest stands still when it is moved: by us, by virsh and by QEMU alone, in turns. All three are the same guest that
//! does the same, between the same name spaces and over the same wire, and are measured from the moment at which QEMU stops the
//! guest to the one at which the other QEMU lets it go on, by the times that QEMU gives. Meanwhile the other guests are stopped:
//! they would take the processors from the one that is measured.

use std::time::{Duration, Instant};

use polyvirt_contract::model::VmRef;
use polyvirt_provider_lab::Patience as _;
use polyvirt_provider_lab::counting::{count, counter, counting, counts_on, to};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::bare::{Bare, Storage};
use crate::lab::guest_image;
use crate::moments::Moments;
use crate::pair::{Pair, desired};

/// Of each the one in the middle counts.
const ROUNDS: usize = 5;
/// What may lie between what happens and what we hear, on a busy machine.
const HEARD_LATE: Duration = Duration::from_millis(60);
const HOSTS: [&str; 2] = ["hv-a", "hv-b"];

fn middle(who: &str, mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    println!("{who}: {times:?}");
    times[times.len() / 2]
}

/// By us, to the host of that place. What we tell is what was.
async fn ours(
    pair: &Pair,
    moments: &Moments,
    (name, vm): (&str, &VmRef),
    round: usize,
) -> Duration {
    let request = to(HOSTS[(round + 1) % 2], &format!("r{round}"));
    let answer = pair.provider.migrate(vm, request).await;
    let id = answer.expect("accepted").expect("it takes its time");
    pair.ended(Ok(Some(id.clone()))).await.expect("moved");
    let progress = pair.provider.migration_progress(&id).await.expect("told");
    let (told, was) = (
        progress.downtime.expect("measured"),
        moments.stood_still(name).await,
    );
    println!("told {told:?}, was {was:?}");
    assert!(
        told.abs_diff(was) < HEARD_LATE,
        "told {told:?}, was {was:?}"
    );
    was
}

/// A domain like that of our VM, which nobody but virsh knows.
struct Theirs<'a> {
    pair: &'a Pair,
}

impl<'a> Theirs<'a> {
    const NAME: &'static str = "theirs";

    /// It does the same as ours.
    async fn start(pair: &'a Pair, like: &VmRef) -> Self {
        let xml = pair.a.virsh(&["dumpxml", "--inactive", like.id.as_str()]);
        let disk = pair.shared.path().join("theirs.qcow2");
        std::fs::copy(guest_image(), &disk).expect("copied");
        let root = pair.shared.path().join(format!("{}.root.qcow2", like.id));
        let (before, rest) = xml.split_once("<metadata>").expect("it is marked");
        let (_, after) = rest.split_once("</metadata>").expect("whole");
        let xml = format!("{before}{after}")
            .replace("<name>sharer</name>", "<name>theirs</name>")
            .replace(&root.display().to_string(), &disk.display().to_string())
            .replace(like.id.as_str(), "0a1b2c3d-0000-4000-8000-0000000000fe")
            .replace(
                "0a1b2c3d-0000-4000-8000-0000000000fe.seed",
                &format!("{}.seed", like.id),
            );
        let file = pair.a.path("theirs.xml");
        std::fs::write(&file, xml).expect("written");
        pair.a.virsh(&["create", &file.display().to_string()]);
        let theirs = Self { pair };
        theirs.works().await;
        theirs
    }

    async fn works(&self) {
        let arguments = json!({"path": "/bin/sh", "arg": ["-c", counter()]});
        let line = json!({"execute": "guest-exec", "arguments": arguments}).to_string();
        let deadline = Instant::now() + Duration::from_secs(300);
        while self
            .pair
            .a
            .try_virsh(&["qemu-agent-command", Self::NAME, &line])
            .is_err()
        {
            assert!(Instant::now() < deadline, "it does not come up");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    fn migrate(&self, round: usize) {
        let (pair, there) = (self.pair, (round + 1) % 2);
        let hosts = [&pair.a, &pair.b];
        let address = format!("tcp://{}", pair.wire.seen(there));
        hosts[1 - there].virsh(&[
            "migrate",
            Self::NAME,
            "--live",
            "--unsafe",
            "--desturi",
            &hosts[there].plain_url(),
            "--migrateuri",
            &address,
        ]);
    }
}

/// What else this machine has to do is not to be measured: these threads go before it, and so does all that they start.
fn first_in_line() {
    let threads = std::fs::read_dir("/proc/self/task").expect("readable");
    let numbers = threads.map(|thread| thread.expect("readable").file_name());
    let done = std::process::Command::new("renice")
        .args(["-n", "-15", "-p"])
        .args(numbers)
        .output();
    let told = done.expect("renice is installed").stderr;
    let told = String::from_utf8_lossy(&told);
    // Threads of other tests end at any time.
    let ended = |line: &str| line.contains("No such process");
    assert!(told.lines().all(ended), "{told}");
}

/// Processes of guests that stand still for as long as this is held.
struct Still(Vec<Pid>);

impl Still {
    /// Those whose command lines have one of these words.
    fn of(words: &[&str]) -> Self {
        let processes = std::fs::read_dir("/proc").expect("readable").flatten();
        let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
        let pids: Vec<Pid> = numbers
            .filter_map(Pid::from_raw)
            .filter(|pid| is_guest(*pid, words))
            .collect();
        for pid in &pids {
            kill_process(*pid, Signal::STOP).expect("it runs");
        }
        assert!(pids.len() >= words.len(), "{words:?} of {pids:?}");
        Self(pids)
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = kill_process(*pid, Signal::CONT);
        }
    }
}

fn is_guest(pid: Pid, words: &[&str]) -> bool {
    let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
    let line = line.unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    let first = line.split('\0').next().unwrap_or_default();
    first.ends_with("qemu-system-x86_64") && words.iter().any(|word| line.contains(word))
}

/// A tool that blocks is waited for apart from what passes the guest on.
fn apart<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// How often it is measured before it is believed to take too long: others who want the processors can only make it longer.
const TRIES: usize = 3;

/// How long guests stood still, by who moved them.
#[derive(Default)]
struct Times {
    qemu: Vec<Duration>,
    virsh: Vec<Duration>,
    us: Vec<Duration>,
}

impl Times {
    /// What libvirt and we add may be half of what QEMU itself takes. Begins anew.
    fn hold(&mut self) -> bool {
        let times = std::mem::take(self);
        let (ours, alone) = (middle("ours", times.us), middle("alone", times.qemu));
        let ratio = |of: Duration| of.as_secs_f64() / alone.as_secs_f64();
        println!(
            "stood still for {ours:?}, with QEMU alone for {alone:?}: {:.2} times",
            ratio(ours)
        );
        if !times.virsh.is_empty() {
            let virsh = ratio(middle("virsh", times.virsh));
            println!("virsh: {virsh:.2} times QEMU alone");
        }
        ours <= alone * 3 / 2
    }

    /// Whether this was the last round: it was seen to hold. Fails if it was tried too often.
    fn enough(&mut self, round: usize) -> bool {
        if !(round + 1).is_multiple_of(ROUNDS) {
            return false;
        }
        let held = self.hold();
        assert!(held || round + 1 < ROUNDS * TRIES, "more than 1.5 times");
        held
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_shared_storage_nothing_is_copied_and_a_guest_hardly_stands_still() {
    let _alone = crate::lab::alone().await;
    first_in_line();
    let pair = Pair::start("").await;
    let moments = Moments::listen(&pair);
    let vm = counting(&pair, desired("sharer", 1, "shared")).await;
    let volumes = pair.a.volumes("shared");
    let theirs = Theirs::start(&pair, &vm).await;
    let mut alone = apart(|| {
        let alone = Bare::start(&pair.wire, Storage::Shared);
        alone.does(&counter());
        alone
    });
    let before = count(&pair, &vm).await;
    let mut times = Times::default();
    let (us, virsh, qemu) = ("guest=sharer,", "guest=theirs,", alone.mark());
    for round in 0.. {
        let still = Still::of(&[us, virsh]);
        times.qemu.push(apart(|| alone.migrate()));
        drop(still);
        let still = Still::of(&[us, &qemu]);
        apart(|| theirs.migrate(round));
        let stood = moments.stood_still(Theirs::NAME).await;
        times.virsh.push(stood);
        drop(still);
        let _still = Still::of(&[virsh, &qemu]);
        let stood = ours(&pair, &moments, ("sharer", &vm), round).await;
        times.us.push(stood);
        if times.enough(round) {
            assert_eq!(pair.state(&vm).await.host, HOSTS[(round + 1) % 2]);
            break;
        }
    }
    counts_on(&pair, &vm, before).await;
    pair.b.virsh(&["pool-refresh", "shared"]);
    let left = pair.b.volumes("shared");
    assert!(
        volumes.iter().all(|name| left.contains(name)),
        "the files stay: {left:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_its_disk_copied_a_guest_hardly_stands_still() {
    let _alone = crate::lab::alone().await;
    first_in_line();
    let pair = Pair::start("").await;
    let moments = Moments::listen(&pair);
    let vm = counting(&pair, desired("carrier", 1, "default")).await;
    let mut alone = apart(|| {
        let alone = Bare::start(&pair.wire, Storage::Apart);
        alone.does(&counter());
        alone
    });
    let before = count(&pair, &vm).await;
    let mut times = Times::default();
    let (us, qemu) = ("guest=carrier,", alone.mark());
    for round in 0.. {
        let still = Still::of(&[us]);
        times.qemu.push(apart(|| alone.migrate()));
        drop(still);
        let _still = Still::of(&[&qemu]);
        let stood = ours(&pair, &moments, ("carrier", &vm), round).await;
        times.us.push(stood);
        if times.enough(round) {
            pair.only_at(&vm, HOSTS[(round + 1) % 2]);
            break;
        }
    }
    counts_on(&pair, &vm, before).await;
}
