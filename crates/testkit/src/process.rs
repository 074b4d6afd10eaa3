use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use crate::error::{Component, Doing, Error};
use crate::spawner;

const TAIL_LINES: usize = 15;
const TAIL_BYTES: u64 = 16 * 1024;
const POLL: Duration = Duration::from_millis(20);

/// A running component; dropping it kills it and waits until it is gone.
#[derive(Debug)]
pub(crate) struct Process {
    component: Component,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program` with its output appended to `log`.
    pub(crate) fn start(
        component: Component,
        program: &Path,
        arguments: &[String],
        log: &Path,
    ) -> Result<Self, Error> {
        let output = append_to(log).doing("write the log", log)?;
        let errors = output.try_clone().doing("write the log", log)?;
        let mut command = dying_with_parent(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        // Its own group: a Ctrl-C in the terminal is for the parent, which then stops it in order.
        command.process_group(0);
        let child = spawner::spawn(command).doing("start", program)?;
        tracing::debug!(%component, pid = child.id(), "started");
        Ok(Self {
            component,
            child,
            log: log.to_owned(),
        })
    }

    /// Fails with the end of the log if the process is gone.
    pub(crate) fn check_alive(&mut self) -> Result<(), Error> {
        match self.exit_status()? {
            None => Ok(()),
            Some(status) => Err(Error::Exited {
                component: self.component,
                status,
                log: self.log.clone(),
                log_tail: log_tail(&self.log),
            }),
        }
    }

    /// Asks it to end, and kills it if it has not after `grace`.
    pub(crate) async fn terminate(&mut self, grace: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + grace;
        // An error means that it is gone already, which the loop sees.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        while self.exit_status()?.is_none() {
            if Instant::now() >= deadline {
                return self.kill();
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Kills it and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Result<(), Error> {
        let program = Path::new(self.component.name());
        self.child.kill().doing("kill", program)?;
        self.child.wait().map(drop).doing("wait for", program)
    }

    /// The memory that it occupies now.
    pub(crate) fn rss_bytes(&self) -> Result<u64, Error> {
        let path = PathBuf::from(format!("/proc/{}/status", self.child.id()));
        let status = fs::read_to_string(&path).doing("read", &path)?;
        rss_in(&status).ok_or(Error::NotRunning {
            component: self.component,
        })
    }

    fn exit_status(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child
            .try_wait()
            .doing("wait for", Path::new(self.component.name()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            tracing::warn!(component = %self.component, %error, "may still run");
        }
    }
}

/// The last lines of a log, for an error message.
pub(crate) fn log_tail(log: &Path) -> String {
    let text = read_end(log).unwrap_or_else(|error| format!("(the log cannot be read: {error})"));
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    if lines.is_empty() {
        return "(nothing)".to_owned();
    }
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

fn read_end(log: &Path) -> std::io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn append_to(log: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(log)
}

/// A command for `program` whose process the kernel kills when ours ends in any way.
///
/// Only a system call between fork and exec can ask for that, which safe Rust cannot make:
/// `setpriv` of util-linux makes it for us. Without it, only [`Drop`] kills.
fn dying_with_parent(program: &Path) -> Command {
    let Some(setpriv) = on_path("setpriv") else {
        tracing::warn!("no setpriv (util-linux): the control plane outlives a killed parent");
        return Command::new(program);
    };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path: OsString = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

fn rss_in(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, log: &Path) -> Process {
        let arguments = ["-c".to_owned(), script.to_owned()];
        Process::start(Component::Etcd, Path::new("/bin/sh"), &arguments, log).unwrap()
    }

    #[tokio::test]
    async fn an_early_end_shows_status_and_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut process = shell("seq 1 40; echo the reason >&2; exit 3", &log);
        process.child.wait().unwrap();
        let error = process.check_alive().unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.ends_with("the reason"), "{error}");
        assert!(!error.contains("\n20\n"), "only the last lines: {error}");
    }

    #[tokio::test]
    async fn one_that_ignores_the_request_to_end_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut process = shell("trap '' TERM; echo up; while :; do sleep 0.05; done", &log);
        while log_tail(&log) != "up" {
            sleep(POLL).await;
        }
        process.terminate(Duration::from_millis(100)).await.unwrap();
        assert!(process.exit_status().unwrap().is_some());
    }

    #[test]
    fn a_child_outlives_the_thread_that_asked_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut process = std::thread::spawn(move || shell("exec sleep 60", &log))
            .join()
            .unwrap();
        std::thread::sleep(Duration::from_millis(200));
        process.check_alive().unwrap();
    }

    #[test]
    fn reads_resident_memory() {
        assert_eq!(rss_in("Name:\tetcd\nVmRSS:\t   2048 kB\n"), Some(2_097_152));
        assert_eq!(rss_in("Name:\tgone\nState:\tZ (zombie)\n"), None);
    }
}
