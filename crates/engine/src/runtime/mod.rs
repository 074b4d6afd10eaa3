//! What all controllers stand on.

pub mod background;
pub mod backoff;
pub mod by_vm;
pub mod dispatch;
pub mod events;
pub mod key;
pub mod kube_cluster;
pub mod loose;
pub mod namespaces;
pub mod queue;
pub mod repeats;
pub mod secret_names;
pub mod store;
pub mod trim;
pub mod vanished;
pub mod vm_index;
pub mod watch;
