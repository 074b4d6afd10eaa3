//! A connection that comes back: one task opens it, looks after it, and opens it again with growing pauses.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, OnEvent};
use super::error::RpcError;
use super::procedure::{AUTH_LIST, AUTH_POLKIT, CONNECT_OPEN, EVENTS, LIFE, PASS};
use crate::config::LibvirtConfig;
use crate::{sasl, transport};

/// Pauses between attempts: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// How long one attempt may take.
const OPENS_WITHIN: Duration = Duration::from_secs(30);
/// How long a call waits for a connection that is being opened.
const WAIT: Duration = Duration::from_secs(4);
/// By this number the other side is asked whether it answers signs of life.
const KEEPALIVE: i32 = 10;
const AUTH_NONE: u32 = 0;
const AUTH_BY_POLKIT: u32 = 2;

/// A session with libvirt that is open.
pub(crate) type Session = Arc<Connection>;

/// How the link stands.
#[derive(Clone)]
enum Standing {
    /// No attempt has ended yet.
    Opening,
    Open(Session),
    /// It broke, or cannot be opened, for this reason.
    Down(RpcError),
}

/// What keeps a session open.
pub(crate) struct Link {
    standing: watch::Receiver<Standing>,
    stop: CancellationToken,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Link {
    /// Begins to open a session. `on_open` is called for each one, the first too, when its events are being listened to.
    pub(crate) fn start(
        config: Arc<LibvirtConfig>,
        on_event: OnEvent,
        on_open: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let (sender, standing) = watch::channel(Standing::Opening);
        let stop = CancellationToken::new();
        let keeper = keep_open(config, on_event, on_open, sender);
        let stopped = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = keeper => {}
            }
        });
        Self { standing, stop }
    }

    /// Whether there is a session.
    pub(crate) fn is_open(&self) -> bool {
        matches!(&*self.standing.borrow(), Standing::Open(_))
    }

    /// Waits until there is a session; for ever if there will be none.
    pub(crate) async fn opened(&self) {
        let mut standing = self.standing.clone();
        let open = |now: &Standing| matches!(now, Standing::Open(_));
        if standing.wait_for(open).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until there is no session.
    pub(crate) async fn closed(&self) {
        let mut standing = self.standing.clone();
        let shut = |now: &Standing| !matches!(now, Standing::Open(_));
        if standing.wait_for(shut).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The session. One that is being opened is waited for a little.
    pub(crate) async fn session(&self) -> Result<Session, RpcError> {
        let mut standing = self.standing.clone();
        let open = |now: &Standing| matches!(now, Standing::Open(session) if !session.over().is_cancelled());
        let waited = tokio::time::timeout(WAIT, standing.wait_for(open)).await;
        if let Ok(Ok(now)) = waited
            && let Standing::Open(session) = &*now
        {
            return Ok(session.clone());
        }
        Err(match &*self.standing.borrow() {
            Standing::Down(why) => why.clone(),
            Standing::Open(session) => RpcError::Unreachable(session.why()),
            Standing::Opening => RpcError::Unreachable("no answer yet".to_owned()),
        })
    }
}

async fn keep_open(
    config: Arc<LibvirtConfig>,
    on_event: OnEvent,
    on_open: impl Fn(),
    standing: watch::Sender<Standing>,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        match in_time(open(&config, &on_event)).await {
            Ok(session) => {
                pause = FIRST_PAUSE;
                tracing::info!(endpoint = %config.public(), "libvirt is connected");
                standing.send_replace(Standing::Open(session.clone()));
                on_open();
                session.over().cancelled().await;
                tracing::warn!(endpoint = %config.public(), why = %session.why(), "libvirt is disconnected");
                let why = RpcError::Unreachable(session.why());
                standing.send_replace(Standing::Down(why));
            }
            Err(error) => {
                tracing::debug!(endpoint = %config.public(), %error, "libvirt cannot be connected");
                standing.send_replace(Standing::Down(error));
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        tokio::time::sleep(jittered(pause)).await;
    }
}

/// Up to a quarter more, so that many who lost the same libvirt do not all come back at once.
fn jittered(pause: Duration) -> Duration {
    use std::hash::{BuildHasher as _, RandomState};
    let chance = u32::try_from(RandomState::new().hash_one(0) % 256).unwrap_or(0);
    pause + pause / 4 * chance / 256
}

/// Opens a session for one piece of work, which hears no events. libvirt ends that work when the session ends.
pub(crate) async fn open_apart(config: &LibvirtConfig) -> Result<Session, RpcError> {
    in_time(admit(config, Arc::new(|_| {}))).await.map(Arc::new)
}

/// The same for a move, which wants to hear how the lives of domains turn and how often their memory is passed over.
pub(crate) async fn open_apart_for(
    config: &LibvirtConfig,
    on_event: OnEvent,
) -> Result<Session, RpcError> {
    let opens = async {
        let session = admit(config, on_event).await?;
        session.register(LIFE).await?;
        session.register(PASS).await?;
        Ok(session)
    };
    in_time(opens).await.map(Arc::new)
}

async fn in_time<T>(opens: impl Future<Output = Result<T, RpcError>>) -> Result<T, RpcError> {
    let opened = tokio::time::timeout(OPENS_WITHIN, opens).await;
    opened.unwrap_or_else(|_| Err(RpcError::Unreachable("no answer in time".to_owned())))
}

/// The socket, who we are, which hypervisor, signs of life.
async fn admit(config: &LibvirtConfig, on_event: OnEvent) -> Result<Connection, RpcError> {
    let socket = transport::connect(config).await?;
    let session = Connection::start(socket, on_event);
    authenticate(&session, config).await?;
    let name = Some(config.driver.as_str());
    session.call::<()>(CONNECT_OPEN, &(name, 0_u32)).await?;
    if session.supports(KEEPALIVE).await? {
        session.keep_alive();
    }
    Ok(session)
}

/// Opens a session that hears events.
pub(super) async fn open(config: &LibvirtConfig, on_event: &OnEvent) -> Result<Session, RpcError> {
    let session = admit(config, on_event.clone()).await?;
    for event in EVENTS {
        // An older libvirt does not know the newest.
        if let Err(error) = session.register(*event).await {
            if matches!(error, RpcError::Libvirt(_)) {
                tracing::debug!(event, %error, "An event is not told by this libvirt");
            } else {
                return Err(error);
            }
        }
    }
    Ok(Arc::new(session))
}

async fn authenticate(session: &Connection, config: &LibvirtConfig) -> Result<(), RpcError> {
    let kinds: Vec<u32> = session.call(AUTH_LIST, &()).await?;
    if kinds.is_empty() || kinds.contains(&AUTH_NONE) {
        return Ok(());
    }
    if kinds.contains(&AUTH_BY_POLKIT) {
        let _: i32 = session.call(AUTH_POLKIT, &()).await?;
        return Ok(());
    }
    sasl::log_in(session, config).await
}
