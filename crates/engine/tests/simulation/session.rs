//! Keeps the link to the provider as the real session does, one move at a time.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use polyvirt_contract::provider::Result;
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{ErrorKind, Provider, ProviderError};
use polyvirt_engine::link::observations::Moment;
use polyvirt_engine::link::session::Listener;
use polyvirt_engine::link::{Link, Links, Observations};
use polyvirt_engine::runtime::dispatch::Dispatcher;

use crate::hypervisor::Hypervisor;
use crate::objects::provider_key;
use crate::world::{Sim, poll_once};

/// Between two lists of a provider that cannot stream.
const SWEEP: Duration = Duration::from_secs(60);
/// Failed lists in a row before such a provider counts as unavailable.
const PATIENCE: u32 = 3;

enum State {
    Unconnected,
    /// Connected; the stream is to be opened.
    Deaf,
    Hearing(BoxStream<'static, Result<VmEvent>>),
    /// Lists all VMs at this time again.
    Sweeping(Duration),
}

type List = futures::future::BoxFuture<'static, Result<Vec<polyvirt_contract::model::VmState>>>;

/// A list that is under way, and when it was asked for.
struct Sweep {
    list: List,
    asked: Moment,
}

/// The session of the one provider.
pub struct Session {
    sim: Arc<Sim>,
    link: Arc<Link>,
    dispatcher: Arc<Dispatcher>,
    provider: Arc<Hypervisor>,
    state: State,
    sweep: Option<Sweep>,
    failed: u32,
}

impl Session {
    pub fn new(sim: &Arc<Sim>, links: &Links, dispatcher: Arc<Dispatcher>) -> Self {
        let link = Arc::new(Link::new(provider_key()));
        links.put(link.clone());
        let provider = Arc::new(Hypervisor { sim: sim.clone() });
        Self {
            sim: sim.clone(),
            link,
            dispatcher,
            provider,
            state: State::Unconnected,
            sweep: None,
            failed: 0,
        }
    }

    /// Whether a move would do something now.
    pub fn has_work(&self) -> bool {
        match &self.state {
            State::Unconnected => !self.sim.world().provider_down,
            State::Deaf | State::Hearing(_) => true,
            State::Sweeping(due) => self.sweep.is_some() || *due <= self.sim.mock.now(),
        }
    }

    /// Whether a list is under way.
    pub fn is_asking(&self) -> bool {
        self.sweep.is_some()
    }

    /// When it has work by itself; `None` if something else must happen first.
    pub fn next_due(&self) -> Option<Duration> {
        match &self.state {
            State::Sweeping(_) if self.sweep.is_some() => {
                Some(self.sim.mock.now() + Duration::from_secs(1))
            }
            State::Sweeping(due) => Some(*due),
            _ => None,
        }
    }

    /// One move. False if there was nothing to do.
    pub fn advance(&mut self) -> bool {
        let down = self.sim.world().provider_down;
        match &mut self.state {
            State::Unconnected if down => false,
            State::Unconnected => self.connect(),
            State::Deaf if down => self.lose(),
            State::Deaf => self.open(),
            State::Hearing(_) => self.hear(),
            State::Sweeping(_) => self.sweep(),
        }
    }

    /// Lists all VMs before the time.
    pub fn sweep_now(&mut self) {
        if let State::Sweeping(due) = &mut self.state {
            *due = Duration::ZERO;
        }
    }

    /// The provider was found dead, by a health check or by calls that fail.
    pub fn lose(&mut self) -> bool {
        if matches!(self.state, State::Unconnected) {
            return false;
        }
        self.sim.note(|| "  link lost".to_owned());
        let error = ProviderError::new(ErrorKind::Unavailable, "The simulation says so");
        self.link.unavailable(error, self.sim.now());
        self.state = State::Unconnected;
        self.sweep = None;
        self.failed = 0;
        self.dispatcher.standing(&self.link);
        true
    }

    fn connect(&mut self) -> bool {
        let ready = "the mock answers these at once";
        let capabilities = now(self.provider.capabilities())
            .expect(ready)
            .expect(ready);
        let mut features = now(self.provider.features()).expect(ready).expect(ready);
        if self.sim.setting.is_basic() {
            let basic = polyvirt_plan::honoured::BASIC_PROVIDER
                .iter()
                .map(ToString::to_string);
            features.honoured_fields = Some(basic.collect());
        }
        self.sim.note(|| "  link connected".to_owned());
        let provider = self.provider.clone();
        self.link.connected(
            provider,
            features,
            capabilities,
            self.sim.now(),
            Duration::ZERO,
        );
        self.dispatcher.standing(&self.link);
        self.state = if self.sim.setting.is_basic() {
            State::Sweeping(Duration::ZERO)
        } else {
            State::Deaf
        };
        true
    }

    fn open(&mut self) -> bool {
        match now(self.provider.watch()) {
            Some(Ok(stream)) => {
                self.sim.note(|| "  stream opened".to_owned());
                self.link.seen(Observations::begin_stream);
                self.state = State::Hearing(stream);
            }
            _ => return self.lose(),
        }
        true
    }

    fn hear(&mut self) -> bool {
        let State::Hearing(stream) = &mut self.state else {
            return false;
        };
        match poll_once(std::pin::pin!(stream.next())) {
            None => return false,
            Some(Some(Ok(event))) => self.heard(event),
            Some(Some(Err(_)) | None) => {
                self.sim.note(|| "  stream ended".to_owned());
                self.state = State::Deaf;
            }
        }
        true
    }

    fn heard(&self, event: VmEvent) {
        let event = match event {
            VmEvent::Task { id, state } => VmEvent::Task {
                id,
                state: self.sim.maybe_lie(state),
            },
            other => other,
        };
        self.sim.note(|| format!("  stream: {}", told(&event)));
        let concerns = self.link.seen(|seen| seen.apply(event));
        self.dispatcher.concerns(&self.link, concerns);
    }

    fn sweep(&mut self) -> bool {
        let State::Sweeping(due) = &mut self.state else {
            return false;
        };
        if self.sweep.is_none() && *due > self.sim.mock.now() {
            return false;
        }
        let provider = self.provider.clone();
        let moment = self.link.seen(|seen| seen.moment());
        let mut sweep = self.sweep.take().unwrap_or_else(|| Sweep {
            list: Box::pin(async move { provider.list_vms().await }),
            asked: moment,
        });
        let Some(answer) = poll_once(sweep.list.as_mut()) else {
            self.sweep = Some(sweep);
            return false;
        };
        let asked = sweep.asked;
        *due = self.sim.mock.now() + SWEEP;
        match answer {
            Ok(list) => {
                self.failed = 0;
                let concerns = self.link.seen(|seen| seen.replace(list, asked));
                self.sim
                    .note(|| format!("  swept: {} concerns", concerns.len()));
                self.dispatcher.concerns(&self.link, concerns);
            }
            Err(_) => {
                self.failed += 1;
                if self.failed >= PATIENCE {
                    self.lose();
                }
            }
        }
        true
    }
}

fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    poll_once(std::pin::pin!(future))
}

fn told(event: &VmEvent) -> String {
    match event {
        VmEvent::State(vm) => format!(
            "{} of {:?} rev {} {:?} cpu {} restart {:?} last {:?}",
            vm.id,
            vm.owner.as_ref().map(|o| o.identity.as_str()),
            vm.revision,
            vm.power,
            vm.cpu,
            vm.restart_required,
            vm.last_request
        ),
        other => format!("{other:?}"),
    }
}
