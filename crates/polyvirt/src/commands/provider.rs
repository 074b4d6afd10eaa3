//! `polyvirt provider`.

use std::net::SocketAddr;
use std::num::NonZeroI32;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use polyvirt_contract::grpc::{self, Clients, Listen, ServeOptions, ServerTls};
use polyvirt_contract::{Credentials, Provider};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use tokio::sync::watch;

use super::probes::{self, Readiness};
use super::stop_signal;
use crate::cli::ProviderCommand;
use crate::hypervisors::{self, Access, Environment};

/// Serves a hypervisor until the program is asked to stop.
pub async fn run(options: ProviderCommand) -> anyhow::Result<()> {
    if let Some(parent) = options.with_parent {
        end_with(parent)?;
    }
    let provider = provider(&options).await?;
    let mut serve = ServeOptions::new(Listen::Address(SocketAddr::new(options.bind, options.port)));
    serve.tls = tls(&options)?;
    if options.health_port != 0 {
        let health = hypervisor_health(provider.clone());
        let address = SocketAddr::new(options.bind, options.health_port);
        let state = move || health.borrow().clone();
        probes::serve("health", address, probes::health(state)).await?;
    }
    tracing::info!(kind = ?options.kind, port = options.port, tls = serve.tls.is_some(), "provider serves");
    grpc::serve(provider, serve, stop_signal())
        .await
        .context("The provider cannot be served")
}

/// A manager that is killed takes its children with it.
fn end_with(parent: i32) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    if getppid().map(Pid::as_raw_nonzero) != NonZeroI32::new(parent) {
        bail!("The process that started this one has ended");
    }
    Ok(())
}

/// How often a hypervisor is asked whether it answers: while it does, and while it does not.
const ASKED_EVERY: Duration = Duration::from_secs(60);
const ASKED_AGAIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Whether the hypervisor answers, and if not why.
fn hypervisor_health(provider: Arc<dyn Provider>) -> watch::Receiver<Readiness> {
    let (sender, receiver) = watch::channel(Err("the hypervisor was not asked yet".to_owned()));
    tokio::spawn(async move {
        loop {
            let answer = match tokio::time::timeout(ANSWER_WITHIN, provider.validate()).await {
                Ok(answer) => answer
                    .map(|()| String::new())
                    .map_err(|error| error.message),
                Err(_) => Err("the hypervisor does not answer".to_owned()),
            };
            let pause = answer.as_ref().map_or(ASKED_AGAIN, |_| ASKED_EVERY);
            drop(sender.send_replace(answer));
            tokio::time::sleep(pause).await;
        }
    });
    receiver
}

async fn provider(options: &ProviderCommand) -> anyhow::Result<Arc<dyn Provider>> {
    let credentials = Credentials::from_directory(&options.credentials_dir);
    let access = Access {
        endpoint: options.endpoint.clone(),
        credentials: credentials.context("The credentials cannot be read")?,
        instance: options.instance.clone(),
        server_check: hypervisors::server_check(options.insecure_skip_verify),
        environment: Environment::Own,
    };
    let linked = hypervisors::find(options.kind.into());
    let linked = linked.context("This hypervisor is not part of this program")?;
    let open = linked.prepare(&access)?;
    Ok(open().await?)
}

/// All three files: mTLS. None: plain text, if that was allowed. Some: a mistake.
fn tls(options: &ProviderCommand) -> anyhow::Result<Option<ServerTls>> {
    let dir = &options.tls_dir;
    let files = ["tls.crt", "tls.key", "ca.crt"].map(|name| dir.join(name));
    let missing: Vec<_> = files
        .iter()
        .filter(|f| !f.exists())
        .map(|f| f.display().to_string())
        .collect();
    match (missing.len(), options.insecure) {
        (0, _) => {
            let clients = Clients::parse(&options.allowed_sans);
            Ok(Some(ServerTls::in_directory(dir).for_clients(clients)))
        }
        (3, true) => {
            tracing::warn!(
                "serving without TLS, as VIRTRIGAUD_PROVIDER_INSECURE allows: anybody who reaches the port controls the VMs"
            );
            Ok(None)
        }
        (3, false) => bail!(
            "No certificates in {}: put tls.crt, tls.key and ca.crt there, or set VIRTRIGAUD_PROVIDER_INSECURE=true for a test",
            dir.display()
        ),
        _ => bail!(
            "Certificates are incomplete, missing: {}",
            missing.join(", ")
        ),
    }
}
