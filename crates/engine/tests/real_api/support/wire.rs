//! A provider behind a port of this machine that can be killed as a process is.

use std::net::SocketAddr;
use std::sync::Arc;

use polyvirt_contract::Provider;
use polyvirt_contract::grpc::{Listen, ServeOptions, Server, serve};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;

/// Which services a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Services {
    /// Both, as our own providers have.
    Both,
    /// Only `provider.v1`, as a foreign provider has.
    Basic,
}

/// A server with threads and sockets of its own; they end with it.
pub struct WireServer {
    pub address: SocketAddr,
    services: Services,
    provider: Arc<dyn Provider>,
    runtime: Option<Runtime>,
}

impl WireServer {
    /// Serves on a free port.
    pub fn start(provider: Arc<dyn Provider>, services: Services) -> Self {
        let free = "127.0.0.1:0".parse().expect("an address");
        let mut server = Self {
            address: free,
            services,
            provider,
            runtime: None,
        };
        server.revive();
        server
    }

    /// Serves again, on the port that it had.
    pub fn revive(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = std::net::TcpListener::bind(self.address).expect("the port");
        listener.set_nonblocking(true).expect("a socket");
        self.address = listener.local_addr().expect("an address");
        let provider = self.provider.clone();
        match self.services {
            Services::Both => runtime.spawn(both(provider, listener)),
            Services::Basic => runtime.spawn(basic(provider, listener)),
        };
        self.runtime = Some(runtime);
    }

    /// Dies with all its connections, as a process that is killed.
    pub fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for WireServer {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn both(provider: Arc<dyn Provider>, listener: std::net::TcpListener) {
    let listener = TcpListener::from_std(listener).expect("a socket");
    let options = ServeOptions::new(Listen::Bound(listener));
    Box::pin(serve(provider, options, std::future::pending()))
        .await
        .expect("served");
}

async fn basic(provider: Arc<dyn Provider>, listener: std::net::TcpListener) {
    let listener = TcpListener::from_std(listener).expect("a socket");
    let (service, _extensions) = Server::new(provider).into_services();
    tonic::transport::Server::builder()
        .add_service(service)
        .serve_with_incoming(TcpListenerStream::new(listener))
        .await
        .expect("served");
}
