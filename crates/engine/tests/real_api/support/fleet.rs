//! Hypervisors by the name of their Provider, kept by the test.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use polyvirt_api::infra::Provider as ProviderObject;
use polyvirt_contract::grpc::{Target, connect};
use polyvirt_contract::{Provider, ProviderError};
use polyvirt_engine::link::session::Connector;
use polyvirt_engine::provider::{NoWay, Place, Runtime, Way};
use polyvirt_plan::{Problem, Reason};

/// How a Provider is reached.
#[derive(Clone)]
pub enum Route {
    /// A call of a function.
    Direct(Arc<dyn Provider>),
    /// A server on loopback.
    Wire(String),
    /// Nobody can say just now.
    Unknown,
}

/// All hypervisors of a test. They outlive every manager.
#[derive(Default)]
pub struct Fleet {
    routes: Mutex<HashMap<String, Route>>,
}

impl Fleet {
    /// The Provider of that name is reached so, from the next connection on.
    pub fn put(&self, name: &str, route: Route) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.insert(name.to_owned(), route);
    }

    fn get(&self, name: &str) -> Option<Route> {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.get(name).cloned()
    }
}

#[async_trait]
impl Runtime for Fleet {
    async fn way(&self, provider: &ProviderObject) -> Result<Way, NoWay> {
        let name = provider.metadata.name.as_deref().unwrap_or_default();
        let way = |connector: Arc<dyn Connector>, made_from| Way {
            connector,
            made_from,
            place: Place::default(),
        };
        match self.get(name) {
            Some(Route::Direct(server)) => Ok(way(Arc::new(Direct(server)), "direct".to_owned())),
            Some(Route::Wire(address)) => Ok(way(
                Arc::new(Wire(address.clone())),
                format!("wire {address}"),
            )),
            Some(Route::Unknown) => Err(NoWay::Unknown(Problem::new(
                Reason::SecretInvalid,
                "spec.credentialSecretRef.name",
                "The API server does not answer",
            ))),
            None => Err(Problem::new(
                Reason::InvalidConfiguration,
                "spec.endpoint",
                "This test knows no such hypervisor. Name one that it has",
            )
            .into()),
        }
    }
}

struct Direct(Arc<dyn Provider>);

#[async_trait]
impl Connector for Direct {
    async fn connect(&self) -> Result<Arc<dyn Provider>, ProviderError> {
        Ok(self.0.clone())
    }
}

struct Wire(String);

#[async_trait]
impl Connector for Wire {
    async fn connect(&self) -> Result<Arc<dyn Provider>, ProviderError> {
        Ok(Arc::new(connect(Target::new(self.0.clone()))?))
    }
}
