//! A new life of the provider finds the VMs of the old one.

use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::Result;
use serde_json::json;

use crate::cmdline::{AGENT_PORT, QMP_SOCKET};
use crate::console::Serial;
use crate::core::Core;
use crate::process::Process;
use crate::qmp::Qmp;
use crate::state::{self, Record, Stage};
use crate::uuid::Uuid;
use crate::vm::{Live, Vm, delete, monitor};
use crate::{agent, image, moving, network};

/// How long a QEMU that is there may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Takes in all VMs of the folder: finished ones, running or not; half made ones are removed, half removed ones too.
pub(crate) async fn recover(core: &Arc<Core>) -> Result<()> {
    for uuid in core.state.list_vms()? {
        match state::read_json::<Record>(&core.state.vm(uuid).record()) {
            Ok(Some(record)) if record.uuid == uuid => {
                // One VM in trouble does not keep the others from being found.
                if let Err(error) = take_in(core, record).await {
                    tracing::error!(vm = %uuid, %error, "The VM could not be taken in as it should");
                }
            }
            Ok(Some(_)) => {
                tracing::error!(vm = %uuid, "The record of another VM is in its folder; left alone");
            }
            // The record is the first that is made and the last that goes: what has none has nothing.
            Ok(None) => core.state.vm(uuid).remove()?,
            Err(error) => {
                tracing::error!(vm = %uuid, %error, "The record cannot be read; the VM is left alone");
            }
        }
    }
    image::drop_unused_layers(core);
    Ok(())
}

async fn take_in(core: &Arc<Core>, record: Record) -> Result<()> {
    let (uuid, stage, ran) = (record.uuid, record.stage, record.running);
    let vm = Vm::new(core, record);
    core.insert(vm.clone());
    let live = find_running(&vm, uuid).await;
    let runs = live.is_some();
    if let Some(live) = live {
        adopt(core, &vm, live).await;
    }
    if stage != Stage::Ready {
        return delete::remove(core, &vm).await;
    }
    if vm.record(Record::leaves) {
        // Whoever sent it is gone with the earlier life.
        moving::call_back(&vm).await;
    }
    if ran != runs {
        vm.keep(|record| {
            record.running = runs;
            if record.comes() {
                // One whose guest has shut down would have been told of by then.
                "QEMU ended while it waited for its guest".clone_into(&mut record.fault);
            }
        })?;
    }
    if !runs {
        let record = vm.copy();
        network::remove_taps(core, &record).await;
        vm.apply_pending(core).await?;
    }
    crate::snapshot::sweep(core, &vm).await;
    vm.touch(core);
    Ok(())
}

/// The QEMU that listens in the VM's folder and says that it is this VM.
async fn find_running(vm: &Vm, uuid: Uuid) -> Option<Live> {
    let folder = vm.dir.open_run().ok()?;
    let path = folder.join(QMP_SOCKET);
    let qmp = tokio::time::timeout(ANSWER, Qmp::connect(&path))
        .await
        .ok()?
        .ok()?;
    let said = qmp.ask("query-uuid").await.ok()?;
    let process = Process::adopt(qmp.pid()?).ok()?;
    if said["UUID"].as_str().and_then(Uuid::parse) != Some(uuid) {
        tracing::error!(vm = %uuid, "Another QEMU listens in the VM's folder; left alone");
        return None;
    }
    let serial = Serial::attach_again(&folder, &vm.dir).await.ok()?;
    Some(Live::new(qmp, process, serial))
}

/// Takes over a VM that runs: whether it stands still, whether its agent is there.
async fn adopt(core: &Arc<Core>, vm: &Arc<Vm>, live: Live) {
    let live = Arc::new(live);
    let status = live.qmp.ask("query-status").await.unwrap_or_default();
    let moves = vm.record(|record| record.moving.is_some());
    match status["status"].as_str() {
        // The provider died between the start of QEMU and the first instruction.
        Some("prelaunch") if !moves => drop(live.qmp.ask("cont").await),
        Some("running") => {}
        _ => drop(live.set_paused(true)),
    }
    vm.set_live(live.clone());
    monitor::watch(core, vm, &live);
    if hear_agent(core, vm, &live).await {
        agent::wake(vm).await;
    }
}

/// Asks QEMU whether the guest's agent listens, and if so begins to ask that.
pub(crate) async fn hear_agent(core: &Arc<Core>, vm: &Arc<Vm>, live: &Live) -> bool {
    let ports = live
        .qmp
        .execute("query-chardev", json!({}))
        .await
        .unwrap_or_default();
    let open =
        ports.as_array().into_iter().flatten().any(|port| {
            port["label"] == AGENT_PORT && port["frontend-open"].as_bool() == Some(true)
        });
    vm.guest(|guest| guest.agent = open);
    if open {
        agent::follow(core, vm);
    }
    open
}
