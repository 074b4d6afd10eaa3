use std::process::Command;
use std::time::{Duration, Instant};

use super::*;
use crate::config::QemuConfig;

const SLOW: Duration = Duration::from_secs(2);

async fn vm_in(folder: &std::path::Path) -> (Arc<Core>, Arc<Vm>) {
    let core = Core::open(QemuConfig::new(folder)).await.expect("open");
    let vm = Vm::new(&core, crate::cmdline::tests::record());
    vm.dir.create().expect("made");
    core.insert(vm.clone());
    (core, vm)
}

/// A disk that does not answer is played by a pipe that nobody reads.
fn block_writes(vm: &Vm) -> std::path::PathBuf {
    let pipe = vm.dir.record().with_extension("json.new");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    pipe
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_hangs_stalls_neither_readers_nor_other_tasks() {
    let folder = tempfile::tempdir().expect("a folder");
    let (core, vm) = vm_in(folder.path()).await;
    let pipe = block_writes(&vm);
    let writers: Vec<_> = (0..4)
        .map(|number| {
            let (core, vm) = (core.clone(), vm.clone());
            tokio::spawn(async move { vm.update(&core, |record| record.starts = number) })
        })
        .collect();
    let begin = Instant::now();
    let mut longest = Duration::ZERO;
    while begin.elapsed() < SLOW {
        let tick = Instant::now();
        tokio::time::sleep(Duration::from_millis(10)).await;
        // Each of these takes the lock of the VM whose disk hangs.
        assert_eq!(core.states().len(), 1);
        longest = longest.max(tick.elapsed());
    }
    assert!(writers.iter().all(|writer| !writer.is_finished()));
    assert!(longest < SLOW / 4, "a task waited {longest:?}");
    let reader = std::thread::spawn(move || std::fs::read(pipe));
    for writer in writers {
        // The first finds that a pipe is no file; those after it write one.
        let _ = writer.await.expect("ended");
    }
    reader.join().expect("ended").expect("read");
    assert!(vm.dir.record().is_file());
}
