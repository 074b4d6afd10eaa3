//! `polyvirt vm logs`.

use anyhow::Context;
use axum::http::Request;

use super::options::Logs;
use super::plain::{Plain, plain};
use super::socket::{Heard, Socket, request};
use super::{Cluster, print, print_bytes, say};
use crate::commands::stop_signal;

/// Shows what the serial console has shown.
pub async fn run(cluster: &Cluster, options: &Logs) -> anyhow::Result<()> {
    if options.follow {
        return follow(cluster, &options.name).await;
    }
    let lines = last_lines(cluster, &options.name, options.tail).await?;
    print(&plain(&lines));
    Ok(())
}

/// The last lines of the serial console.
pub async fn last_lines(cluster: &Cluster, name: &str, lines: usize) -> anyhow::Result<String> {
    let path = polyvirt_gateway::path(&cluster.namespace, name, "log");
    let get = Request::get(format!("{path}?lines={lines}")).body(Vec::new());
    let text = request(cluster, name, get.context("No such name")?).await?;
    let end = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    Ok(format!("{text}{end}"))
}

async fn follow(cluster: &Cluster, name: &str) -> anyhow::Result<()> {
    let mut socket = Socket::open(cluster, name, "console").await?;
    let mut text = Plain::default();
    let stop = stop_signal();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            heard = socket.next() => match heard? {
                Heard::Bytes(bytes) => print_bytes(&text.text(&bytes)),
                Heard::Gone(reason) => {
                    say(&reason);
                    return Ok(());
                }
            },
            () = &mut stop => break,
        }
    }
    socket.close().await;
    Ok(())
}
