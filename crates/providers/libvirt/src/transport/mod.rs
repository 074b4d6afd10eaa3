//! The ways to libvirt. Each ends in a socket that carries its messages, and in nothing else that runs.

mod known_hosts;
mod rsa;
mod ssh;
mod tls;

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::config::{Address, LibvirtConfig, Transport};
use crate::rpc::RpcError;

/// How long a machine may take to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(15);

/// What bytes go through both ways.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A socket, whatever it is made of.
pub(crate) type Socket = Box<dyn Duplex>;

/// Opens a socket to libvirt.
pub(crate) async fn connect(config: &LibvirtConfig) -> Result<Socket, RpcError> {
    match &config.transport {
        Transport::Unix { socket } => unix(socket).await,
        Transport::Tcp(address) => Ok(Box::new(tcp(address).await?)),
        Transport::Tls(address) => tls::connect(config, address).await,
        Transport::Ssh { socket, .. } => ssh::connect(config, ssh::Target::Unix(socket)).await,
    }
}

/// Something of the host that is not libvirt itself: the screen of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// A socket there.
    Unix(String),
    /// A port there.
    Port(Address),
}

/// Opens a socket to something beside libvirt on its host, if the way to libvirt leads there too; `None` if it does not.
pub(crate) async fn beside(
    config: &LibvirtConfig,
    target: &Beside,
) -> Result<Option<Socket>, RpcError> {
    let socket = match (&config.transport, target) {
        (Transport::Unix { .. }, Beside::Unix(path)) => unix(Path::new(path)).await?,
        (Transport::Unix { .. }, Beside::Port(address)) => Box::new(tcp(address).await?),
        (Transport::Ssh { .. }, Beside::Unix(path)) => {
            ssh::connect(config, ssh::Target::Unix(path)).await?
        }
        (Transport::Ssh { .. }, Beside::Port(address)) => {
            ssh::connect(config, ssh::Target::Port(address)).await?
        }
        (Transport::Tls(_) | Transport::Tcp(_), _) => return Ok(None),
    };
    Ok(Some(socket))
}

async fn unix(path: &Path) -> Result<Socket, RpcError> {
    let opened = UnixStream::connect(path).await;
    let stream = opened.map_err(|error| {
        let text = format!("{} at {}", error, path.display());
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => RpcError::Refused(text),
            _ => RpcError::Unreachable(text),
        }
    })?;
    Ok(Box::new(stream))
}

async fn tcp(address: &Address) -> Result<TcpStream, RpcError> {
    let place = (address.host.as_str(), address.port);
    let failed =
        |why: String| RpcError::Unreachable(format!("{why} at {}:{}", address.host, address.port));
    let opened = tokio::time::timeout(ANSWERS_WITHIN, TcpStream::connect(place)).await;
    let stream = opened
        .map_err(|_| failed("no answer in time".to_owned()))?
        .map_err(|error| failed(error.to_string()))?;
    // Calls are small and each waits for its answer.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}
