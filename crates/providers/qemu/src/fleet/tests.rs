//! Calls on a fleet of hosts that are not real.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use polyvirt_contract::model::{
    CreateVm, Created, Host, Inventory, MigrateVm, Owner, Placement, PowerRequest, PowerState,
    VmRef, VmState,
};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{Capabilities, ErrorKind, Identity, Provider, ProviderError, TaskId, VmId};
use polyvirt_provider_kit::hub::Hub;
use polyvirt_provider_kit::uuid::Uuid;

use super::config::Link;
use super::*;

/// A host that has VMs in memory.
struct Fake {
    name: &'static str,
    memory_mib: u64,
    vms: Mutex<BTreeMap<VmId, VmState>>,
    hub: Hub,
    away: AtomicBool,
    /// The next VM is made, and nobody hears of it.
    mute: AtomicBool,
}

impl Fake {
    fn new(name: &'static str, memory_mib: u64) -> Arc<Self> {
        Arc::new(Self {
            name,
            memory_mib,
            vms: Mutex::default(),
            hub: Hub::new(),
            away: AtomicBool::new(false),
            mute: AtomicBool::new(false),
        })
    }

    fn answers(&self) -> Result<()> {
        if self.away.load(Ordering::Relaxed) {
            return Err(lost(self.name));
        }
        Ok(())
    }

    fn states(&self) -> Vec<VmState> {
        self.vms.lock().expect("whole").values().cloned().collect()
    }
}

fn lost(name: &str) -> ProviderError {
    ProviderError::new(ErrorKind::Unavailable, format!("{name} is away"))
}

#[async_trait]
impl Provider for Fake {
    async fn validate(&self) -> Result<()> {
        self.answers()
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        Ok(Capabilities::default())
    }

    async fn create(&self, request: CreateVm) -> Result<Created> {
        self.answers()?;
        let owner = request.owner.expect("all have one");
        let id = Uuid::of_identity(&owner.identity).vm_id();
        let state = VmState {
            id: id.clone(),
            name: request.name,
            owner: Some(owner),
            revision: 1,
            host: self.name.to_owned(),
            power: PowerState::On,
            memory_mib: request.class.memory_mib,
            ..VmState::default()
        };
        let mut vms = self.vms.lock().expect("whole");
        vms.entry(id.clone()).or_insert_with(|| state.clone());
        self.hub.publish(VmEvent::State(state));
        if self.mute.swap(false, Ordering::Relaxed) {
            return Err(lost(self.name));
        }
        let task = Some(TaskId::from("made"));
        Ok(Created { id, task })
    }

    async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>> {
        self.answers()?;
        self.vms.lock().expect("whole").remove(&vm.id);
        Ok(None)
    }

    async fn power(&self, _: &VmRef, _: PowerRequest) -> Result<Option<TaskId>> {
        self.answers().map(|()| None)
    }

    async fn reconfigure(&self, _: &VmRef, _: CreateVm) -> Result<Option<TaskId>> {
        self.answers().map(|()| None)
    }

    async fn describe(&self, vm: &VmId) -> Result<Option<VmState>> {
        self.answers()?;
        Ok(self.vms.lock().expect("whole").get(vm).cloned())
    }

    async fn task_status(&self, task: &TaskId) -> Result<TaskState> {
        assert_eq!(task.as_str(), "made", "the name that it has here");
        Ok(TaskState::Succeeded)
    }

    async fn list_vms(&self) -> Result<Vec<VmState>> {
        self.answers().map(|()| self.states())
    }

    async fn find(&self, identity: &Identity) -> Result<Option<VmState>> {
        self.describe(&Uuid::of_identity(identity).vm_id()).await
    }

    async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        self.answers()?;
        let states = self.states();
        Ok(self.hub.subscribe(move || states, CancellationToken::new()))
    }

    async fn inventory(&self) -> Result<Inventory> {
        self.answers()?;
        let host = Host {
            name: self.name.to_owned(),
            memory_mib: self.memory_mib,
            ..Host::default()
        };
        Ok(Inventory {
            hosts: vec![host],
            ..Inventory::default()
        })
    }
}

/// A fleet of both, which have told all that they have.
async fn fleet(a: &Arc<Fake>, b: &Arc<Fake>) -> Arc<Fleet> {
    let member = |place, fake: &Arc<Fake>| {
        Member::new(place, fake.clone(), fake.name.to_owned(), Link::Plain)
    };
    let fleet = Fleet::with(vec![member(0, a), member(1, b)]);
    fleet.told.all_whole().await;
    fleet
}

fn wanted(name: &str, host: &str) -> CreateVm {
    let mut request = CreateVm {
        owner: Some(Owner {
            identity: format!("identity of {name}").into(),
            namespace: "test".to_owned(),
            name: name.to_owned(),
        }),
        name: name.to_owned(),
        placement: Some(Placement {
            host: host.to_owned(),
            ..Placement::default()
        }),
        ..CreateVm::default()
    };
    request.class.memory_mib = 1024;
    request
}

#[tokio::test]
async fn a_vm_is_on_the_host_that_was_named_or_the_roomiest_and_on_one_only() {
    let (a, b) = (Fake::new("a", 4096), Fake::new("b", 2048));
    let fleet = fleet(&a, &b).await;
    let created = fleet.create(wanted("one", "b")).await.expect("made");
    let task = created.task.expect("a task");
    assert_eq!(fleet.task_status(&task).await, Ok(TaskState::Succeeded));
    fleet.create(wanted("two", "")).await.expect("made");
    assert_eq!((a.states().len(), b.states().len()), (1, 1));
    // Asked for again, it is where it is.
    fleet.create(wanted("one", "a")).await.expect("there");
    assert_eq!((a.states().len(), b.states().len()), (1, 1));
    let error = fleet.create(wanted("three", "c")).await.expect_err("no c");
    assert_eq!(error.kind, ErrorKind::Invalid);
    let mut names: Vec<_> = fleet.list_vms().await.expect("listed");
    names.sort_by(|x, y| x.host.cmp(&y.host));
    let hosts: Vec<_> = names.iter().map(|vm| vm.host.as_str()).collect();
    assert_eq!(hosts, ["a", "b"]);
}

#[tokio::test]
async fn an_answer_that_is_lost_does_not_make_a_second_vm() {
    let (a, b) = (Fake::new("a", 4096), Fake::new("b", 1 << 20));
    let fleet = fleet(&a, &b).await;
    a.mute.store(true, Ordering::Relaxed);
    let error = fleet.create(wanted("one", "a")).await.expect_err("lost");
    assert_eq!(error.kind, ErrorKind::Unavailable);
    fleet.create(wanted("one", "")).await.expect("there");
    assert_eq!((a.states().len(), b.states().len()), (1, 0));
}

#[tokio::test]
async fn a_host_that_is_away_has_vms_that_are_unknown_and_never_gone() {
    let (a, b) = (Fake::new("a", 4096), Fake::new("b", 2048));
    let fleet = fleet(&a, &b).await;
    let at_a = fleet.create(wanted("one", "a")).await.expect("made").id;
    let at_b = fleet.create(wanted("two", "b")).await.expect("made").id;
    while fleet.told.holder(&at_a).is_none() || fleet.told.holder(&at_b).is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    a.away.store(true, Ordering::Relaxed);
    let error = fleet.describe(&at_a).await.expect_err("away");
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(fleet.describe(&at_b).await.expect("answers").is_some());
    let powers = fleet.list_vms().await.expect("listed").into_iter();
    let powers: BTreeMap<_, _> = powers.map(|vm| (vm.host, vm.power)).collect();
    let expected = [("a", PowerState::Unknown), ("b", PowerState::On)];
    assert_eq!(
        powers,
        expected.map(|(host, p)| (host.to_owned(), p)).into()
    );
    // One that nobody has is absent, though a host is away: that has told all that it has.
    let nobody = VmId::from("0a1b2c3d-0000-4000-8000-00000000000f");
    assert_eq!(fleet.describe(&nobody).await, Ok(None));
    let hosts = fleet.inventory().await.expect("told").hosts;
    let down: Vec<_> = hosts
        .iter()
        .map(|host| format!("{:?}", host.health))
        .collect();
    assert_eq!(down, ["Down", "Ready"]);
}

#[tokio::test]
async fn a_key_does_not_go_over_a_link_that_everybody_can_read() {
    let (a, b) = (Fake::new("a", 4096), Fake::new("b", 2048));
    let fleet = fleet(&a, &b).await;
    let id = fleet.create(wanted("one", "a")).await.expect("made").id;
    let vm = VmRef { id, owner: None };
    let hidden = MigrateVm {
        encrypted: true,
        ..MigrateVm::default()
    };
    let error = fleet.migrate(&vm, hidden).await.expect_err("refused");
    assert_eq!(error.field.as_deref(), Some("encrypted"), "{error:?}");
    // Hosts that cannot hand VMs over say so, and nothing has happened.
    let error = fleet.migrate(&vm, MigrateVm::default()).await;
    assert_eq!(error.expect_err("refused").kind, ErrorKind::Unsupported);
    let strange = VmRef {
        owner: wanted("two", "").owner,
        ..vm
    };
    let error = fleet.migrate(&strange, MigrateVm::default()).await;
    assert_eq!(
        error.expect_err("not theirs").kind,
        ErrorKind::IdentityConflict
    );
}
