//! From `crates/contract/proto` to `crates/contract/src/wire/generated`, without protoc.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use prost::Message;

const SOURCES: [&str; 2] = [
    "provider/v1/provider.proto",
    "polyvirt/provider/v1/extensions.proto",
];

/// Messages with credentials: their `Debug` is written by hand and shows none.
const SECRET: [&str; 5] = [
    "provider.v1.ExportDiskRequest",
    "provider.v1.ImportDiskRequest",
    "polyvirt.provider.v1.Handover",
    "polyvirt.provider.v1.PackVmResponse",
    "polyvirt.provider.v1.ReceiveVmRequest",
];

const DESCRIPTORS: &str = "descriptors.bin";

type Files = BTreeMap<String, Vec<u8>>;

/// Brings the committed files up to date.
pub fn write() -> anyhow::Result<()> {
    let target = generated_dir();
    std::fs::create_dir_all(&target)?;
    let fresh = generate()?;
    for stale in read_dir(&target)?
        .keys()
        .filter(|n| !fresh.contains_key(*n))
    {
        std::fs::remove_file(target.join(stale))?;
    }
    for (name, content) in fresh {
        std::fs::write(target.join(name), content)?;
    }
    Ok(())
}

/// Fails, naming the files, unless the committed files are what would be written now.
pub fn check() -> anyhow::Result<()> {
    let stale = differing(&generate()?, &read_dir(&generated_dir())?);
    ensure!(
        stale.is_empty(),
        "Generated files are stale: {}. Run `cargo run -p xtask -- proto` and commit them",
        stale.join(", ")
    );
    Ok(())
}

fn generate() -> anyhow::Result<Files> {
    let descriptors = protox::compile(SOURCES, [contract_dir().join("proto")])
        .context("Compile the protobuf sources")?;
    let out = tempfile::tempdir()?;
    std::fs::write(
        out.path().join(DESCRIPTORS),
        without_source_info(&descriptors),
    )?;
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        .skip_debug(SECRET)
        .out_dir(out.path())
        .emit_rerun_if_changed(false)
        .compile_fds(descriptors)?;
    read_dir(out.path())
}

/// Comments do not belong into the binary, and would make it stale at each of their changes.
fn without_source_info(descriptors: &tonic_prost_build::FileDescriptorSet) -> Vec<u8> {
    let mut descriptors = descriptors.clone();
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    descriptors.encode_to_vec()
}

fn differing(fresh: &Files, committed: &Files) -> Vec<String> {
    let names: std::collections::BTreeSet<_> = fresh.keys().chain(committed.keys()).collect();
    names
        .into_iter()
        .filter(|name| fresh.get(*name) != committed.get(*name))
        .cloned()
        .collect()
}

fn read_dir(dir: &Path) -> anyhow::Result<Files> {
    std::fs::read_dir(dir)
        .with_context(|| format!("Read {}", dir.display()))?
        .map(|entry| {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            Ok((name.into_owned(), std::fs::read(&path)?))
        })
        .collect()
}

fn generated_dir() -> PathBuf {
    contract_dir().join("src/wire/generated")
}

fn contract_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../contract")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_code_is_fresh() {
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            write().unwrap();
        }
        check().unwrap();
    }

    #[test]
    fn a_changed_missing_or_extra_file_is_named() {
        let files = |pairs: &[(&str, &str)]| -> Files {
            pairs
                .iter()
                .map(|(n, c)| ((*n).to_owned(), c.as_bytes().to_vec()))
                .collect()
        };
        let fresh = files(&[("same", "1"), ("changed", "2"), ("missing", "3")]);
        let committed = files(&[("same", "1"), ("changed", "x"), ("extra", "4")]);
        assert_eq!(
            differing(&fresh, &committed),
            ["changed", "extra", "missing"]
        );
    }
}
