//! One life of a manager.

use std::sync::Arc;

use kube::Client;
use polyvirt_engine::manager::{Config, Manager};
use polyvirt_engine::metrics::Metrics;
use polyvirt_engine::runtime::background::Fallen;
use polyvirt_testkit::ControlPlane;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::fleet::Fleet;

/// A manager that ends as it should.
pub struct Life {
    stop: CancellationToken,
    task: JoinHandle<Result<(), Fallen>>,
}

impl Life {
    /// Returns when its caches are filled.
    pub async fn start(
        client: Client,
        config: Config,
        fleet: Arc<Fleet>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let manager = Manager::new(client, config, fleet, metrics);
        let mut ready = manager.ready();
        let stop = CancellationToken::new();
        let task = tokio::spawn(manager.run(stop.clone()));
        ready.wait_for(|ready| *ready).await.expect("it runs");
        Self { stop, task }
    }

    /// Ends as it does when it is asked to.
    pub async fn stop(self) {
        self.stop.cancel();
        let ended = self.task.await.expect("it ended well");
        ended.expect("nothing fell");
    }
}

/// A manager with threads of its own, so that it can be killed in the middle of anything.
pub struct Doomed(Option<tokio::runtime::Runtime>);

impl Doomed {
    /// Returns at once.
    pub fn start(plane: &'static ControlPlane, config: Config, fleet: Arc<Fleet>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.spawn(async move {
            let client = plane.client().expect("a client");
            let metrics = Arc::new(Metrics::default());
            Manager::new(client, config, fleet, metrics)
                .run(CancellationToken::new())
                .await
                .expect("nothing falls");
        });
        Self(Some(runtime))
    }

    /// Everything that it does ends where it stands.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        self.end();
    }
}
