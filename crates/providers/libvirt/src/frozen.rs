//! Guests that are made quiet for a moment, and those that do not go on: a fault of their VM until they do.
//!
//! ```text
//!   noted with the machine ─► frozen ─► (snapshot) ─► let go on ─► note taken away
//!                                                         │ failed: a fault, tried again until it works, by one task
//!   a provider that finds the note and nobody at work ────┘
//! ```
//!
//! The note is in the marks of the machine as it runs, so it goes with a machine that ends, and outlives a provider that dies
//! while a guest is frozen. A guest that somebody else has frozen has none, and is left alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use polyvirt_contract::Result;
use polyvirt_contract::model::VmState;
use polyvirt_provider_kit::guest;

use crate::core::{Core, Vm};
use crate::create::set_marks;
use crate::domain::{Machine, Marks};
use crate::rpc::{Domain, RpcError, Session, code, flags};

/// How often a guest is let go on that did not.
const AGAIN: Duration = Duration::from_secs(5);

/// Whether a guest was left frozen.
#[derive(Default)]
pub(crate) struct Frozen(Mutex<Left>);

#[derive(Default)]
struct Left {
    /// Why it is still frozen; empty if it is not.
    why: String,
    /// Whether somebody lets it go on already.
    mended: bool,
}

impl Frozen {
    fn lock(&self) -> MutexGuard<'_, Left> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, why: String) {
        self.lock().why = why;
    }

    /// Whether it was left so.
    fn is_left(&self) -> bool {
        !self.lock().why.is_empty()
    }

    /// Whether there is something to mend that nobody mends yet. Whoever is told so does it.
    fn begin(&self) -> bool {
        let mut left = self.lock();
        let begins = !left.why.is_empty() && !left.mended;
        left.mended |= begins;
        drop(left);
        begins
    }

    /// Whether it goes on; then whoever mended it is done.
    fn is_mended(&self) -> bool {
        let mut left = self.lock();
        left.mended &= !left.why.is_empty();
        !left.mended
    }

    /// The VM with this fault, unless it has a worse one. A machine that ended is frozen no more.
    pub(crate) fn told_in(&self, mut state: VmState, live: Option<&Machine>) -> VmState {
        if live.is_none() {
            self.set(String::new());
        }
        if state.fault.is_empty() {
            state.fault.clone_from(&self.lock().why);
        }
        state
    }
}

/// Makes the guest's file systems quiet, if its agent can; whether it could. Then [`thaw`] must follow.
pub(crate) async fn freeze(core: &Core, session: &Session, vm: &Vm) -> bool {
    // One that is frozen still belongs to whoever mends it.
    if vm.frozen.is_left() || crate::guest::must_listen(vm).is_err() {
        return false;
    }
    if note(core, vm, Note::Frozen).await.is_err() {
        return false;
    }
    match session.freeze(&Domain::of(vm.uuid)).await {
        Ok(_) => return true,
        Err(error) if nothing_froze(&error) => {
            let _ = note(core, vm, Note::GoesOn).await;
        }
        // It may have been done, and only the answer be lost.
        Err(_) => thaw(core, session, vm).await,
    }
    false
}

/// Whether the guest goes on for sure though it was asked to freeze: the agent said no, and has let go on what it had begun
/// with; or it was not even asked, for it did not answer the question before, which is whether it listens. An agent that goes
/// away while it is asked is told by libvirt as one that is late.
fn nothing_froze(error: &RpcError) -> bool {
    match error {
        RpcError::Libvirt(told) => told.code != code::AGENT_COMMAND_TIMEOUT,
        RpcError::Unreachable(_) | RpcError::Late(_) | RpcError::Garbled(_) => false,
        RpcError::Refused(_) => true,
    }
}

/// Lets the guest's file systems go on. Where that fails, whoever asked for it lets [`mend`] go on.
pub(crate) async fn thaw(core: &Core, session: &Session, vm: &Vm) {
    if let Err(error) = session.thaw(&Domain::of(vm.uuid)).await {
        tracing::warn!(vm = %vm.uuid, %error, "The guest's file systems are still frozen");
        vm.frozen.set(guest::still_quiet(&error));
        return;
    }
    // A note that stays is read by the next session, which finds nothing to do.
    let _ = note(core, vm, Note::GoesOn).await;
}

/// What is noted of a guest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Note {
    Frozen,
    GoesOn,
}

/// Writes it down with the machine as it runs.
async fn note(core: &Core, vm: &Vm, note: Note) -> Result<()> {
    let live = core.session().await?.xml(&Domain::of(vm.uuid), 0).await?;
    // One that was not made by us is not marked: it is let go on by this life, or by nobody.
    let Some(marks) = Machine::read(&live)?.marks else {
        return Ok(());
    };
    let frozen_by = (note == Note::Frozen).then(|| core.config.instance.clone());
    if marks.frozen_by == frozen_by {
        return Ok(());
    }
    let marks = Marks { frozen_by, ..marks };
    set_marks(core, vm.uuid, &marks, flags::LIVE).await
}

/// Lets a guest go on that an earlier life, or an earlier session, has left frozen.
pub(crate) fn look(core: &Arc<Core>, vm: &Arc<Vm>) {
    let marks = vm.live().and_then(|live| live.marks);
    let ours = marks.and_then(|marks| marks.frozen_by).as_ref() == Some(&core.config.instance);
    // Whoever is at work on it lets it go on by himself.
    if ours && vm.change.try_lock().is_ok() {
        let why = "the provider ended before it let the guest go on";
        vm.frozen.set(guest::still_quiet(&why));
        mend(core, vm);
    }
}

/// Lets a guest go on that was left frozen, for as long as it takes.
pub(crate) fn mend(core: &Arc<Core>, vm: &Arc<Vm>) {
    if !vm.frozen.begin() {
        return;
    }
    let (stop, core, vm) = (core.stop.clone(), core.clone(), vm.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = keep_thawing(&core, &vm) => {}
        }
    });
}

async fn keep_thawing(core: &Arc<Core>, vm: &Arc<Vm>) {
    loop {
        let why = match thaw_again(core, vm).await {
            Ok(()) => String::new(),
            Err(error) => guest::still_quiet(&error),
        };
        vm.frozen.set(why);
        // A VM that is gone is seen to be; one that cannot be seen is looked at again in a moment.
        if matches!(core.look(vm).await, Ok(None)) {
            vm.frozen.set(String::new());
        }
        if vm.frozen.is_mended() {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn thaw_again(core: &Core, vm: &Vm) -> Result<()> {
    core.session().await?.thaw(&Domain::of(vm.uuid)).await?;
    note(core, vm, Note::GoesOn).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::LibvirtError;

    #[test]
    fn a_guest_that_is_left_frozen_twice_is_mended_by_one() {
        let frozen = Frozen::default();
        assert!(!frozen.begin(), "nothing to mend");
        frozen.set("deaf".to_owned());
        assert!(frozen.begin());
        frozen.set("deaf still".to_owned());
        assert!(!frozen.begin(), "somebody is at it");
        assert!(!frozen.is_mended());
        frozen.set(String::new());
        assert!(frozen.is_mended());
        frozen.set("deaf again".to_owned());
        assert!(frozen.begin(), "the one before is done");
    }

    fn told(code: i32, message: &str) -> RpcError {
        RpcError::Libvirt(LibvirtError {
            code,
            domain: 10,
            message: message.to_owned(),
        })
    }

    #[test]
    fn a_freeze_whose_answer_is_lost_may_have_been_done() {
        let dead = "Guest agent command timed out: Guest agent disappeared while executing command";
        for lost in [
            RpcError::Unreachable("gone".to_owned()),
            RpcError::Late(335),
            told(code::AGENT_COMMAND_TIMEOUT, dead),
        ] {
            assert!(!nothing_froze(&lost), "{lost}");
        }
    }

    #[test]
    fn an_agent_that_says_no_or_is_not_there_froze_nothing() {
        let no = "unable to execute QEMU agent command 'guest-fsfreeze-freeze': it is disabled";
        for refusal in [
            told(1, no),
            told(code::AGENT_COMMAND_FAILED, no),
            told(
                code::AGENT_UNRESPONSIVE,
                "QEMU guest agent is not connected",
            ),
            told(code::OPERATION_INVALID, "domain is not running"),
        ] {
            assert!(nothing_froze(&refusal), "{refusal}");
        }
    }

    #[test]
    fn a_machine_that_ended_is_frozen_no_more() {
        let frozen = Frozen::default();
        frozen.set("deaf".to_owned());
        assert!(frozen.told_in(VmState::default(), None).fault.is_empty());
        assert!(!frozen.begin());
    }
}
