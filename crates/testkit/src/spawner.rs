//! Starts child processes from one thread that lives as long as this process.
//!
//! Linux sends the parent-death signal when the *thread* that made the child ends. A test runs in a
//! thread of its own, so children it started itself would die with it, though others share them.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

struct Order {
    command: Command,
    answer: Sender<io::Result<Child>>,
}

/// Like [`Command::spawn`], but the child's parent is the thread that never ends.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    let (answer, child) = channel();
    let gone = || io::Error::other("the thread that starts processes is gone");
    orders()
        .send(Order { command, answer })
        .map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}

fn orders() -> &'static Sender<Order> {
    static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();
    ORDERS.get_or_init(|| {
        let (sender, receiver) = channel();
        let thread = thread::Builder::new().name("testkit-spawner".to_owned());
        if let Err(error) = thread.spawn(move || serve(receiver)) {
            tracing::error!(%error, "cannot start the thread that starts processes");
        }
        sender
    })
}

fn serve(orders: Receiver<Order>) {
    for mut order in orders {
        // A caller that no longer waits drops its child here, which is then killed by its own owner.
        let _ = order.answer.send(order.command.spawn());
    }
}
