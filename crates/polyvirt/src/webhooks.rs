//! The admission webhooks, for the manager.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use kube::Client;
use polyvirt_admission::{
    Caches, FailurePolicy, Linked, Metrics, Owners, Place, Registration, Webhooks,
};
use polyvirt_engine::catalogue::StandIn;
use polyvirt_engine::manager::Manager;
use polyvirt_pki::{Keeper, Source};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::cli;
use crate::prepare::prepared;
use crate::registry;

/// So often we look whether the certificate is to be renewed, and whether the configurations are as they should be.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How long the configurations may take to go at the end.
const SIGN_OFF: Duration = Duration::from_secs(5);

/// The webhooks at work, or nothing if they were not asked for.
pub struct Serving(Option<JoinHandle<()>>);

impl Serving {
    /// Waits until they are signed off, after the manager was told to stop.
    pub async fn ended(self) {
        if let Some(task) = self.0 {
            let _ = tokio::time::timeout(SIGN_OFF, task).await;
        }
    }
}

/// Serves in the background if that is asked for, whether this manager leads or not.
pub async fn serve(
    options: &cli::Manager,
    namespace: &str,
    keeper: &Arc<Keeper>,
    client: &Client,
    manager: &Manager,
    metrics: Metrics,
    stop: &CancellationToken,
) -> anyhow::Result<Serving> {
    let Some(address) = options.webhooks.webhook_bind_address.0 else {
        return Ok(Serving(None));
    };
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("Cannot serve webhooks on {address}: stop what uses the port, or choose another")
    })?;
    let facts = facts(options, client, manager);
    let place = place(options, namespace);
    let given = options.webhooks.webhook_certificate.as_deref();
    let certificate = Source::new(keeper, client.clone(), &place.namespace, given);
    let (client, stop) = (client.clone(), stop.clone());
    let task = tokio::spawn(async move {
        let prepare = || {
            let (place, certificate) = (place.clone(), certificate.clone());
            Webhooks::prepare(
                client.clone(),
                place,
                certificate,
                facts.clone(),
                metrics.clone(),
            )
        };
        let Some(webhooks) = prepared("webhooks", prepare, &stop).await else {
            return;
        };
        tracing::info!(%address, "serving webhooks");
        if let Err(error) = webhooks.serve(listener, stop).await {
            tracing::error!(%error, "webhooks are not served");
        }
    });
    Ok(Serving(Some(task)))
}

/// While this manager stands by, other caches stand in for its own.
fn facts(options: &cli::Manager, client: &Client, manager: &Manager) -> Arc<Caches> {
    let stands_by = options.elects(cli::Home::here());
    let stand_in = stands_by.then(|| StandIn::start(client, &options.namespaces));
    let owners = Owners::new(client.clone());
    let remote = options.pods.remote_providers;
    let linked: Linked = Arc::new(move |provider| registry::can_run(provider, remote));
    let caches = Arc::new(Caches::new(manager.catalogue(), stand_in, linked, owners));
    let (leading, mut filled) = (caches.clone(), manager.ready());
    tokio::spawn(async move {
        if filled.wait_for(|filled| *filled).await.is_ok() {
            leading.leads();
        }
    });
    caches
}

fn place(options: &cli::Manager, namespace: &str) -> Place {
    let told = &options.webhooks;
    let registration = match &told.webhook_url {
        None => Registration::Injected,
        Some(url) => Registration::Own {
            url: url.clone(),
            failure_policy: match told.webhook_failure_policy {
                cli::FailurePolicy::Ignore => FailurePolicy::Ignore,
                cli::FailurePolicy::Fail => FailurePolicy::Fail,
            },
            namespaces: options.namespaces.clone(),
        },
    };
    let own = told.webhook_service_namespace.as_deref();
    Place {
        namespace: own.unwrap_or(namespace).to_owned(),
        service: told.webhook_service_name.clone(),
        configuration: told.webhook_configuration_name.clone(),
        registration,
        look_every: LOOK_EVERY,
    }
}
