//! A part of this program as a process of its own, so that its memory is its own.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::commands::probes::fetch;

const START_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
const SHOWN_LOG_LINES: usize = 15;

/// A running process; dropping it kills it.
pub struct Running {
    name: &'static str,
    child: Child,
    pid: u32,
    log: PathBuf,
}

/// Memory of a process, in MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Now.
    pub resident: f64,
    /// The most there ever was.
    pub peak: f64,
}

impl Running {
    /// Starts this program with these arguments and returns when it says that it is ready.
    pub async fn start(
        name: &'static str,
        arguments: &[String],
        probes: SocketAddr,
        log: PathBuf,
    ) -> anyhow::Result<Self> {
        let child = spawn(arguments, &log)?;
        let pid = child
            .id()
            .with_context(|| format!("The {name} ended at once"))?;
        let mut running = Self {
            name,
            child,
            pid,
            log,
        };
        running.until_ready(probes).await?;
        Ok(running)
    }

    async fn until_ready(&mut self, probes: SocketAddr) -> anyhow::Result<()> {
        let begin = Instant::now();
        while fetch(probes, "/readyz").await.is_err() {
            self.check_alive()?;
            if begin.elapsed() > START_LIMIT {
                bail!(
                    "The {} is not ready after {} s:\n{}",
                    self.name,
                    START_LIMIT.as_secs(),
                    self.last_words()
                );
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Fails with the end of its log if it has ended.
    pub fn check_alive(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!(
                "The {} ended with {status}:\n{}",
                self.name,
                self.last_words()
            ),
        }
    }

    /// The end of its log.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN_LOG_LINES)..].join("\n")
    }

    /// The memory that it occupies.
    pub fn memory(&self) -> anyhow::Result<Memory> {
        let status = self.proc_file("status")?;
        let mib = |field| {
            kib_after(&status, field)
                .map(|kib| f64::from(u32::try_from(kib).unwrap_or(u32::MAX)) / 1024.0)
        };
        match (mib("VmRSS:"), mib("VmHWM:")) {
            (Some(resident), Some(peak)) => Ok(Memory { resident, peak }),
            _ => bail!(
                "The {} has no memory any more:\n{}",
                self.name,
                self.last_words()
            ),
        }
    }

    /// The processor time that it has used so far.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        Ok(cpu_in(&self.proc_file("stat")?))
    }

    fn proc_file(&self, name: &str) -> anyhow::Result<String> {
        let path = format!("/proc/{}/{name}", self.pid);
        std::fs::read_to_string(&path)
            .with_context(|| format!("Cannot read {path}: the bench needs Linux"))
    }

    /// Kills it, as a crash would.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        let killed = self.child.kill().await;
        killed.with_context(|| format!("Cannot stop the {}", self.name))
    }
}

/// Starts it through `setpriv` where there is one: then it ends even if we are killed.
fn spawn(arguments: &[String], log: &Path) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("Cannot find this program's file")?;
    let mut guarded = Command::new("setpriv");
    guarded.args(["--pdeathsig", "KILL", "--"]).arg(&program);
    match start(guarded, arguments, log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            start(Command::new(&program), arguments, log)
        }
        other => other,
    }
    .with_context(|| format!("Cannot start {}", program.display()))
}

fn start(mut command: Command, arguments: &[String], log: &Path) -> io::Result<Child> {
    let output = File::create(log)?;
    let errors = output.try_clone()?;
    command.args(arguments).kill_on_drop(true);
    command
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
}

/// A port of this machine that nobody listens on.
pub async fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .context("No port is free on 127.0.0.1")?;
    Ok(listener.local_addr()?)
}

/// Time in user and system mode, which the kernel tells in hundredths of a second. The name before may hold spaces.
fn cpu_in(stat: &str) -> Duration {
    let fields = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let hundredths: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(hundredths * 10)
}

/// The number of kB that follows a word, as the files of `/proc` have it.
pub fn kib_after(text: &str, word: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_from_proc() {
        let stat = "42 (poly virt) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 8 0 100 0 0";
        assert_eq!(cpu_in(stat), Duration::from_secs(2));
    }

    #[test]
    fn memory_is_read_from_proc() {
        let text = "Name:\tpolyvirt\nVmHWM:\t   40960 kB\nVmRSS:\t   20480 kB\n";
        assert_eq!(kib_after(text, "VmRSS:"), Some(20_480));
        assert_eq!(kib_after(text, "VmSwap:"), None);
    }
}
