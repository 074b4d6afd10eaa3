//! A provider behind a port of this machine.

use std::sync::Arc;

use polyvirt_contract::Provider;
use polyvirt_contract::grpc::{Listen, ServeOptions, Server, Target, connect, serve};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::TcpListenerStream;

/// The other end of the wire; the server ends with it.
pub struct Wire {
    pub client: Arc<dyn Provider>,
    pub address: String,
    _stop: oneshot::Sender<()>,
}

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

fn client(address: String, stop: oneshot::Sender<()>) -> Wire {
    Wire {
        client: Arc::new(connect(Target::new(address.clone())).expect("a client")),
        address,
        _stop: stop,
    }
}

/// Both services, as our own providers are served.
pub async fn both_services(provider: Arc<dyn Provider>) -> Wire {
    let (listener, address) = listener().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let options = ServeOptions::new(Listen::Bound(listener));
    tokio::spawn(async move {
        let stopped = async move { drop(stopped.await) };
        Box::pin(serve(provider, options, stopped))
            .await
            .expect("served");
    });
    client(address, stop)
}

/// Only `provider.v1`, as a foreign provider is served.
pub async fn basic_service(provider: Arc<dyn Provider>) -> Wire {
    let (listener, address) = listener().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let (basic, _extensions) = Server::new(provider).into_services();
    tokio::spawn(async move {
        let stopped = async move { drop(stopped.await) };
        tonic::transport::Server::builder()
            .add_service(basic)
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stopped)
            .await
            .expect("served");
    });
    client(address, stop)
}
