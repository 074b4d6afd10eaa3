//! How the program is linked.
#![allow(
    clippy::print_stdout,
    reason = "this is how a build script speaks with cargo"
)]

use std::process::Command;

/// The first version of glibc whose loader unpacks relocations.
const UNPACKS: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    tell_revision();
    if !(has_own_linker() && is("OPT_LEVEL", "z")) {
        return;
    }
    // One of functions that are the same to the byte: less to load, and so less memory.
    link("--icf=all");
    if libc().is_some_and(|version| version >= UNPACKS) {
        link("-z,pack-relative-relocs");
    }
}

/// The commit that the program is built from, for `virtrigaud_build_info`. `POLYVIRT_GIT_SHA` goes before git, for builds from an
/// archive and for those that must not depend on the commit.
fn tell_revision() {
    println!("cargo::rerun-if-env-changed=POLYVIRT_GIT_SHA");
    let given = std::env::var("POLYVIRT_GIT_SHA").ok();
    let given = given.filter(|sha| !sha.is_empty());
    let revision = given.or_else(|| {
        // It grows with each commit, checkout and merge.
        let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
        println!("cargo::rerun-if-changed={log}");
        git(&["rev-parse", "--short=12", "HEAD"])
    });
    let revision = revision.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=POLYVIRT_REVISION={revision}");
}

fn git(arguments: &[&str]) -> Option<String> {
    let told = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(told.stdout).ok()?.trim().to_owned();
    (told.status.success() && !text.is_empty()).then_some(text)
}

fn is(name: &str, value: &str) -> bool {
    std::env::var(name).is_ok_and(|found| found == value)
}

fn link(argument: &str) {
    println!("cargo::rustc-link-arg-bins=-Wl,{argument}");
}

/// Where Rust brings its own linker, which knows all these words.
fn has_own_linker() -> bool {
    is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
}

/// The version of this machine's glibc: `glibc 2.36`.
fn libc() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let told = String::from_utf8(told.ok()?.stdout).ok()?;
    let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
