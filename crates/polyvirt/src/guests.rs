//! Consoles and commands in guests, for the manager.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use kube::Client;
use polyvirt_contract::Provider;
use polyvirt_contract::model::VmRef;
use polyvirt_engine::guests::{Guests, NoGuest};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_gateway::{Gateway, GatewayError, Machines, Place, Reach, Refusal};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::Manager;

const RETRY: Duration = Duration::from_secs(5);

struct Known(Guests);

impl Machines for Known {
    fn find(&self, namespace: &str, name: &str) -> Result<(Arc<dyn Provider>, VmRef), Refusal> {
        let found = self.0.find(&ObjectKey::new(namespace, name));
        found.map_err(|why| match why {
            NoGuest::NoObject(_) => Refusal::NotFound(why.to_string()),
            NoGuest::NoVm(_) => Refusal::Conflict(why.to_string()),
            NoGuest::NoProvider(_) => Refusal::Unavailable(why.to_string()),
        })
    }
}

/// Serves in the background if that is asked for. The API server may come later than we do.
pub async fn serve(
    options: &Manager,
    client: Client,
    guests: Guests,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let Some(address) = options.gateway_bind_address.0 else {
        return Ok(());
    };
    let place = place(options, address.port())?;
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("Cannot serve consoles on {address}: stop what uses the port, or choose another")
    })?;
    let machines: Arc<dyn Machines> = Arc::new(Known(guests));
    tokio::spawn(async move {
        let Some(gateway) = prepared(client, machines, place, &stop).await else {
            return;
        };
        tracing::info!(%address, "serving consoles");
        if let Err(error) = gateway.serve(listener, stop).await {
            tracing::error!(%error, "consoles are not served");
        }
    });
    Ok(())
}

async fn prepared(
    client: Client,
    machines: Arc<dyn Machines>,
    place: Place,
    stop: &CancellationToken,
) -> Option<Gateway> {
    loop {
        let attempt: Result<Gateway, GatewayError> =
            Gateway::prepare(client.clone(), machines.clone(), place.clone()).await;
        match attempt {
            Ok(gateway) => return Some(gateway),
            Err(error) => tracing::warn!(%error, "consoles cannot be served yet"),
        }
        stop.run_until_cancelled(tokio::time::sleep(RETRY)).await?;
    }
}

fn place(options: &Manager, port: u16) -> anyhow::Result<Place> {
    let (namespace, service) = options
        .gateway_service
        .split_once('/')
        .context("Write --gateway-service as namespace/name")?;
    let (port, reach) = match &options.gateway_host {
        Some(host) => (port, Reach::Host(host.clone())),
        None => (443, Reach::Pods),
    };
    Ok(Place {
        namespace: namespace.to_owned(),
        service: service.to_owned(),
        port,
        reach,
    })
}
