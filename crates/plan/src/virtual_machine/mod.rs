//! The life of a VirtualMachine.
//!
//! ```text
//!                 Claim            (RecordIntent)      Create            Power On
//!   applied ───► claimed ────────────► intent ────► created, off ───────► running ◄──┐
//!      │            │                                    │                   │       │ Power, Reboot,
//!      │            │ Look finds ours ──────────────────►│                   ├───────┘ Reconfigure
//!      ▼            ▼                                    ▼                   ▼
//!   deleted ──────────────────────── Look ─► absent? ─ no ─► Delete ─► CheckTask ─► Look
//!                                              │
//!                                              └ yes ─► Release (finalizer off)
//! ```
//!
//! Rules that the property tests hold:
//! - from any state, planning and acting in turn ends, with the VM as declared, or in a wait or a stop that says why;
//! - a VM is created only when the provider has looked and found none of ours;
//! - nothing is ever done to a VM that is somebody else's;
//! - the finalizer goes only when absence was proved, the policy is to retain, or the user forced it.

pub mod desired;
pub mod facts;
pub mod hooks;
pub mod next;
mod options;
pub mod record;
pub mod report;
pub mod revert;
pub mod size;
pub mod step;

pub use facts::*;
pub use next::{FORGOTTEN_AFTER, RESEND_AFTER, is_fresh, next_step, remaining};
pub use report::{Outcome, PassEnd, report};
pub use revert::{RevertState, RevertTarget, RevertWish, Reverted};
pub use step::*;
