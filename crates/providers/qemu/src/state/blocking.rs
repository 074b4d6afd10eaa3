//! Work that waits for the disk, off the threads that serve everybody else.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does work that may wait for the disk. The other tasks of this thread go to another one meanwhile, so that a slow disk delays
/// nobody but its caller. No lock that readers take may be held here.
pub(crate) fn off_worker<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // Without other threads there is nobody to hand over to.
        _ => work(),
    }
}
