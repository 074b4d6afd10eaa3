//! What several hosts as one provider need, whatever the hosts are.
//!
//! * [`choice`]: which host a VM goes to.
//! * [`sent`]: VMs whose creation was sent to a host and whose fate is not certain.
//! * [`moves`]: requests, tasks and stops around a move.
//! * [`pace`]: how fast memory is sent, and when the guest may be stopped.
//! * [`running`]: moves of this life, and how far they are.

pub mod choice;
pub mod moves;
pub mod pace;
pub mod running;
pub mod sent;
