//! A place for a VM that comes: its record with its mark, empty disks, and a QEMU that waits.

use std::sync::Arc;

use polyvirt_contract::model::{Handover, Landing, Luggage};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use serde_json::{Value, json};

use super::key::{self, End};
use super::luggage::Description;
use super::{mirror, wish};
use crate::config::MoveConfig;
use crate::core::Core;
use crate::qmp::{Qmp, QmpError};
use crate::state::{self, Record};
use crate::vm::{self, Begin, Vm};
use crate::{errors, firmware};

/// Makes the place, and says where it is. It is made to its end though nobody may wait for that any more: whoever settles the
/// move finds all of it.
pub(crate) async fn receive(
    core: &Arc<Core>,
    handover: &Handover,
    luggage: &Luggage,
    address: &str,
) -> Result<Landing> {
    let description = Description::read(luggage)?;
    must_fit(core, &description).await?;
    let address = core.config.moves.address.as_deref().unwrap_or(address);
    let (core, handover, address) = (core.clone(), handover.clone(), address.to_owned());
    let made = tokio::spawn(async move {
        let vm = take_in(&core, &description.arriving(&handover)).await?;
        let _alone = vm.change.lock().await;
        let made = make(&core, &vm, &description, &handover).await;
        if made.is_err() {
            vm::remove(&core, &vm).await?;
        }
        made.map(|(memory_port, disk_port)| Landing {
            address,
            memory_port,
            disk_port,
        })
    });
    made.await
        .map_err(|_| errors::internal("The place for the VM was not made to its end"))?
}

/// A guest goes on only on what it runs on.
async fn must_fit(core: &Core, description: &Description) -> Result<()> {
    let accel = core.emulator().await?.accel;
    if accel != description.accel {
        return Err(errors::precondition(format!(
            "The VM runs with {} and the host {} has {}, on which its guest cannot go on",
            description.accel.word(),
            core.host,
            accel.word()
        )));
    }
    firmware::find(&core.config, description.record.firmware).map(drop)
}

/// Writes the record, marked as coming, before anything is made.
async fn take_in(core: &Arc<Core>, record: &Record) -> Result<Arc<Vm>> {
    let _admitted = core.admission.lock().await;
    if let Some(there) = core.get(record.uuid) {
        return Err(is_here(core, &there));
    }
    if let Some(other) = core.by_name(&record.name) {
        let message = format!(
            "The name {} is taken by the VM {} on the host {}; rename one of the two",
            record.name,
            other.uuid(),
            core.host
        );
        return Err(ProviderError::new(ErrorKind::NameConflict, message).at("metadata.name"));
    }
    let vm = Vm::new(core, record.clone());
    vm.dir.create()?;
    if let Err(error) = state::write_json(&vm.dir.record(), record) {
        vm.dir.remove()?;
        return Err(error);
    }
    core.insert(vm.clone());
    Ok(vm)
}

fn is_here(core: &Core, vm: &Vm) -> ProviderError {
    errors::precondition(format!(
        "The host {} has the VM {} already, or what an earlier move has left of it; wait until that is settled",
        core.host,
        vm.uuid()
    ))
}

/// Disks, small files, and a QEMU with open doors. The ports for memory and for disks.
async fn make(
    core: &Arc<Core>,
    vm: &Arc<Vm>,
    description: &Description,
    handover: &Handover,
) -> Result<(u16, u16)> {
    vm::make_run(core, vm)?;
    let folder = vm.dir.open_run()?;
    let record = vm.copy();
    for disk in &description.disks {
        let file = mirror::file(&disk.node);
        let mut disks = record.hardware.disks.iter();
        let thick = disks.any(|known| known.thick && known.file == file);
        core.img.create(&folder, &file, disk.bytes, thick).await?;
    }
    description.unpack(core, vm)?;
    vm.start(core, Begin::Incoming).await?;
    vm.guest(|guest| *guest = description.guest());
    let live = vm.must_live()?;
    open_doors(core, vm, &live.qmp, description, handover).await
}

async fn open_doors(
    core: &Core,
    vm: &Vm,
    qmp: &Qmp,
    description: &Description,
    handover: &Handover,
) -> Result<(u16, u16)> {
    let wish = &handover.wish;
    if wish.encrypted {
        key::give(core, vm, qmp, &handover.secret, End::Server).await?;
    }
    let moves = &core.config.moves;
    let disk_port = first_free(moves, qmp, "nbd-server-start", |port| {
        let address = json!({"host": moves.listen, "port": port.to_string()});
        let mut server = json!({"addr": {"type": "inet", "data": address}});
        if wish.encrypted {
            server["tls-creds"] = json!(key::ID);
        }
        server
    })
    .await?;
    for disk in &description.disks {
        let export = json!({
            "type": "nbd", "id": format!("move-{}", disk.node), "node-name": disk.node,
            "name": mirror::export(&handover.secret, &disk.node), "writable": true,
        });
        qmp.execute("block-export-add", export).await?;
    }
    let set = qmp.execute("migrate-set-capabilities", wish::capabilities(wish));
    set.await
        .map_err(|error| no_post_copy(error, wish.post_copy))?;
    qmp.execute("migrate-set-parameters", wish::parameters(wish))
        .await?;
    let memory_port = first_free(moves, qmp, "migrate-incoming", |port| {
        let address = json!({
            "transport": "socket", "type": "inet", "host": moves.listen, "port": port.to_string(),
        });
        json!({"channels": [{"channel-type": "main", "addr": address}]})
    })
    .await?;
    Ok((memory_port, disk_port))
}

/// The first port of the range that QEMU can have.
async fn first_free(
    moves: &MoveConfig,
    qmp: &Qmp,
    command: &str,
    listen: impl Fn(u16) -> Value + Send,
) -> Result<u16> {
    let mut last = None;
    for port in moves.ports.0..=moves.ports.1 {
        if !is_free(&moves.listen, port) {
            continue;
        }
        match qmp.execute(command, listen(port)).await {
            Ok(_) => return Ok(port),
            Err(error @ QmpError::Refused { .. }) => last = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    let why = last.map_or_else(|| "all are in use".to_owned(), |error| error.to_string());
    Err(ProviderError::new(
        ErrorKind::Exhausted,
        format!("No port of movePorts can be had on this host: {why}"),
    ))
}

/// QEMU is content with one of several addresses, others may want the other.
fn is_free(listen: &str, port: u16) -> bool {
    let address = if listen.is_empty() { "0.0.0.0" } else { listen };
    std::net::TcpListener::bind((address, port)).is_ok()
}

/// What a kernel must allow is said with how.
fn no_post_copy(error: QmpError, asked: bool) -> ProviderError {
    if !asked || !matches!(error, QmpError::Refused { .. }) {
        return error.into();
    }
    let message = format!(
        "The target cannot fetch memory afterwards: {error}. QEMU's user must be allowed to by the kernel (sysctl vm.unprivileged_userfaultfd=1), or move without postCopy"
    );
    errors::precondition(message).at("postCopy")
}
