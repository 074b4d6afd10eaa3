//! The VMs that `polyvirt down` has stopped, so that `polyvirt up` starts them again: nobody has declared them off.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use polyvirt_contract::model::{PowerOp, VmRef, VmState};
use polyvirt_contract::{Provider as _, VmId};
use polyvirt_provider_qemu::{Qemu, QemuConfig};

use super::progress::{Done, Progress};
use super::sample::qemu_endpoint;

fn file(folder: &Path) -> PathBuf {
    folder.join("run/stopped-vms.json")
}

/// Writes them down.
pub fn remember(folder: &Path, vms: &[VmState]) -> anyhow::Result<()> {
    let ids: Vec<&str> = vms.iter().map(|vm| vm.id.as_str()).collect();
    let path = file(folder);
    let text = serde_json::to_vec(&ids)?;
    fs::write(&path, text).with_context(|| format!("Cannot write {}", path.display()))
}

/// Starts them, before the manager could take them for switched off by somebody.
pub async fn start_again(progress: &Progress, folder: &Path) -> anyhow::Result<()> {
    let path = file(folder);
    let text = fs::read(&path).unwrap_or_default();
    let ids: Vec<String> = serde_json::from_slice(&text).unwrap_or_default();
    if ids.is_empty() {
        return Ok(());
    }
    progress
        .step("VMs", async {
            let count = start(folder, &ids).await?;
            fs::remove_file(&path).with_context(|| format!("Cannot remove {}", path.display()))?;
            Ok((
                (),
                Done::new("started", format!("{count} of {}", ids.len())),
            ))
        })
        .await
}

async fn start(folder: &Path, ids: &[String]) -> anyhow::Result<usize> {
    let qemu = Qemu::open(QemuConfig::from_url(&qemu_endpoint(folder))?).await?;
    let mut count = 0;
    for vm in qemu.list_vms().await? {
        if !ids.iter().any(|id| vm.id == VmId::from(id.as_str())) {
            continue;
        }
        let vm = VmRef {
            id: vm.id,
            owner: vm.owner,
        };
        match qemu.power(&vm, PowerOp::On.into()).await {
            Ok(_) => count += 1,
            Err(error) => tracing::warn!(%error, id = %vm.id, "a VM could not be started again"),
        }
    }
    Ok(count)
}
