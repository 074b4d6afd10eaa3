//! `polyvirt vm vnc`.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use super::options::Vnc;
use super::socket::{Heard, Socket};
use super::{Cluster, print, say};
use crate::commands::stop_signal;

/// How a viewer wants the address.
type Address = fn(SocketAddr) -> String;

/// Viewers, and how each wants the address.
const VIEWERS: &[(&str, Address)] = &[
    ("remote-viewer", |at| format!("vnc://{at}")),
    ("vncviewer", |at| format!("{}::{}", at.ip(), at.port())),
    ("gvncviewer", |at| format!("{}::{}", at.ip(), at.port())),
    ("xdg-open", |at| format!("vnc://{at}")),
];

/// Makes the screen reachable on this machine until the viewer ends or the user has had enough.
pub async fn run(cluster: &Cluster, options: &Vnc) -> anyhow::Result<()> {
    // Tells at once if there is no screen to be had.
    Socket::open(cluster, &options.name, "vnc")
        .await?
        .close()
        .await;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let listener = TcpListener::bind(address).await;
    let listener =
        listener.with_context(|| format!("Cannot listen on {address}: choose another --port"))?;
    let address = listener.local_addr()?;
    let viewer = options.open.then(|| open(address)).transpose()?;
    print(&format!("vnc://{address}\n"));
    tokio::select! {
        () = serve(cluster, &options.name, &listener) => {}
        () = until_ended(viewer) => {}
        () = stop_signal() => {}
    }
    Ok(())
}

fn open(address: SocketAddr) -> anyhow::Result<Child> {
    for (program, argument) in VIEWERS {
        let started = Command::new(program)
            .arg(argument(address))
            .kill_on_drop(true)
            .spawn();
        if let Ok(child) = started {
            return Ok(child);
        }
    }
    let names: Vec<_> = VIEWERS.iter().map(|(name, _)| *name).collect();
    bail!(
        "No viewer found: install one of {}, or leave out --open",
        names.join(", ")
    )
}

async fn until_ended(viewer: Option<Child>) {
    match viewer {
        Some(mut viewer) => {
            let _ = viewer.wait().await;
        }
        None => std::future::pending().await,
    }
}

/// One viewer after the other: most hypervisors have one screen to share.
async fn serve(cluster: &Cluster, name: &str, listener: &TcpListener) {
    while let Ok((viewer, _)) = listener.accept().await {
        let outcome = match Socket::open(cluster, name, "vnc").await {
            Ok(socket) => carry(socket, viewer).await,
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            say(&format!("The viewer was cut off: {error:#}"));
        }
    }
}

async fn carry(mut socket: Socket, mut viewer: TcpStream) -> anyhow::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        tokio::select! {
            heard = socket.next() => match heard? {
                Heard::Bytes(bytes) => viewer.write_all(&bytes).await?,
                Heard::Gone(reason) if reason.is_empty() => return Ok(()),
                Heard::Gone(reason) => bail!(reason),
            },
            // A viewer that is closed cuts the line as it likes.
            count = viewer.read(&mut buffer) => match count.unwrap_or(0) {
                0 => break,
                count => socket.send(buffer[..count].to_vec().into()).await?,
            },
        }
    }
    socket.close().await;
    Ok(())
}
