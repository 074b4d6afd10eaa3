//! What is served where.

use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{ConnectInfo, Path, Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use kube::Client;
use polyvirt_contract::Provider;
use polyvirt_contract::model::{ConsoleKind, VmRef};
use polyvirt_listener::Who;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::{self, Target};
use crate::audit::Session;
use crate::discovery::{self, FIRST_GROUP, FIRST_VERSION, GROUP, Part, VERSION};
use crate::exec::{ExecAnswer, ExecBody};
use crate::front_proxy::{FrontProxy, User};
use crate::machines::Machines;
use crate::refusal::Refusal;
use crate::server::Peer;
use crate::{CONSOLE_PROTOCOL, console, log};

/// More than this many people at once is a mistake or an attack.
const SESSIONS: usize = 256;
const DEFAULT_LINES: usize = 100;

/// What every request needs.
pub struct Shared {
    pub client: Client,
    pub machines: Arc<dyn Machines>,
    pub front_proxy: RwLock<Arc<FrontProxy>>,
    sessions: Arc<Semaphore>,
}

type Answer = Result<Response, Refusal>;

impl Shared {
    /// Nobody is connected yet.
    pub fn new(client: Client, machines: Arc<dyn Machines>, front_proxy: FrontProxy) -> Self {
        Self {
            client,
            machines,
            front_proxy: RwLock::new(Arc::new(front_proxy)),
            sessions: Arc::new(Semaphore::new(SESSIONS)),
        }
    }

    /// Whom we believe at the moment.
    pub fn front_proxy(&self) -> Arc<FrontProxy> {
        let held = self.front_proxy.read();
        held.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn user(&self, peer: &Peer, headers: &HeaderMap) -> Result<User, Refusal> {
        let front_proxy = self.front_proxy();
        let name = peer.common_name.as_deref();
        let believed = name.is_some_and(|name| front_proxy.allows(name));
        let user = believed.then(|| front_proxy.user(headers)).flatten();
        user.ok_or(Refusal::Unknown)
    }

    /// Lets the user in, or says why not.
    async fn admit(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        target: Target,
    ) -> Result<Admitted, Refusal> {
        let user = self.user(peer, headers)?;
        access::check(&self.client, &user, &target).await?;
        let (provider, vm) = self.machines.find(&target.namespace, &target.name)?;
        let seat = self.sessions.clone().try_acquire_owned();
        Ok(Admitted {
            provider,
            vm,
            session: Session::begin(&user, &target),
            seat: seat.map_err(|_| Refusal::TooMany)?,
        })
    }
}

/// A user at a VM.
struct Admitted {
    provider: Arc<dyn Provider>,
    vm: VmRef,
    session: Session,
    seat: OwnedSemaphorePermit,
}

/// All paths.
pub fn routes(shared: Arc<Shared>) -> Router {
    let path = |part: Part| {
        let name = part.name();
        format!("/apis/{GROUP}/{VERSION}/namespaces/{{namespace}}/virtualmachines/{{name}}/{name}")
    };
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/apis", get(|| async { Json(discovery::groups()) }))
        .route(
            &format!("/apis/{GROUP}"),
            get(|| async { Json(discovery::group()) }),
        )
        .route(
            &format!("/apis/{GROUP}/{VERSION}"),
            get(|| async { Json(discovery::resources()) }),
        )
        .route(
            &format!("/apis/{FIRST_GROUP}/{FIRST_VERSION}"),
            get(|| async { Json(discovery::no_resources()) }),
        )
        .route(&path(Part::Console), get(serial))
        .route(&path(Part::Vnc), get(vnc))
        .route(&path(Part::Exec), post(exec))
        .route(&path(Part::Log), get(serial_log))
        .fallback(|| async { Refusal::NotFound("There is nothing at this path".to_owned()) })
        .with_state(shared)
}

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;
type Names = Path<(String, String)>;
type From = ConnectInfo<Who<Peer>>;

async fn serial(
    state: State<Arc<Shared>>,
    from: From,
    names: Names,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Answer {
    attach(state, from, names, headers, upgrade, ConsoleKind::Serial).await
}

async fn vnc(
    state: State<Arc<Shared>>,
    from: From,
    names: Names,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Answer {
    attach(state, from, names, headers, upgrade, ConsoleKind::Vnc).await
}

/// The console is attached before the protocol changes, so that a refusal is an answer as any other.
async fn attach(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(Who(peer)): From,
    Path((namespace, name)): Names,
    headers: HeaderMap,
    upgrade: Upgrade,
    kind: ConsoleKind,
) -> Answer {
    let part = match kind {
        ConsoleKind::Serial => Part::Console,
        ConsoleKind::Vnc => Part::Vnc,
    };
    let target = Target {
        namespace,
        name,
        part,
    };
    let admitted = shared.admit(&peer, &headers, target).await?;
    let upgrade = upgrade.map_err(|_| {
        let text = "A console is a websocket: use `polyvirt vm console` or `polyvirt vm vnc`";
        Refusal::Invalid(text.to_owned())
    })?;
    let console = admitted.provider.console(&admitted.vm, kind).await?;
    let (session, seat) = (admitted.session, admitted.seat);
    // What browsers ask for is called "binary".
    let upgrade = upgrade.protocols([CONSOLE_PROTOCOL, "binary"]);
    Ok(upgrade.on_upgrade(move |socket| async move {
        console::carry(socket, console, session).await;
        drop(seat);
    }))
}

async fn exec(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(Who(peer)): From,
    Path((namespace, name)): Names,
    headers: HeaderMap,
    body: axum::body::Bytes,
) -> Answer {
    let target = Target {
        namespace,
        name,
        part: Part::Exec,
    };
    let admitted = shared.admit(&peer, &headers, target).await?;
    let body: ExecBody = serde_json::from_slice(&body)
        .map_err(|error| Refusal::Invalid(format!("The body cannot be read: {error}")))?;
    let output = admitted
        .provider
        .guest_exec(&admitted.vm, body.request()?)
        .await?;
    Ok(Json(ExecAnswer::from(output)).into_response())
}

/// Options of the log.
#[derive(Debug, Default, Deserialize)]
struct LogQuery {
    lines: Option<usize>,
}

async fn serial_log(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(Who(peer)): From,
    Path((namespace, name)): Names,
    Query(query): Query<LogQuery>,
    headers: HeaderMap,
) -> Answer {
    let target = Target {
        namespace,
        name,
        part: Part::Log,
    };
    let admitted = shared.admit(&peer, &headers, target).await?;
    let lines = query.lines.unwrap_or(DEFAULT_LINES);
    let text = log::read(&*admitted.provider, &admitted.vm, lines).await?;
    let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    Ok((kind, text).into_response())
}
