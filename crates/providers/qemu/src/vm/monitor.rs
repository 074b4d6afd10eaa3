//! Takes in what QEMU does by itself, one task for each running VM.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::cmdline::AGENT_PORT;
use crate::core::Core;
use crate::qmp::Event;
use crate::vm::{Live, Vm};
use crate::{agent, network};

/// A monitor that closed while its process lives is waited for this long.
const LINGER: Duration = Duration::from_secs(30);

/// Begins to watch over a VM that runs. It ends with QEMU, or with the provider.
pub(crate) fn watch(core: &Arc<Core>, vm: &Arc<Vm>, live: &Arc<Live>) {
    let events = live.qmp.events();
    let (weak, stop) = (Arc::downgrade(core), core.stop.clone());
    let (vm, live) = (vm.clone(), live.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = follow(weak, vm, live, events) => {}
        }
    });
}

async fn follow(core: Weak<Core>, vm: Arc<Vm>, live: Arc<Live>, mut events: Receiver<Event>) {
    loop {
        let event = tokio::select! {
            () = live.process.gone() => break,
            () = live.qmp.closed() => {
                live.process.gone_within(LINGER).await;
                break;
            }
            event = events.recv() => event,
        };
        match event {
            Ok(event) => take(&core, &vm, &live, &event),
            Err(RecvError::Lagged(lost)) => {
                tracing::warn!(vm = %vm.uuid(), lost, "Events of QEMU were lost; its state is read again");
                resync(&core, &vm, &live).await;
            }
            Err(RecvError::Closed) => break,
        }
    }
    // All that QEMU said before its end is read before that is judged.
    let _ = tokio::time::timeout(Duration::from_secs(1), live.qmp.closed()).await;
    while let Ok(event) = events.try_recv() {
        take(&core, &vm, &live, &event);
    }
    if let Some(core) = core.upgrade() {
        ended(&core, &vm, &live).await;
    }
}

/// Reads what the lost events would have said: whether the machine runs, whether it ends, and whether the agent listens.
/// Addresses are asked for again by whoever follows the agent.
async fn resync(core: &Weak<Core>, vm: &Arc<Vm>, live: &Arc<Live>) {
    let Ok(status) = live.qmp.ask("query-status").await else {
        // A QEMU that does not answer any more ends, and that is noticed by itself.
        return;
    };
    let Some(core) = core.upgrade() else { return };
    let run = RunState::of(&status);
    let changed = settle_run(vm, live, run);
    let before = vm.agent_is_open();
    let open = super::recover::hear_agent(&core, vm, live).await;
    if changed || before != open {
        vm.touch(&core);
    }
}

/// What QEMU says of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunState {
    Running,
    Paused,
    /// The guest has shut down, and QEMU is about to end.
    Ending,
}

impl RunState {
    fn of(status: &serde_json::Value) -> Self {
        match status["status"].as_str() {
            Some("shutdown") => Self::Ending,
            _ if status["running"].as_bool() == Some(true) => Self::Running,
            _ => Self::Paused,
        }
    }
}

/// Takes the state in as the events would have been; true if it is new.
fn settle_run(vm: &Vm, live: &Live, run: RunState) -> bool {
    match run {
        RunState::Ending => {
            live.set_ending();
            false
        }
        RunState::Paused => live.set_paused(true),
        RunState::Running => {
            let was = vm.guest(|guest| guest.trouble.clear());
            live.set_paused(false) || was
        }
    }
}

fn take(core: &Weak<Core>, vm: &Arc<Vm>, live: &Arc<Live>, event: &Event) {
    let Some(core) = core.upgrade() else { return };
    let changed = match event.name.as_str() {
        "SHUTDOWN" => {
            live.set_ending();
            false
        }
        "STOP" => live.set_paused(true),
        "RESUME" => {
            let was = vm.guest(|guest| guest.trouble.clear());
            live.set_paused(false) || was
        }
        "RESET" => vm.guest(|guest| guest.addresses.clear()),
        "VSERPORT_CHANGE" if event.text("id") == AGENT_PORT => {
            agent_changed(&core, vm, event.truth("open"))
        }
        "BLOCK_IO_ERROR" => io_error(vm, event),
        _ => false,
    };
    if changed {
        vm.touch(&core);
    }
}

fn agent_changed(core: &Arc<Core>, vm: &Arc<Vm>, open: bool) -> bool {
    let changed = vm.guest(|guest| guest.agent = open);
    if changed && open {
        agent::follow(core, vm);
    }
    changed
}

fn io_error(vm: &Vm, event: &Event) -> bool {
    let disk = event.text("node-name");
    let trouble = if event.truth("nospace") {
        format!(
            "The machine stands still: there is no room on the datastore for its disk {disk}. Free space, then switch it on to go on"
        )
    } else {
        let reason = event.text("reason");
        format!("The disk {disk} of the VM cannot be used: {reason}")
    };
    vm.guest(|guest| guest.trouble = trouble)
}

async fn ended(core: &Arc<Core>, vm: &Arc<Vm>, live: &Arc<Live>) {
    let fault = if live.ending() {
        String::new()
    } else {
        let how = live.process.last_words().await;
        let how = if how.is_empty() {
            "nobody knows how".to_owned()
        } else {
            how
        };
        format!("QEMU ended though nobody had asked for it: {how}")
    };
    live.serial.close();
    let record = vm.copy();
    network::remove_taps(core, &record).await;
    if let Err(error) = vm.apply_pending(core).await {
        tracing::warn!(vm = %vm.uuid(), %error, "What waited for the VM's end is tried again at its start");
    }
    vm.set_ended(|| keep_end(core, vm, fault));
}

fn keep_end(core: &Core, vm: &Vm, fault: String) {
    let kept = vm.update(core, |record| {
        record.running = false;
        record.fault = fault;
    });
    if let Err(error) = kept {
        tracing::error!(vm = %vm.uuid(), %error, "Cannot keep that the VM ended");
        vm.touch(core);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::RunState;

    #[test]
    fn the_state_of_the_machine_is_read_from_its_status() {
        let of =
            |status: &str, running| RunState::of(&json!({"status": status, "running": running}));
        assert_eq!(of("running", true), RunState::Running);
        assert_eq!(of("io-error", false), RunState::Paused);
        assert_eq!(of("paused", false), RunState::Paused);
        assert_eq!(of("shutdown", false), RunState::Ending);
    }
}
