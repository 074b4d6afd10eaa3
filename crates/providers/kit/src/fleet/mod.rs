//! What several hosts as one provider need, whatever the hosts are.
//!
//! * [`choice`]: which host a VM goes to.
//! * [`sent`]: VMs whose creation was sent to a host and whose fate is not certain.
//! * [`running`]: moves of this life, how far they are, and how to stop them.

pub mod choice;
pub mod running;
pub mod sent;
