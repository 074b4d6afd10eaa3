//! The life of a VMMigration: a move of a VM to another host of its provider.
//!
//! ```text
//!   applied ─ Claim ─► claimed ─ RecordIntent ─► begun ─ Send ─► at work ─ CheckTask ─► Look ─► Finish: Moved
//!                                    ▲             │ ▲              │ │                   │        Failed
//!                                    │   a rival   │ └─── Retry ────┘ │ forgotten         │        Cancelled
//!                                    └── Yield ◄───┘ └────────────────┘                   │
//!   cancel, deletion, the VM goes, too late: Cancel ─► CheckTask ─────────────────────────┘
//! ```
//!
//! There is one VM whatever dies, because nothing here makes a VM and nothing here deletes one: the hypervisor moves the one that
//! it has. What this planner has to keep is that the move is asked for once, that it is found again, and that nobody else changes
//! the VM meanwhile.
//!
//! - The VM, its host and the target are written down before the first request. From then until the end is written down the
//!   VM's own passes change nothing ([`WaitFor::Moving`](crate::virtual_machine::WaitFor::Moving)).
//! - The request carries the UID of the object. A provider that has carried it out, or is at it, does not begin again. So a reply
//!   that was lost, a manager that died and a task that was forgotten all lead to the same question: where is the VM? If it is not
//!   on the target, the same request is sent again.
//! - A move ended well when the provider shows the VM on the target, or says of the VM that this was its last request. A task that
//!   succeeded proves nothing by itself, and one that failed neither: the VM is looked at.
//! - What failed is told with where the VM is. It is tried again only if `spec.options.retryPolicy` says so.
//! - Of two objects for one VM one begins. Both write down that they begin before they look for the other; whoever sees another
//!   takes it back and waits.
//! - A provider that is away leaves the move begun. It is neither told as failed nor given up: only the provider knows.

pub mod desired;
pub mod facts;
pub mod next;
pub mod record;
pub mod report;
pub mod step;

pub use facts::*;
pub use next::next_step;
pub use report::{Outcome, PassEnd, report};
pub use step::*;
