//! Servers and clients on loopback.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polyvirt_contract::Provider;
use polyvirt_contract::grpc::{
    Client, Listen, ServeError, ServeOptions, ServerTls, Target, connect, serve,
};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server until it is stopped or dropped.
pub struct Running {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), ServeError>>,
}

impl Running {
    pub async fn start(provider: Arc<dyn Provider>) -> Self {
        Self::start_on(loopback().await, provider, None)
    }

    pub async fn start_tls(provider: Arc<dyn Provider>, tls: ServerTls) -> Self {
        Self::start_on(loopback().await, provider, Some(tls))
    }

    pub fn start_on(
        listener: TcpListener,
        provider: Arc<dyn Provider>,
        tls: Option<ServerTls>,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let mut options = ServeOptions::new(Listen::Bound(listener));
        options.tls = tls;
        let task = tokio::spawn(serve(provider, options, async {
            let _ = stopped.await;
        }));
        Self {
            address,
            stop: Some(stop),
            task,
        }
    }

    pub fn target(&self) -> Target {
        Target::new(self.address.to_string())
    }

    pub fn client(&self) -> Client {
        connect(self.target()).unwrap()
    }

    /// Stops it and waits for its end.
    pub async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }
}

pub async fn loopback() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// The same port again, as soon as the last owner has let go of it.
pub async fn rebind(address: SocketAddr) -> TcpListener {
    eventually(|| async { TcpListener::bind(address).await.ok() }).await
}

/// Tries until something comes of it; fails after ten seconds.
pub async fn eventually<T, F: Future<Output = Option<T>>>(mut attempt: impl FnMut() -> F) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = attempt().await {
            return value;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "waited in vain");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
