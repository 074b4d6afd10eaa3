//! Consoles and commands in guests, behind the API server: an aggregated API server in front of the providers.
//!
//! ```text
//!   kubectl, polyvirt vm ──► kube-apiserver ──► here ──► provider ──► the guest
//!                            who is it?         is it the API server? (front-proxy certificate)
//!                            may they? (RBAC)   may they? (SubjectAccessReview)
//! ```
//!
//! Users have no account here: the API server vouches for them in headers, and only its client certificate makes us believe
//! them. Each session leaves a line in the log that says who and which VM, never what was typed or shown.

mod access;
mod audit;
mod console;
mod discovery;
mod exec;
mod front_proxy;
mod log;
mod machines;
mod refusal;
mod register;
mod routes;
mod server;

pub use discovery::{GROUP, VERSION};
pub use exec::{ExecAnswer, ExecBody};
pub use machines::Machines;
pub use refusal::Refusal;
pub use server::{Gateway, GatewayError, Order, Place, Reach};

/// The websocket subprotocol of consoles: bytes of the guest, and for it, in binary frames.
pub const CONSOLE_PROTOCOL: &str = "v1.console.polyvirt.io";

/// The path of one part of a VirtualMachine, such as its `console`.
pub fn path(namespace: &str, name: &str, part: &str) -> String {
    format!("/apis/{GROUP}/{VERSION}/namespaces/{namespace}/virtualmachines/{name}/{part}")
}
