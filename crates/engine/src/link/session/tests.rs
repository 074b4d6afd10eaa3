use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream;
use polyvirt_contract::model::{CreateVm, Created, Host, Inventory, PowerRequest, VmRef, VmState};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{Capabilities, TaskId};
use tokio::sync::mpsc;

use super::*;
use crate::metrics::unobserved;
use crate::runtime::key::ObjectKey;

type Result<T> = std::result::Result<T, ProviderError>;

/// A provider that streams what it is given, and whose health checks hang when it is asked to.
struct Fake {
    hangs: AtomicBool,
    events: Mutex<Option<mpsc::UnboundedReceiver<VmEvent>>>,
    used: std::sync::atomic::AtomicU32,
}

#[async_trait]
impl Provider for Fake {
    async fn validate(&self) -> Result<()> {
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        Ok(Capabilities::default())
    }

    async fn features(&self) -> Result<Features> {
        Ok(Features {
            extensions: [Extension::Watch, Extension::Inventory].into(),
            ..Features::default()
        })
    }

    async fn inventory(&self) -> Result<Inventory> {
        let host = Host {
            name: "host".to_owned(),
            cpus: 8,
            cpus_used: self.used.load(Ordering::Relaxed),
            ..Host::default()
        };
        Ok(Inventory {
            hosts: vec![host],
            ..Inventory::default()
        })
    }

    async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        let events = self
            .events
            .lock()
            .expect("whole")
            .take()
            .expect("one stream");
        let next = |mut events: mpsc::UnboundedReceiver<VmEvent>| async move {
            let event = events.recv().await?;
            Some((Ok(event), events))
        };
        Ok(stream::unfold(events, next).boxed())
    }

    async fn create(&self, _: CreateVm) -> Result<Created> {
        Err(ProviderError::unsupported("it"))
    }
    async fn delete(&self, _: &VmRef) -> Result<Option<TaskId>> {
        Err(ProviderError::unsupported("it"))
    }
    async fn power(&self, _: &VmRef, _: PowerRequest) -> Result<Option<TaskId>> {
        Err(ProviderError::unsupported("it"))
    }
    async fn reconfigure(&self, _: &VmRef, _: CreateVm) -> Result<Option<TaskId>> {
        Err(ProviderError::unsupported("it"))
    }
    async fn describe(&self, _: &VmId) -> Result<Option<VmState>> {
        Ok(None)
    }
    async fn task_status(&self, _: &TaskId) -> Result<TaskState> {
        Err(ProviderError::unsupported("it"))
    }
    async fn list_vms(&self) -> Result<Vec<VmState>> {
        Ok(Vec::new())
    }
}

struct Reach(Arc<Fake>);

#[async_trait]
impl Connector for Reach {
    async fn connect(&self) -> Result<Arc<dyn Provider>> {
        Ok(self.0.clone())
    }
}

/// Notes when it heard of VMs and of the inventory.
#[derive(Default)]
struct Ears {
    vms: Mutex<Vec<Instant>>,
    inventories: Mutex<Vec<Instant>>,
}

impl Listener for Ears {
    fn standing(&self, _: &Link) {}
    fn concerns(&self, _: &Link, concerns: Vec<Concerns>) {
        if concerns.iter().any(|c| matches!(c, Concerns::Vm(..))) {
            self.vms.lock().expect("whole").push(Instant::now());
        }
    }
    fn known(&self, _: &Link) -> Vec<VmId> {
        Vec::new()
    }
    fn inventory(&self, _: &Link) {
        self.inventories.lock().expect("whole").push(Instant::now());
    }
}

fn state(revision: u64) -> VmEvent {
    VmEvent::State(VmState {
        id: VmId::from("vm-1"),
        revision,
        ..VmState::default()
    })
}

struct Stage {
    fake: Arc<Fake>,
    ears: Arc<Ears>,
    events: mpsc::UnboundedSender<VmEvent>,
    link: Arc<Link>,
}

/// A session that runs, with a complete picture.
async fn stage() -> Stage {
    let (events, heard) = mpsc::unbounded_channel();
    let fake = Arc::new(Fake {
        hangs: AtomicBool::new(false),
        events: Mutex::new(Some(heard)),
        used: 0.into(),
    });
    let ears = Arc::new(Ears::default());
    let link = Arc::new(Link::new(ObjectKey::new("default", "lab")));
    let session = Session {
        link: link.clone(),
        connector: Arc::new(Reach(fake.clone())),
        listener: ears.clone(),
        clock: Arc::new(jiff::Timestamp::now),
        timing: Timing::default(),
        labels: ProviderLabels {
            provider_type: "fake".to_owned(),
            provider: "default/lab".to_owned(),
        },
        metrics: unobserved(),
        rate: None,
    };
    tokio::spawn(session.run(CancellationToken::new()));
    events.send(VmEvent::Synced).expect("heard");
    sleep(Duration::from_secs(1)).await;
    Stage {
        fake,
        ears,
        events,
        link,
    }
}

#[tokio::test(start_paused = true)]
async fn a_health_check_that_hangs_delays_no_event() {
    let stage = stage().await;
    stage.fake.hangs.store(true, Ordering::Relaxed);
    // In the middle of the check of the first minute, which takes ten seconds to fail.
    sleep(Duration::from_secs(62)).await;
    let sent = Instant::now();
    stage.events.send(state(1)).expect("heard");
    sleep(Duration::from_secs(20)).await;
    let heard = stage.ears.vms.lock().expect("whole").clone();
    assert_eq!(heard.len(), 1);
    assert!(
        heard[0] - sent < Duration::from_secs(1),
        "{:?}",
        heard[0] - sent
    );
}

#[tokio::test(start_paused = true)]
async fn the_inventory_is_read_again_after_news() {
    let stage = stage().await;
    stage.fake.used.store(4, Ordering::Relaxed);
    stage.events.send(state(1)).expect("heard");
    sleep(Duration::from_secs(6)).await;
    let inventory = stage.link.view().inventory.expect("read");
    assert_eq!(inventory.hosts[0].cpus_used, 4);
    assert_eq!(stage.ears.inventories.lock().expect("whole").len(), 1);
    stage.events.send(state(2)).expect("heard");
    sleep(Duration::from_secs(6)).await;
    let told = stage.ears.inventories.lock().expect("whole").len();
    assert_eq!(told, 1, "what is as it was is not reported");
}
