//! The life of a VMSnapshot.
//!
//! ```text
//!   applied ─ Claim ─► claimed ─ RecordIntent ─► intent ─ Create ─► at work ─ CheckTask ─► Look ─► Ready
//!      │                                           ▲                   │                    │       │
//!      │                                           └──── failed ◄──────┴──── not listed ◄───┘       │ maxAge
//!      │                                                                                            ▼
//!      │                                            DeleteObject ◄──────── gracePeriod ───────── Expired
//!      ▼                                                  │
//!   deleted ◄─────────────────────────────────────────────┘
//!      └─► Look ─► listed? ─ yes ─► Delete ─► CheckTask ─► Look
//!             └─ no, or the VM is gone ─► Release (finalizer off)
//! ```
//!
//! Once is once, wherever the manager dies:
//! - The name on the hypervisor holds a part of the object's UID. A provider with identities makes one snapshot of one name, so
//!   a request whose answer was lost is simply sent again.
//! - The VM that the snapshot is of is written down before the first request. What becomes of the VirtualMachine later cannot
//!   lead us to another VM, and an object without that note never had a snapshot.
//! - A provider without identities is asked only when the intent was written just before. An older intent means that a request
//!   may have been carried out: the VM is looked at, and only when nothing has shown for two minutes is the request repeated. If
//!   such a provider tells no list either, the repeat may make a second snapshot of the same name; nothing better can be known.
//!
//! What is told is what was seen:
//! - Ready needs the snapshot in the provider's list. A provider that tells no list is believed when it gave an id and its task
//!   ended well.
//! - The finalizer goes when the list no longer holds the snapshot, when the provider says `NotFound`, when the VM is gone, or by
//!   force. A provider that fails or is away keeps it.
//! - A snapshot that somebody deleted on the hypervisor is told and not taken again: it would be of another moment.

pub mod desired;
pub mod facts;
pub mod kin;
pub mod next;
pub mod record;
pub mod report;
pub mod schedule;
pub mod step;

pub use facts::*;
pub use kin::{Kin, kin};
pub use next::{alarm, next_step};
pub use report::{Outcome, PassEnd, report};
pub use step::*;
