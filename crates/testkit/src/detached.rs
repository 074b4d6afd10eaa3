//! Processes that outlive the one that started them, and are found again by a file.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::error::{Doing, Error};
use crate::proc::{self, Birth};
use crate::process::{append_to, log_tail, on_path};
use crate::state::{private_dir, write_private};

const POLL: Duration = Duration::from_millis(50);

/// A program to keep running.
#[derive(Debug, Clone)]
pub struct Service {
    /// Names its log and the file by which it is found again.
    pub name: String,
    /// The program's file.
    pub program: PathBuf,
    /// Its command line. No secrets: everybody on the machine can read it.
    pub arguments: Vec<String>,
    /// Variables of the environment that it reads. One that has changed needs a new process.
    pub variables: Vec<String>,
}

impl Service {
    /// Changes when the process must be started anew to be up to date.
    fn fingerprint(&self) -> String {
        let about = fs::metadata(&self.program);
        let built = about.and_then(|about| about.modified()).map(since_epoch);
        let built = built.unwrap_or_default().as_millis();
        let called = format!("{} {built} {:?}", self.program.display(), self.arguments);
        match environment(&self.variables, |name| std::env::var_os(name)) {
            Some(hash) => format!("{called} {hash:016x}"),
            None => called,
        }
    }
}

/// Of the variables that are set, names and values; `None` if none is. Hashed, for a value may be secret. Another build of this
/// program may hash otherwise, but then the program has changed too.
fn environment(
    variables: &[String],
    value: impl Fn(&str) -> Option<std::ffi::OsString>,
) -> Option<u64> {
    let set = variables
        .iter()
        .filter_map(|name| Some((name, value(name)?)));
    let set: Vec<_> = set.collect();
    let mut hasher = DefaultHasher::new();
    set.hash(&mut hasher);
    (!set.is_empty()).then(|| hasher.finish())
}

/// What is written down of a process that was started.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    birth: Birth,
    since: u64,
    fingerprint: String,
}

/// A process with a session of its own: it stays when the terminal and whoever started it go.
#[derive(Debug)]
pub struct Detached {
    name: String,
    folder: PathBuf,
    record: Record,
    // Reaps it, should it end while we are still there.
    child: Option<Child>,
}

impl Detached {
    /// The process of that name that was started in this folder and still runs.
    pub fn find(folder: &Path, name: &str) -> Result<Option<Self>, Error> {
        let path = record_path(folder, name);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read(&path).doing("read", &path)?;
        let record: Record =
            serde_json::from_slice(&text).map_err(|source| Error::Damaged { path, source })?;
        let found = Self {
            name: name.to_owned(),
            folder: folder.to_owned(),
            record,
            child: None,
        };
        Ok(Some(found).filter(Self::is_alive))
    }

    /// Starts the service in this folder. The log of the last run is kept as `.log.old`.
    pub fn start(folder: &Path, service: &Service) -> Result<Self, Error> {
        private_dir(&folder.join("run"))?;
        let log = log_path(folder, &service.name);
        if log.exists() {
            fs::rename(&log, log.with_extension("log.old")).doing("keep", &log)?;
        }
        let child = spawn(folder, service, &log)?;
        let birth = proc::birth(child.id()).ok_or_else(|| ended(&service.name, &log))?;
        let record = Record {
            birth,
            since: since_epoch(SystemTime::now()).as_secs(),
            fingerprint: service.fingerprint(),
        };
        let path = record_path(folder, &service.name);
        let text = serde_json::to_vec(&record).map_err(|source| Error::Damaged {
            path: path.clone(),
            source,
        })?;
        write_private(&path, &text)?;
        Ok(Self {
            name: service.name.clone(),
            folder: folder.to_owned(),
            record,
            child: Some(child),
        })
    }

    /// Whether it was started from this very program and command line.
    pub fn is_up_to_date(&self, service: &Service) -> bool {
        self.record.fingerprint == service.fingerprint()
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.record.birth.pid
    }

    /// When it was started, in seconds since 1970.
    pub fn since(&self) -> u64 {
        self.record.since
    }

    /// Its log.
    pub fn log(&self) -> PathBuf {
        log_path(&self.folder, &self.name)
    }

    /// Whether it runs.
    pub fn is_alive(&self) -> bool {
        proc::birth(self.pid()).as_ref() == Some(&self.record.birth)
    }

    /// Fails with the end of its log if it has ended.
    pub fn check_alive(&mut self) -> Result<(), Error> {
        let reaped = self.child.as_mut().map(Child::try_wait);
        let gone = matches!(reaped, Some(Ok(Some(_)))) || !self.is_alive();
        if gone {
            return Err(ended(&self.name, &self.log()));
        }
        Ok(())
    }

    /// Asks it to end, and kills it if it has not after `grace`.
    pub async fn stop(mut self, grace: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + grace;
        self.signal(Signal::TERM);
        while self.check_alive().is_ok() {
            if Instant::now() >= deadline {
                tracing::warn!(name = self.name, "does not end when asked: killed");
                self.signal(Signal::KILL);
            }
            sleep(POLL).await;
        }
        let path = record_path(&self.folder, &self.name);
        fs::remove_file(&path).doing("remove", &path)
    }

    /// An error means that it is gone already, which whoever waits sees.
    fn signal(&self, signal: Signal) {
        if !self.is_alive() {
            return;
        }
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Runs the service, unless the process that runs already is up to date. Tells which of the two it was.
pub async fn ensure(
    folder: &Path,
    service: &Service,
    grace: Duration,
) -> Result<(Detached, Started), Error> {
    if let Some(running) = Detached::find(folder, &service.name)? {
        if running.is_up_to_date(service) {
            return Ok((running, Started::Before));
        }
        running.stop(grace).await?;
    }
    Ok((Detached::start(folder, service)?, Started::Now))
}

/// When a process was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// By this call.
    Now,
    /// By an earlier one.
    Before,
}

fn spawn(folder: &Path, service: &Service, log: &Path) -> Result<Child, Error> {
    let output = append_to(log).doing("write the log", log)?;
    let errors = output.try_clone().doing("write the log", log)?;
    let mut command = in_own_session(&service.program);
    command.args(&service.arguments).current_dir(folder);
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    command.spawn().doing("start", &service.program)
}

/// `setsid` of util-linux becomes the program, so the process id stays. Without it, a group of its own keeps at least the
/// signals of the terminal away.
fn in_own_session(program: &Path) -> Command {
    if let Some(setsid) = on_path("setsid") {
        let mut command = Command::new(setsid);
        command.arg(program);
        return command;
    }
    let mut command = Command::new(program);
    command.process_group(0);
    command
}

fn record_path(folder: &Path, name: &str) -> PathBuf {
    folder.join("run").join(name).with_extension("json")
}

fn log_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(name).with_extension("log")
}

fn ended(name: &str, log: &Path) -> Error {
    Error::Ended {
        name: name.to_owned(),
        log: log.to_owned(),
        log_tail: log_tail(log),
    }
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_changed_is_noticed_and_others_are_not() {
        let names = ["A".to_owned(), "B".to_owned()];
        let of = |value: &str| {
            let value = value.to_owned();
            environment(&names, move |name| {
                (name == "A").then(|| value.clone().into())
            })
        };
        assert_eq!(of("x"), of("x"));
        assert_ne!(of("x"), of("y"));
        assert_eq!(environment(&names, |_| None), None);
    }

    fn shell(script: &str) -> Service {
        Service {
            name: "shell".to_owned(),
            program: PathBuf::from("/bin/sh"),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            variables: Vec::new(),
        }
    }

    #[tokio::test]
    async fn is_found_again_kept_while_up_to_date_and_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let service = shell("echo up; exec sleep 60");
        let grace = Duration::from_secs(5);
        let (first, started) = ensure(dir.path(), &service, grace).await.unwrap();
        assert_eq!(started, Started::Now);
        let (again, started) = ensure(dir.path(), &service, grace).await.unwrap();
        assert_eq!((again.pid(), started), (first.pid(), Started::Before));
        let other = shell("exec sleep 61");
        let (other, started) = ensure(dir.path(), &other, grace).await.unwrap();
        assert_eq!(started, Started::Now);
        assert!(!first.is_alive() && other.is_alive());
        other.stop(grace).await.unwrap();
        assert!(Detached::find(dir.path(), "shell").unwrap().is_none());
    }

    #[tokio::test]
    async fn one_that_ignores_the_request_to_end_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let service = shell("trap '' TERM; echo up; while :; do sleep 0.05; done");
        let process = Detached::start(dir.path(), &service).unwrap();
        while log_tail(&process.log()) != "up" {
            sleep(POLL).await;
        }
        process.stop(Duration::from_millis(100)).await.unwrap();
        assert!(Detached::find(dir.path(), "shell").unwrap().is_none());
    }

    #[tokio::test]
    async fn an_early_end_shows_the_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let mut process =
            Detached::start(dir.path(), &shell("sleep 0.2; echo the reason")).unwrap();
        let error = loop {
            match process.check_alive() {
                Ok(()) => sleep(POLL).await,
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.ends_with("the reason"), "{error}");
    }

    #[test]
    fn has_a_session_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let mut process = Detached::start(dir.path(), &shell("exec sleep 60")).unwrap();
        let pid = Pid::from_raw(i32::try_from(process.pid()).unwrap());
        let own = within_a_second(|| rustix::process::getsid(pid).ok() == pid);
        kill_process(pid.unwrap(), Signal::KILL).unwrap();
        process.child.take().unwrap().wait().unwrap();
        assert!(own);
    }

    fn within_a_second(mut look: impl FnMut() -> bool) -> bool {
        (0..50).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            look()
        })
    }
}
