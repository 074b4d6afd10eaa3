//! What is made from the source: the protobuf code, which is committed, and the list of what the program is made of.
//!
//! `cargo run -p xtask -- proto` writes the code, `cargo run -p xtask -- proto --check` only proves that it is fresh.
//! `cargo run -p xtask -- sbom TARGET` prints the list for that target.

mod proto;
mod sbom;

use anyhow::bail;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["proto"] => proto::write(),
        ["proto", "--check"] => proto::check(),
        ["sbom", target] => sbom::print(target),
        _ => bail!("Usage: cargo run -p xtask -- proto [--check] | sbom TARGET"),
    }
}
