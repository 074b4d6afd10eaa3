//! A provider in a child process of the manager, on loopback, with certificates like any other.
//!
//! ```text
//!   started ──► runs ──ended──► pause, started again      (for as long as the Provider asks for it)
//!                └── Provider changed or gone ──► asked to stop, then stopped
//! ```
//!
//! The child ends with the manager, whichever way that ends. VMs do not.

mod child;
mod variables;

use std::collections::HashMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use polyvirt_api::infra::{Provider, RuntimeMode};
use polyvirt_contract::Credentials;
use polyvirt_contract::grpc::{Target, TlsFiles};
use polyvirt_engine::provider::sessions::type_word;
use polyvirt_engine::provider::{NoWay, Place, Security, Way};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_pki::{Keyring, Lifetimes, MANAGER_NAME, Purpose, Subject, leaf};
use polyvirt_plan::{Problem, Reason};
use tempfile::TempDir;
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;

use crate::address::Dial;
use crate::credentials;
use crate::environment::{self, Callers};
use child::{Command, supervise};

/// The name in the certificates of all children.
const CHILD_NAME: &str = "polyvirt-provider";
/// Nothing of it outlives the manager.
const LIFETIME: Duration = Duration::from_secs(5 * 365 * 24 * 3600);

struct Running {
    made_from: String,
    port: u16,
    manager: TlsFiles,
    stop: CancellationToken,
    /// Where the certificates are. Goes with the child.
    _folder: Arc<TempDir>,
}

/// Looks after the child processes.
pub struct Processes {
    client: Client,
    program: PathBuf,
    running: Mutex<HashMap<ObjectKey, Running>>,
    starting: AsyncMutex<()>,
}

impl Processes {
    /// Children are this program, with other arguments. Secrets are read through the client.
    pub fn new(client: Client, program: PathBuf) -> Self {
        Self {
            client,
            program,
            running: Mutex::default(),
            starting: AsyncMutex::new(()),
        }
    }

    /// Makes sure that the child runs, and says how to reach it.
    pub async fn way(&self, provider: &Provider) -> Result<Way, NoWay> {
        let _alone = self.starting.lock().await;
        let given = self.given(provider).await?;
        let made_from = given.mark(provider);
        let key = ObjectKey::of(provider);
        let is_there = self.with(|all| all.get(&key).is_some_and(|r| r.made_from == made_from));
        if !is_there {
            self.end(&key);
            let running = self.start(provider, given, made_from)?;
            self.with(|all| all.insert(key.clone(), running));
        }
        self.with(|all| all.get(&key).map(way))
            .ok_or_else(|| failed("the child was taken away").into())
    }

    /// All that a pod of this Provider would be given.
    async fn given(&self, provider: &Provider) -> Result<Given, NoWay> {
        let ours = environment::variables(provider, Callers::Manager);
        let mut variables: Vec<_> = ours.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        let own = ObjectKey::of(provider);
        variables.push(("PROVIDER_NAMESPACE".to_owned(), own.namespace().to_owned()));
        variables.push(("PROVIDER_NAME".to_owned(), own.name().to_owned()));
        variables.extend(variables::named(&self.client, provider).await?);
        Ok(Given {
            variables,
            credentials: credentials::read(&self.client, provider).await?,
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<ObjectKey, Running>) -> T) -> T {
        work(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn start(
        &self,
        provider: &Provider,
        given: Given,
        made_from: String,
    ) -> Result<Running, Problem> {
        let folder = tempfile::Builder::new()
            .prefix("polyvirt-provider-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir();
        let folder = Arc::new(folder.map_err(|e| failed(&e))?);
        let manager = certificates(&folder).map_err(|e| failed(&e))?;
        put(&folder, &given.credentials).map_err(|e| failed(&e))?;
        let port = free_port().map_err(|e| failed(&e))?;
        let stop = CancellationToken::new();
        let command = Command {
            program: self.program.clone(),
            kind: type_word(provider.spec.type_),
            environment: given.variables,
            port,
            folder: folder.clone(),
        };
        tokio::spawn(supervise(ObjectKey::of(provider), command, stop.clone()));
        Ok(Running {
            made_from,
            port,
            manager,
            stop,
            _folder: folder,
        })
    }

    /// The Provider is gone, or runs elsewhere.
    pub fn end(&self, provider: &ObjectKey) {
        if let Some(old) = self.with(|all| all.remove(provider)) {
            old.stop.cancel();
        }
    }
}

fn way(running: &Running) -> Way {
    let endpoint = format!("127.0.0.1:{}", running.port);
    let target = Target::new(&endpoint).with_tls(running.manager.clone());
    Way {
        connector: Arc::new(Dial(target)),
        made_from: format!("{endpoint} {}", running.made_from),
        place: Place {
            mode: Some(RuntimeMode::Process),
            endpoint: Some(endpoint),
            security: Security::Own,
            ..Place::default()
        },
    }
}

/// What a child is given.
struct Given {
    variables: Vec<(String, String)>,
    credentials: Credentials,
}

impl Given {
    /// Changes exactly when the child has to be another one.
    fn mark(&self, provider: &Provider) -> String {
        let uid = provider.metadata.uid.as_deref().unwrap_or_default();
        let variables = self.variables.iter().map(|(k, v)| (k.clone(), v.clone()));
        let variables = credentials::mark(&variables.collect());
        format!("{uid} {variables} {}", credentials::mark(&self.credentials))
    }
}

/// Where in the child's folder its credentials are.
const CREDENTIALS: &str = "credentials";

/// Writes the credentials into the folder, which only this user can enter.
fn put(folder: &TempDir, credentials: &Credentials) -> std::io::Result<()> {
    let place = folder.path().join(CREDENTIALS);
    std::fs::create_dir(&place)?;
    for (key, value) in credentials.iter() {
        std::fs::write(place.join(key), value)?;
    }
    Ok(())
}

/// Writes the child's certificates into the folder, which only this user can enter, and returns the manager's.
fn certificates(folder: &TempDir) -> Result<TlsFiles, Box<dyn std::error::Error>> {
    let lifetimes = Lifetimes::of_leaf(LIFETIME);
    let now = Timestamp::now();
    let keyring = Keyring::make(&lifetimes, now)?;
    let subject = |name: &str, purpose| Subject {
        name: name.to_owned(),
        names: vec![name.to_owned()],
        purpose,
    };
    let child = subject(CHILD_NAME, Purpose::Server);
    let (child, _) = leaf::issue(&keyring, &child, &lifetimes, now)?;
    let manager = subject(MANAGER_NAME, Purpose::Client);
    let (manager, _) = leaf::issue(&keyring, &manager, &lifetimes, now)?;
    for (name, text) in [
        ("tls.crt", &child.certificate),
        ("tls.key", &child.key),
        ("ca.crt", &keyring.bundle()),
    ] {
        std::fs::write(folder.path().join(name), text)?;
    }
    let inline = |text: String| polyvirt_contract::grpc::Pem::Inline(text.into_bytes().into());
    Ok(TlsFiles {
        ca: inline(keyring.bundle()),
        cert: inline(manager.certificate),
        key: inline(manager.key),
        domain_name: Some(CHILD_NAME.to_owned()),
        check: polyvirt_contract::grpc::ServerCheck::Full,
    })
}

/// A port that nobody uses now. If somebody takes it first, the child says so in its log and tries again.
fn free_port() -> std::io::Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    Ok(listener.local_addr()?.port())
}

fn failed(why: &(impl std::fmt::Display + ?Sized)) -> Problem {
    let text = format!("The provider's process cannot be started: {why}");
    Problem::new(Reason::InvalidConfiguration, "spec.runtime.mode", text)
}
