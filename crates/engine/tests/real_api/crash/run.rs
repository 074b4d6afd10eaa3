//! One run: several lives of the manager, then peace.

use std::sync::Arc;

use kube::api::{DeleteParams, PostParams, Preconditions};
use polyvirt_api::infra::VirtualMachine;
use polyvirt_contract::VmId;
use polyvirt_contract::model::{PowerState, VmState};
use polyvirt_provider_mock::{Happened, Mock};
use polyvirt_testkit::ControlPlane;
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use super::plan::{Chance, Way, Wish, faults, hypervisor};
use crate::support::fleet::Route;
use crate::support::life::Doomed;
use crate::support::look::ready;
use crate::support::shim::Shim;
use crate::support::wire::{Services, WireServer};
use crate::support::world::{HYPERVISOR, World};
use crate::support::{TEMPLATE, download, vm};

const PATIENCE: Duration = Duration::from_secs(90);

pub struct Run {
    pub seed: u64,
    plane: &'static ControlPlane,
    chance: Chance,
    world: World,
    mock: Arc<Mock>,
    wishes: Vec<Wish>,
    strangers: Vec<(VmId, Option<VmState>)>,
    image: &'static str,
    /// Ends with the run.
    _server: Option<WireServer>,
}

impl Run {
    /// Everything that must be there before the first life.
    pub async fn new(plane: &'static ControlPlane, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let world = World::empty_on(plane, "crash").await;
        let mock = world.furnish(hypervisor(&mut chance)).await;
        world.create(download("debian")).await;
        let way = chance.pick(&[Way::Direct, Way::LateAnswers, Way::Wire]);
        let server = route(&world, &mock, way);
        let count = 3 + chance.below(3);
        let wishes = (0..count).map(|n| Wish::new(n, &mut chance)).collect();
        let strangers = ["stranger", "another"].map(|name| {
            let id = mock.out_of_band().create_stranger(name).expect("created");
            let state = mock.vm(&id);
            (id, state)
        });
        Self {
            seed,
            plane,
            image: chance.pick(&[TEMPLATE, "debian"]),
            chance,
            world,
            mock,
            wishes,
            strangers: strangers.into(),
            _server: server,
        }
    }

    /// Several lives, then peace, then the reckoning.
    pub async fn to_its_end(mut self) -> Result<(), String> {
        for rule in faults(&mut self.chance) {
            self.mock.faults().parse(rule).expect("a rule");
        }
        for wish in self.wishes.clone() {
            self.declare(&wish).await;
        }
        for _ in 0..2 + self.chance.below(4) {
            self.one_life().await;
        }
        self.mock.faults().clear();
        let _last = self.born();
        self.peace().await?;
        self.reckoning()
    }

    fn born(&self) -> Doomed {
        Doomed::start(self.plane, self.world.config(), self.world.fleet.clone())
    }

    async fn one_life(&mut self) {
        let life = self.born();
        for _ in 0..self.chance.below(4) {
            sleep(self.chance.millis(0, 300)).await;
            self.somebody_changes_something().await;
        }
        sleep(self.chance.millis(20, 700)).await;
        life.kill();
    }

    async fn somebody_changes_something(&mut self) {
        let at = usize::try_from(self.chance.below(self.wishes.len() as u64)).unwrap_or(0);
        if self.wishes[at].deleted {
            return;
        }
        self.wishes[at].change(&mut self.chance);
        let wish = self.wishes[at].clone();
        if wish.deleted {
            self.delete(&wish.name).await;
        } else {
            self.edit(&wish).await;
        }
    }

    async fn declare(&self, wish: &Wish) {
        let manifest = vm(&wish.name).spec(wish.spec());
        let manifest = manifest.spec(json!({"imageRef": {"name": self.image}}));
        let object: VirtualMachine = serde_json::from_value(manifest.value).expect("a manifest");
        let api = self.world.api::<VirtualMachine>();
        insist(async || {
            match api.create(&PostParams::default(), &object).await {
                // The answer of an earlier attempt was lost.
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
                other => other.map(drop),
            }
        })
        .await;
    }

    async fn edit(&self, wish: &Wish) {
        let change = json!({"spec": wish.spec()});
        insist(async || {
            let edited = self
                .world
                .try_edit::<VirtualMachine>(&wish.name, change.clone());
            edited.await.map(drop)
        })
        .await;
    }

    async fn delete(&self, name: &str) {
        insist(async || match self.try_delete(name).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => other,
        })
        .await;
    }

    /// With the version, without which the API server may overlook a finalizer that was just added
    /// (kubernetes/kubernetes#77988). `deletion.rs` shows what happens then.
    async fn try_delete(&self, name: &str) -> Result<(), kube::Error> {
        let api = self.world.api::<VirtualMachine>();
        let seen = api.get(name).await?;
        let only_so = Preconditions {
            resource_version: seen.metadata.resource_version,
            uid: seen.metadata.uid,
        };
        let params = DeleteParams::default().preconditions(only_so);
        api.delete(name, &params).await.map(drop)
    }

    /// Waits until every object is as it should be.
    async fn peace(&self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        for wish in &self.wishes {
            while !self.fulfilled(wish).await {
                if Instant::now() > deadline {
                    let object = self.world.api::<VirtualMachine>().get_opt(&wish.name).await;
                    let text = serde_json::to_string_pretty(&object.ok().flatten());
                    let there = self.mock.vms();
                    let text = text.unwrap_or_default();
                    return Err(format!("{wish:?} is not fulfilled: {text}\n{there:#?}"));
                }
                sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    async fn fulfilled(&self, wish: &Wish) -> bool {
        match self.world.api::<VirtualMachine>().get_opt(&wish.name).await {
            Ok(None) => wish.deleted,
            Ok(Some(vm)) => !wish.deleted && ready(&vm) && self.is_there(wish).is_ok(),
            Err(_) => false,
        }
    }

    /// The hypervisor has what is declared, nothing else, and nobody else's VM was touched.
    fn reckoning(&self) -> Result<(), String> {
        for wish in self.wishes.iter().filter(|wish| !wish.deleted) {
            self.is_there(wish)?;
        }
        let wanted = self.wishes.iter().filter(|wish| !wish.deleted).count();
        let there = self.mock.vms();
        if there.len() != wanted + self.strangers.len() {
            let wishes = &self.wishes;
            return Err(format!("{wishes:#?} are wanted, and there is {there:#?}"));
        }
        for (id, before) in &self.strangers {
            if self.mock.vm(id) != *before {
                return Err(format!(
                    "The stranger {id} was touched: {:?}",
                    self.mock.vm(id)
                ));
            }
        }
        let journal = self.mock.journal();
        let created = journal
            .iter()
            .filter(|e| e.what == Happened::Created)
            .count();
        if created > self.wishes.len() {
            return Err(format!("{created} were created: {journal:#?}"));
        }
        Ok(())
    }

    fn is_there(&self, wish: &Wish) -> Result<(), String> {
        let vms = self.mock.vms();
        let ours: Vec<_> = vms.iter().filter(|vm| vm.name == wish.name).collect();
        let [vm] = ours.as_slice() else {
            return Err(format!(
                "{} is there {} times: {vms:#?}",
                wish.name,
                ours.len()
            ));
        };
        let power = if wish.power == "On" {
            PowerState::On
        } else {
            PowerState::Off
        };
        let disks = vm
            .disks
            .iter()
            .flatten()
            .map(|d| (d.name.as_str(), d.size_gib));
        let same_disks = disks.collect::<Vec<_>>() == wish.disks;
        let owned = vm
            .owner
            .as_ref()
            .is_some_and(|owner| owner.name == wish.name);
        if (vm.cpu, vm.power) == (wish.cpu, power) && same_disks && owned {
            return Ok(());
        }
        Err(format!("{wish:?} became {vm:#?}"))
    }
}

fn route(world: &World, mock: &Arc<Mock>, way: Way) -> Option<WireServer> {
    let direct = |provider| world.fleet.put(HYPERVISOR, Route::Direct(provider));
    match way {
        Way::Direct => direct(mock.clone()),
        Way::LateAnswers => direct(Shim::new(mock.clone(), Duration::from_millis(80))),
        Way::Wire => {
            let server = WireServer::start(mock.clone(), Services::Both);
            let address = server.address.to_string();
            world.fleet.put(HYPERVISOR, Route::Wire(address));
            return Some(server);
        }
    }
    None
}

/// Until the API server, which may be away, has taken it.
async fn insist(attempt: impl AsyncFn() -> Result<(), kube::Error>) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = attempt().await {
        assert!(
            Instant::now() < deadline,
            "the API server never took it: {error}"
        );
        sleep(Duration::from_millis(100)).await;
    }
}
