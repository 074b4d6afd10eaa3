//! How the program is linked.
#![allow(
    clippy::print_stdout,
    reason = "this is how a build script speaks with cargo"
)]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let own_linker = is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu");
    // There Rust brings its own linker, which can make one of functions that are the same to the byte: less to load, and
    // so less memory. What is built for speed of building is left alone.
    if own_linker && is("OPT_LEVEL", "z") {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
