//! Makes a seed from the documents in a folder: `cargo run -p polyvirt-disks --example seed -- FOLDER fat|iso TARGET`.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use polyvirt_disks::seed::Seed;

type Failure = Box<dyn std::error::Error>;

fn document(folder: &Path, name: &str) -> Result<Option<Bytes>, Failure> {
    let path = folder.join(name);
    Ok(path
        .exists()
        .then(|| std::fs::read(path))
        .transpose()?
        .map(Bytes::from))
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, kind, target] = arguments.as_slice() else {
        return Err("Give a folder with user-data, meta-data and network-config, then fat or iso, then the file to write".into());
    };
    let folder = PathBuf::from(folder);
    let seed = Seed {
        user_data: document(&folder, "user-data")?.unwrap_or_default(),
        meta_data: document(&folder, "meta-data")?.unwrap_or_default(),
        network_config: document(&folder, "network-config")?,
    };
    let image = match kind.as_str() {
        "fat" => seed.to_fat()?,
        "iso" => seed.to_iso()?,
        _ => return Err("The kind of seed is fat or iso".into()),
    };
    Ok(std::fs::write(target, image)?)
}
