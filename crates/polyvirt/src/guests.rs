//! Consoles and commands in guests, for the manager.

use std::sync::Arc;

use anyhow::Context;
use kube::Client;
use polyvirt_contract::Provider;
use polyvirt_contract::model::VmRef;
use polyvirt_engine::guests::{Guests, NoGuest};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_gateway::{Gateway, Machines, Place, Reach, Refusal};
use polyvirt_pki::{Keeper, Source};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::Manager;
use crate::prepare::prepared;

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
    keeper: &Arc<Keeper>,
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
    let given = options.gateway_certificate.as_deref();
    let certificate = Source::new(keeper, client.clone(), &place.namespace, given);
    let machines: Arc<dyn Machines> = Arc::new(Known(guests));
    tokio::spawn(async move {
        let prepare = || {
            let (place, certificate) = (place.clone(), certificate.clone());
            Gateway::prepare(client.clone(), machines.clone(), place, certificate)
        };
        let Some(gateway) = prepared("consoles", prepare, &stop).await else {
            return;
        };
        tracing::info!(%address, "serving consoles");
        gateway.serve(listener, stop).await;
    });
    Ok(())
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
        order: options.vm_short_name.order(),
    })
}
