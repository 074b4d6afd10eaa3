//! Generates what is committed: the protobuf code.
//!
//! `cargo run -p xtask -- proto` writes it, `cargo run -p xtask -- proto --check` only proves that it is fresh.

mod proto;

use anyhow::bail;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["proto"] => proto::write(),
        ["proto", "--check"] => proto::check(),
        _ => bail!("Usage: cargo run -p xtask -- proto [--check]"),
    }
}
