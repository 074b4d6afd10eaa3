//! Which functions a manager at work runs, told to the linker by the beginnings of their names.
//!
//! The compiler ends each name by a hash that another compiler or version makes anew, so names are told without it. Where
//! nearly all of a module runs, the module is told.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, ensure};

const PATH: &str = "crates/polyvirt/warm.txt";
const HEAD: &str = "\
# What a manager at work runs, by the beginnings of the linker's names; a release has it in one place of its text.
#
# The kernel maps 64 KiB around each page of a program that is used. A manager uses a sixth of ours: were that scattered, nearly all
# of it would stay in memory. A name that is not here costs some memory and nothing else, one that is gone costs nothing.
# Written by hack/warm.sh from a run of the bench; do not edit.
";
/// All of Rust's own library that does not depend on our types.
const STANDARD: &str = "_R*";
/// What one line less may cost in bytes that never run.
const WORTH_OF_A_LINE: u64 = 2000;

/// A function in the program.
#[derive(Debug, PartialEq, Eq)]
struct Function<'a> {
    address: &'a str,
    size: u64,
    name: &'a str,
}

/// Functions by the parts of their paths.
#[derive(Default)]
struct Tree<'a> {
    children: BTreeMap<&'a str, Tree<'a>>,
    /// Of the functions with this very path, which may be many of different types.
    bytes: u64,
    ran: bool,
}

/// Beginnings of names, and the bytes of all functions that have one.
#[derive(Default)]
struct Beginnings {
    names: Vec<String>,
    bytes: u64,
}

/// Writes the file from a program with its symbols and from what callgrind says that it ran.
pub fn write(program: &str, profiles: &[&str]) -> anyhow::Result<()> {
    let symbols = symbols_of(program)?;
    let mut ran = String::new();
    for profile in profiles {
        ran += &std::fs::read_to_string(profile).with_context(|| format!("No {profile}"))?;
    }
    let names = warm(&functions(&symbols), &names_in(&ran));
    ensure!(
        !names.is_empty(),
        "Nothing of {program} ran: is it the one that was measured?"
    );
    let lines = [STANDARD.to_owned()].into_iter().chain(names);
    let lines: String = lines.map(|name| name + "\n").collect();
    Ok(std::fs::write(PATH, format!("{HEAD}{lines}"))?)
}

fn symbols_of(program: &str) -> anyhow::Result<String> {
    let arguments = ["--print-size", "--defined-only", program];
    let told = Command::new("nm").args(arguments).output();
    let told = told.context("No nm: install binutils")?;
    ensure!(told.status.success(), "nm cannot read {program}");
    Ok(String::from_utf8(told.stdout)?)
}

/// The functions in the words of `nm`: address, size, kind and name, the first two in hex.
fn functions(symbols: &str) -> Vec<Function<'_>> {
    let function = |line| {
        let mut words = str::split_whitespace(line);
        let (address, size) = (words.next()?, words.next()?);
        let size = u64::from_str_radix(size, 16).ok()?;
        words.next().filter(|kind| "tTwW".contains(kind))?;
        let name = words.next()?;
        Some(Function {
            address,
            size,
            name,
        })
    };
    symbols.lines().filter_map(function).collect()
}

/// The functions that callgrind names, each where it is met first: `fn=(12) name`, and with a quote behind if it calls itself.
fn names_in(profile: &str) -> BTreeSet<&str> {
    let named = |line| {
        let (_, rest) = str::split_once(line, "fn=(")?;
        let (_, name) = rest.split_once(") ")?;
        name.split('\'').next()
    };
    profile.lines().filter_map(named).collect()
}

/// The beginnings of all that ran. Functions that the linker made one have one address.
fn warm(functions: &[Function<'_>], ran: &BTreeSet<&str>) -> Vec<String> {
    let hit = functions.iter().filter(|f| ran.contains(f.name));
    let hit: BTreeSet<&str> = hit.map(|f| f.address).collect();
    let mut tree = Tree::default();
    for function in functions {
        let Some(path) = path(function.name) else {
            continue;
        };
        let place = tree.at(&path);
        place.bytes += function.size;
        place.ran |= hit.contains(function.address);
    }
    let crates = tree.children.iter();
    let found = crates.flat_map(|(part, tree)| tree.beginnings(&format!("_ZN{part}")).names);
    found.collect()
}

/// The parts of a name such as `_ZN5tokio4task5spawn17h0123456789abcdefE`, each with its length, without the hash.
fn path(name: &str) -> Option<Vec<&str>> {
    let mut rest = name.strip_prefix("_ZN")?;
    let mut parts = Vec::new();
    while rest.starts_with(|c: char| c.is_ascii_digit()) {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let length: usize = rest[..digits].parse().ok()?;
        let (part, behind) = rest.split_at_checked(digits + length)?;
        parts.push(part);
        rest = behind;
    }
    parts.pop_if(|last| last.starts_with("17h"));
    (!parts.is_empty()).then_some(parts)
}

impl<'a> Tree<'a> {
    fn at(&mut self, path: &[&'a str]) -> &mut Self {
        path.iter()
            .fold(self, |tree, part| tree.children.entry(part).or_default())
    }

    fn all_bytes(&self) -> u64 {
        let below = self.children.values().map(Self::all_bytes);
        self.bytes + below.sum::<u64>()
    }

    /// The fewest that are worth their bytes.
    fn beginnings(&self, here: &str) -> Beginnings {
        let mut found = Beginnings::default();
        for (part, child) in &self.children {
            let below = child.beginnings(&format!("{here}{part}"));
            found.names.extend(below.names);
            found.bytes += below.bytes;
        }
        if self.ran {
            found.names.push(format!("{here}17h*"));
            found.bytes += self.bytes;
        }
        self.told_whole(here, &found).unwrap_or(found)
    }

    fn told_whole(&self, here: &str, apart: &Beginnings) -> Option<Beginnings> {
        let saved = u64::try_from(apart.names.len()).ok()?.checked_sub(1)?;
        let bytes = self.all_bytes();
        let worth = bytes - apart.bytes <= saved * WORTH_OF_A_LINE;
        let names = vec![format!("{here}*")];
        worth.then_some(Beginnings { names, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "\
0000000000001000 0000000000000100 t _ZN2h25proto4poll17h0123456789abcdefE
0000000000001100 0000000000000010 t _ZN2h25proto4read17h0123456789abcdefE
0000000000001200 0000000000100000 t _ZN2h26server5serve17h0123456789abcdefE
0000000000101200 0000000000000020 T _ZN5tokio4task5spawn17h0123456789abcdefE
0000000000101200 0000000000000020 T _ZN5tokio4task5yield17hfedcba9876543210E
0000000000101220 0000000000000020 T mi_malloc
0000000000101300 0000000000000020 d _ZN5tokio4DATA17h0123456789abcdefE
";
    const PROFILE: &str = "\
fn=(1) _ZN2h25proto4poll17h0123456789abcdefE
12 5
cfn=(2) _ZN2h25proto4read17h0123456789abcdefE'2
cfn=(1)
fn=(3) _ZN5tokio4task5yield17hfedcba9876543210E
fn=(4) mi_malloc
";

    #[test]
    fn a_module_that_runs_is_told_whole_and_a_large_one_that_does_not_is_left_out() {
        let names = warm(&functions(SYMBOLS), &names_in(PROFILE));
        assert_eq!(names, ["_ZN2h25proto*", "_ZN5tokio*"]);
    }

    #[test]
    fn a_name_is_told_without_its_hash() {
        let path = path("_ZN42_$LT$$RF$T$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE");
        let parts = ["42_$LT$$RF$T$u20$as$u20$core..fmt..Debug$GT$", "3fmt"];
        assert_eq!(path.as_deref(), Some(parts.as_slice()));
        assert_eq!(super::path("mi_malloc"), None);
    }

    #[test]
    fn the_file_that_is_committed_is_one_that_the_linker_can_read() {
        let file = include_str!("../../polyvirt/warm.txt");
        let names = file.strip_prefix(HEAD).expect("our own words first");
        let plain = |c: char| c.is_ascii_alphanumeric() || "_$.*".contains(c);
        for name in names.lines() {
            assert!(name.starts_with('_') && name.chars().all(plain), "{name}");
        }
        assert!(names.lines().count() > 100, "{names}");
    }

    #[test]
    fn nothing_that_ran_is_nothing_to_tell() {
        assert!(warm(&functions(SYMBOLS), &BTreeSet::new()).is_empty());
    }
}
