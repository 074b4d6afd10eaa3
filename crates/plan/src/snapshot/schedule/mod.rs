//! A VMSnapshot with a schedule takes no snapshot of its own: at each of its times it makes a VMSnapshot that does.
//!
//! ```text
//!   slots      ──┬────────┬────────┬────────┬──►  time
//!                │ made   │ made   │ missed │ due
//!              last ───────────────┘        └─► Make ─► last = slot      (of all missed ones the last: one catch-up)
//!                                           └─► LeftOut ─► since = slot  (Forbid, and one is at work)
//! ```
//!
//! One slot is one snapshot:
//! - The name of the child is made of the name of its schedule and of the slot in UTC. Made twice, it is refused.
//! - A child that is there counts as made, also if the manager died before it wrote that down; and none is deleted before.
//! - `last` and `since` are written after the child was made, and only grow: a clock that goes back waits for them. One that
//!   was wrong by more than a day begins anew, and names guard what was made.
//! - A schedule that is new, was changed or rested counts slots from the moment at which that was seen. It catches up with
//!   nothing that it did not promise.
//!
//! Only what the schedule has made is deleted by it, and of that never the newest whole one, none that is pinned, and not the
//! one that the VM was told to go back to.

pub mod calendar;
pub mod child;
pub mod facts;
pub mod plan;
pub mod report;
#[cfg(test)]
mod tests;

pub use calendar::{Calendar, split_zone};
pub use facts::*;
pub use plan::{LeftOut, Plan, Removal, Slot, Why, plan};
