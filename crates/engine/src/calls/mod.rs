//! Calls to web servers that users ask for, and where those may go.
//!
//! Whoever may write a VirtualMachine can have the manager send a GET. So it must not reach what only the manager sees:
//!
//! ```text
//!   address ─► its host, looked up ─► policy ─► GET ─► status
//!                  ▲                    │        │
//!                  └──── redirect ◄─────┼────────┘
//!                                       └─► Inside: this machine, its cloud, the cluster's Services
//! ```
//!
//! Names are looked up by a resolver that forgets what the policy forbids, so a name that has another address the second time
//! gains nothing. No proxy of the environment is used, no header of ours is sent, and no body is read.

mod client;
mod policy;

pub use client::{Answer, Call, CallError, Caller, Certificate};
pub use policy::{BadRange, Policy, Range};
