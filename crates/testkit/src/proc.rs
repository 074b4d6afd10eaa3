//! What the kernel tells of processes and ports, read from `/proc`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A process and the moment it was born: its number alone may be given to another one later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Birth {
    pub(crate) pid: u32,
    /// In ticks of the clock since the machine was booted.
    ticks: u64,
    /// Changes with each boot of the machine.
    boot: String,
}

/// The birth of a process that runs; `None` if there is none, or only its exit status is left.
pub(crate) fn birth(pid: u32) -> Option<Birth> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (state, ticks) = state_and_start(&stat)?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    (!matches!(state, 'Z' | 'X')).then(|| Birth {
        pid,
        ticks,
        boot: boot.trim().to_owned(),
    })
}

/// The third and the twenty-second field; the second is a name that may hold anything.
fn state_and_start(stat: &str) -> Option<(char, u64)> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// A process, as a person would look for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub pid: u32,
    /// The name of its program's file.
    pub program: String,
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (process {})", self.program, self.pid)
    }
}

/// The running processes whose program's name begins with one of `programs` and that work in the folder or below.
pub fn processes_in(folder: &Path, programs: &[&str]) -> Vec<Found> {
    let wanted = |found: &Found| programs.iter().any(|p| found.program.starts_with(p));
    let works_there = |found: &Found| {
        let place = fs::read_link(format!("/proc/{}/cwd", found.pid));
        place.is_ok_and(|place| place.starts_with(folder))
    };
    let all = pids().filter_map(found);
    all.filter(|process| wanted(process) && works_there(process))
        .filter(|process| birth(process.pid).is_some())
        .collect()
}

/// Who listens on a TCP port, as far as we may know: the processes of others are hidden from an ordinary user.
pub fn listener_on(port: u16) -> Option<Found> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listening_inodes(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    pids().find(|pid| has_open(*pid, &inodes)).and_then(found)
}

fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    let rows = table.lines().skip(1);
    let fields = rows.map(|row| row.split_whitespace().collect::<Vec<_>>());
    fields
        .filter(|row| row.get(1).is_some_and(|local| local.ends_with(&suffix)))
        .filter(|row| row.get(3) == Some(&LISTEN))
        .filter_map(|row| row.get(9).map(|&inode| inode.to_owned()))
        .collect()
}

fn has_open(pid: u32, names: &[String]) -> bool {
    let folder = fs::read_dir(format!("/proc/{pid}/fd"));
    let files = folder.into_iter().flatten().flatten();
    let links = files.filter_map(|file| fs::read_link(file.path()).ok());
    links
        .map(PathBuf::into_os_string)
        .any(|link| names.iter().any(|name| link == name.as_str()))
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn found(pid: u32) -> Option<Found> {
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let program = fs::read_link(format!("/proc/{pid}/exe"))
        .ok()
        .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    Some(Found {
        pid,
        program: program.unwrap_or_else(|| comm.trim().to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_itself() {
        let me = std::process::id();
        let born = birth(me).unwrap();
        assert_eq!(birth(me), Some(born));
        assert_eq!(birth(u32::MAX), None);
    }

    #[test]
    fn a_name_with_spaces_and_brackets_does_not_shift_the_fields() {
        let stat = "42 (a) b (c) Z 1 42 42 0 -1 4 0 0 0 0 150 50 0 0 20 0 8 0 12345 0";
        assert_eq!(state_and_start(stat), Some(('Z', 12345)));
    }

    #[test]
    fn tells_who_listens() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listener_on(port).unwrap().pid, std::process::id());
        drop(listener);
        assert_eq!(listener_on(port), None);
    }

    #[test]
    fn finds_programs_by_name_and_folder() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("tail")
            .args(["-f", "/dev/null"])
            .current_dir(dir.path())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        let found = processes_in(dir.path(), &["tail"]);
        assert!(processes_in(dir.path(), &["qemu-"]).is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(
            found.iter().map(|f| f.pid).collect::<Vec<_>>(),
            [child.id()]
        );
    }
}
