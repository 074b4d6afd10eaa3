//! Writing is rare: the audit log of the API server and the counters of the mock tell.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use polyvirt_api::infra::{Provider, VMClass, VMImage, VirtualMachine};
use polyvirt_provider_mock::{Mock, MockConfig, Rpc, TaskMode, Times};
use polyvirt_testkit::ControlPlane;
use polyvirt_testkit::audit::{self, Entry};

use crate::support::look::runs;
use crate::support::world::{Object, World};
use crate::support::{plane, vm};

const VMS: usize = 50;
/// Counts of users are written three seconds after the last change.
const QUIET: Duration = Duration::from_secs(5);

/// A world whose every request is written down.
struct Watched {
    world: World,
    mock: std::sync::Arc<Mock>,
    log: PathBuf,
}

impl Watched {
    async fn new(plane: &ControlPlane, log: &Path, config: MockConfig) -> Self {
        let mut world = World::empty_on(plane, "at-rest").await;
        let mock = world.furnish(config).await;
        world.start().await;
        Self {
            world,
            mock,
            log: log.to_owned(),
        }
    }

    /// Everything that was written in our namespace so far.
    fn writes(&self) -> Vec<Entry> {
        let entries = audit::read(&self.log).expect("an audit log");
        let ours = |entry: &Entry| entry.is_write() && entry.namespace == self.world.namespace;
        entries.into_iter().filter(ours).collect()
    }

    async fn versions(&self) -> BTreeMap<String, Option<String>> {
        let mut all = BTreeMap::new();
        all.extend(versions::<VirtualMachine>(&self.world).await);
        all.extend(versions::<Provider>(&self.world).await);
        all.extend(versions::<VMClass>(&self.world).await);
        all.extend(versions::<VMImage>(&self.world).await);
        all
    }
}

async fn versions<K: Object>(world: &World) -> BTreeMap<String, Option<String>> {
    let objects: Vec<K> = world.list().await;
    let version = |object: &K| {
        let meta = object.meta();
        let name = format!(
            "{} {}",
            K::kind(&()),
            meta.name.as_deref().unwrap_or_default()
        );
        (name, meta.resource_version.clone())
    };
    objects.iter().map(version).collect()
}

#[tokio::test]
async fn work_costs_few_writes_and_rest_and_restart_cost_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("audit.log");
    let plane = plane::own(ControlPlane::builder().ephemeral().audit_log(&log)).await;
    let mut watched = Watched::new(&plane, &log, MockConfig::default()).await;
    creation_costs_at_most(&watched, 2).await;
    at_rest_nothing_is_written_and_nobody_is_asked(&watched).await;
    after_a_restart_nothing_is_written_and_nothing_is_changed(&mut watched).await;
}

#[tokio::test]
async fn with_tasks_a_creation_costs_one_write_and_one_event_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("audit.log");
    let plane = plane::own(ControlPlane::builder().ephemeral().audit_log(&log)).await;
    let config = MockConfig {
        tasks: TaskMode::Async,
        times: Times {
            create: Duration::from_secs(2),
            ..Times::default()
        },
        ..MockConfig::default()
    };
    let watched = Watched::new(&plane, &log, config).await;
    creation_costs_at_most(&watched, 3).await;
}

/// As many writes of the object as events, from its creation until it runs and nothing moves.
async fn creation_costs_at_most(watched: &Watched, budget: usize) {
    for number in 0..VMS {
        watched.world.create(vm(&format!("vm-{number}"))).await;
    }
    for number in 0..VMS {
        watched
            .world
            .vm(&format!("vm-{number}"), "runs", runs)
            .await;
    }
    watched.world.at_rest(&watched.mock).await;
    let writes = watched.writes();
    let ours =
        |entry: &&Entry| entry.resource.starts_with("virtualmachines") && entry.verb == "patch";
    let mut each = BTreeMap::<&str, usize>::new();
    for entry in writes.iter().filter(ours) {
        *each.entry(&entry.name).or_default() += 1;
    }
    assert_eq!(each.len(), VMS);
    let most = each.values().max().copied().unwrap_or_default();
    assert!(most <= budget, "{most} writes for one VM: {each:?}");
    let events = writes.iter().filter(|entry| entry.resource == "events");
    let events = events.filter(|entry| entry.code < 400).count();
    // The shared objects have a few of their own.
    assert!(events <= VMS * budget + 5, "{events} events for {VMS} VMs");
    let others = writes.iter().filter(|entry| {
        ["providers", "vmclasses", "vmimages"]
            .iter()
            .any(|kind| entry.resource.starts_with(kind))
    });
    let others = others.filter(|entry| entry.verb != "create").count();
    assert!(others <= 12, "{others} writes of shared objects");
    let refused: Vec<_> = writes.iter().filter(|entry| entry.code >= 400).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    assert_eq!(watched.mock.counts().of(Rpc::Create).calls, VMS as u64);
    assert_eq!(watched.mock.counts().of(Rpc::Power).calls, VMS as u64);
}

async fn at_rest_nothing_is_written_and_nobody_is_asked(watched: &Watched) {
    let (before, passes) = (watched.writes().len(), watched.world.passes());
    watched.mock.reset_counts();
    let begin = Instant::now();
    tokio::time::sleep(QUIET).await;
    let after = watched.writes();
    assert_eq!(before, after.len(), "{:#?}", &after[before..]);
    assert_eq!(passes, watched.world.passes(), "nobody is looked at");
    let counts = watched.mock.counts();
    // Some health checks read the inventory instead.
    let health = counts.of(Rpc::Validate).calls + counts.of(Rpc::Inventory).calls;
    assert_eq!(counts.calls(), health, "{counts:?}");
    let most = 2 + begin.elapsed().as_secs();
    assert!(
        counts.calls() <= most,
        "one health check a second: {counts:?}"
    );
}

async fn after_a_restart_nothing_is_written_and_nothing_is_changed(watched: &mut Watched) {
    watched.world.stop().await;
    watched.mock.reset_counts();
    let (writes, versions) = (watched.writes().len(), watched.versions().await);
    watched.world.start().await;
    watched.world.at_rest(&watched.mock).await;
    assert_eq!(watched.versions().await, versions);
    let after = watched.writes();
    assert_eq!(writes, after.len(), "{:#?}", &after[writes..]);
    let counts = watched.mock.counts();
    assert_eq!(counts.mutations(), 0, "{counts:?}");
    for rpc in [Rpc::Describe, Rpc::Find, Rpc::ListVMs, Rpc::TaskStatus] {
        assert_eq!(
            counts.of(rpc).calls,
            0,
            "the stream tells it all: {counts:?}"
        );
    }
}
