//! On, off, and once more.

use polyvirt_contract::model::{PowerOp, PowerRequest, PowerState, VmState};
use polyvirt_contract::{ErrorKind, Extension, RequestId};

use crate::check::{Check, Checked, Failure, Need, check, ensure};
use crate::lab::Lab;

const OBEYS: Need = Need::Given("guest that obeys a request to shut down", |profile| {
    profile.guest_obeys
});

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(
            "power",
            "Each power state is reached, and asked for again it stays.",
            &[],
            on_and_off
        ),
        check!(
            "power-graceful",
            "A guest that is asked to shut down does.",
            &[OBEYS],
            graceful
        ),
        check!("reboot", "A VM that is restarted runs.", &[], reboot),
        check!(
            "pause",
            "A VM that is paused goes on where it was, or ends.",
            &[Need::Extension(Extension::Pause)],
            pause
        ),
        check!(
            "reboot-once",
            "A request is carried out once, however often it is sent.",
            &[Need::Extension(Extension::Identity)],
            reboot_once
        ),
    ]
}

async fn on_and_off(lab: &Lab) -> Checked {
    let vm = lab.vm().await?;
    for op in [
        PowerOp::Off,
        PowerOp::On,
        PowerOp::On,
        PowerOp::Off,
        PowerOp::Off,
        PowerOp::On,
    ] {
        lab.switch(&vm, op).await?;
    }
    Ok(())
}

async fn graceful(lab: &Lab) -> Checked {
    let vm = lab.running().await?;
    let timeout = lab.patience();
    lab.switch(&vm, PowerOp::ShutdownGraceful { timeout })
        .await?;
    let state = lab
        .switch(&vm, PowerOp::ShutdownGraceful { timeout })
        .await?;
    ensure!(
        state.power == PowerState::Off,
        "asked again, it is {:?}",
        state.power
    );
    Ok(())
}

async fn reboot(lab: &Lab) -> Checked {
    let vm = lab.running().await?;
    lab.switch(&vm, PowerOp::Reboot).await?;
    Ok(())
}

async fn pause(lab: &Lab) -> Checked {
    let vm = lab.running().await?;
    for op in [PowerOp::Pause, PowerOp::Pause, PowerOp::On, PowerOp::Pause] {
        lab.switch(&vm, op).await?;
    }
    lab.switch(&vm, PowerOp::Off).await?;
    let off = lab.provider().power(&vm, PowerOp::Pause.into()).await;
    let Err(error) = off else {
        return Err(Failure::new("a VM that is off was paused"));
    };
    ensure!(
        error.kind == ErrorKind::Precondition,
        "pausing a VM that is off says {error:?}"
    );
    Ok(())
}

/// A hypervisor that is slow has a word of its own to say after a restart, sometimes long after it. A request that acts changes
/// the VM each time that it is sent.
const ROUNDS: usize = 3;

async fn reboot_once(lab: &Lab) -> Checked {
    let vm = lab.running().await?;
    let request = RequestId::from(lab.owner().name);
    let reboot = PowerRequest {
        op: PowerOp::Reboot,
        request: Some(request.clone()),
    };
    let task = lab.provider().power(&vm, reboot.clone()).await?;
    lab.done(task).await?;
    let served = |state: &VmState| {
        state.last_request.as_ref() == Some(&request) && state.power == PowerState::On
    };
    lab.until(&vm.id, "the request to be carried out", served)
        .await?;
    let mut last = None;
    for _ in 0..ROUNDS {
        let before = lab.quiet(&vm.id).await?;
        let task = lab.provider().power(&vm, reboot.clone()).await?;
        lab.done(task).await?;
        let after = lab.quiet(&vm.id).await?;
        if after.revision == before.revision {
            return Ok(());
        }
        last = Some(after);
    }
    Err(Failure::new(format!(
        "the same request changes the VM each time: {last:?}"
    )))
}
