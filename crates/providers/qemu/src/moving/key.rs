//! The key of an encrypted move: in a file that QEMU's user alone can read, for as long as the move goes on.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};

use polyvirt_contract::Result;
use polyvirt_contract::model::MoveSecret;
use serde_json::json;

use crate::core::Core;
use crate::errors;
use crate::qmp::Qmp;
use crate::vm::Vm;

/// The object of QEMU that holds the key.
pub(super) const ID: &str = "move-key";
/// In the working folder. QEMU knows the name of the file in it.
const FOLDER: &str = "move";
const FILE: &str = "keys.psk";
/// The name that goes with the key.
const NAME: &str = "polyvirt";
/// What is too short to be a key.
const SHORTEST: usize = 16;

/// Which end of the connection QEMU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Server,
}

/// Gives QEMU the key.
pub(super) async fn give(
    core: &Core,
    vm: &Vm,
    qmp: &Qmp,
    secret: &MoveSecret,
    end: End,
) -> Result<()> {
    take_away(vm, qmp).await;
    write(core, vm, secret)?;
    let endpoint = match end {
        End::Client => "client",
        End::Server => "server",
    };
    let mut object =
        json!({"qom-type": "tls-creds-psk", "id": ID, "dir": FOLDER, "endpoint": endpoint});
    if end == End::Client {
        object["username"] = json!(NAME);
    }
    qmp.execute("object-add", object).await?;
    Ok(())
}

fn write(core: &Core, vm: &Vm, secret: &MoveSecret) -> Result<()> {
    if secret.0.len() < SHORTEST {
        return Err(errors::internal("The key of the move is too short"));
    }
    let folder = vm.dir.file(FOLDER);
    let path = folder.join(FILE);
    let failed = |error: std::io::Error| errors::file("Writing the key of a move", &path, &error);
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder);
    made.map_err(failed)?;
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path);
    let mut file = file.map_err(failed)?;
    let text = format!("{NAME}:{}\n", hex(&secret.0));
    file.write_all(text.as_bytes()).map_err(failed)?;
    core.user.give_open(&file, 0o600).map_err(failed)?;
    core.user.give(&folder, 0o700)
}

/// Nothing is left of the key, in QEMU or on the disk.
pub(super) async fn take_away(vm: &Vm, qmp: &Qmp) {
    // Where there is none, there is nothing to take.
    let _ = qmp.execute("object-del", json!({"id": ID})).await;
    forget(vm);
}

/// The same where no QEMU runs.
pub(super) fn forget(vm: &Vm) {
    let folder = vm.dir.file(FOLDER);
    if let Err(error) = std::fs::remove_dir_all(&folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::error!(vm = %vm.uuid(), %error, "The key of a move is left behind");
    }
}

/// Letters for bytes.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Text takes all that is written to it.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
