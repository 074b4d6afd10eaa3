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
    if !(has_own_linker() && is("OPT_LEVEL", "z")) {
        return;
    }
    // One of functions that are the same to the byte: less to load, and so less memory.
    link("--icf=all");
    if libc().is_some_and(|version| version >= UNPACKS) {
        link("-z,pack-relative-relocs");
    }
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
