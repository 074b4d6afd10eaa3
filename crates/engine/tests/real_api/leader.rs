//! Several managers, of which one works.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use polyvirt_engine::leader::{Elector, Terms};
use polyvirt_testkit::ControlPlane;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::support::world::eventually;
use crate::support::{World, plane};

const LEASE: &str = "manager";

/// The usual ones, five times as fast.
const QUICK: Terms = Terms {
    duration: Duration::from_secs(3),
    work_within: Duration::from_secs(2),
    renew_every: Duration::from_millis(800),
    retry: Duration::from_millis(200),
};

/// How many work now, and how many ever did at once.
#[derive(Default)]
struct Workers {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// Works while it lives.
struct Work(Arc<Workers>);

impl Work {
    fn begin(workers: &Arc<Workers>) -> Self {
        let now = workers.now.fetch_add(1, Ordering::SeqCst) + 1;
        workers.most.fetch_max(now, Ordering::SeqCst);
        Self(workers.clone())
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

fn elector(world: &World, name: &str) -> Elector {
    Elector::new(world.client.clone(), &world.namespace, LEASE, name, QUICK)
}

/// Stands for leadership and works until it is told to stop. `false` if it lost the Lease.
fn candidate(
    elector: Elector,
    workers: &Arc<Workers>,
    stop: oneshot::Receiver<()>,
) -> JoinHandle<bool> {
    let workers = workers.clone();
    tokio::spawn(async move {
        let term = elector.acquire().await;
        let work = async {
            let _work = Work::begin(&workers);
            let _ = stop.await;
        };
        term.lead(work).await.is_ok()
    })
}

async fn holder(world: &World) -> String {
    let lease: Option<Lease> = world.api().get_opt(LEASE).await.expect("an answer");
    let spec = lease.and_then(|lease| lease.spec);
    spec.and_then(|s| s.holder_identity).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_works_and_when_it_stops_the_next_begins_at_once() {
    let world = World::empty("handover").await;
    let workers = Arc::new(Workers::default());
    let (stop_first, first) = oneshot::channel();
    let first = candidate(elector(&world, "first"), &workers, first);
    eventually("the first works", || {
        workers.now.load(Ordering::SeqCst) == 1
    })
    .await;
    let (_stop, second) = oneshot::channel();
    let _second = candidate(elector(&world, "second"), &workers, second);
    sleep(2 * QUICK.duration).await;
    assert_eq!(holder(&world).await, "first", "it renews");
    stop_first.send(()).expect("it listens");
    assert!(first.await.expect("it ended"));
    let freed = Instant::now();
    eventually("the second works", || {
        workers.now.load(Ordering::SeqCst) == 1
    })
    .await;
    assert!(freed.elapsed() < QUICK.work_within, "{:?}", freed.elapsed());
    assert_eq!(holder(&world).await, "second");
    assert_eq!(workers.most.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_dies_is_replaced_when_its_time_is_over() {
    let world = World::empty("death").await;
    let workers = Arc::new(Workers::default());
    let (_stop, first) = oneshot::channel();
    let first = candidate(elector(&world, "first"), &workers, first);
    eventually("the first works", || {
        workers.now.load(Ordering::SeqCst) == 1
    })
    .await;
    let (_stop, second) = oneshot::channel();
    let _second = candidate(elector(&world, "second"), &workers, second);
    first.abort();
    eventually("nobody works", || workers.now.load(Ordering::SeqCst) == 0).await;
    assert_eq!(holder(&world).await, "first", "it gave nothing up");
    eventually("the second works", || {
        workers.now.load(Ordering::SeqCst) == 1
    })
    .await;
    assert_eq!(holder(&world).await, "second");
    assert_eq!(workers.most.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_cut_off_stops_before_another_begins() {
    let plane = plane::own(ControlPlane::builder().ephemeral()).await;
    let world = World::empty_on(&plane, "cut-off").await;
    let workers = Arc::new(Workers::default());
    let (_stop, first) = oneshot::channel();
    let first = candidate(elector(&world, "first"), &workers, first);
    eventually("the first works", || {
        workers.now.load(Ordering::SeqCst) == 1
    })
    .await;
    let (_stop, second) = oneshot::channel();
    let _second = candidate(elector(&world, "second"), &workers, second);
    plane.kill_apiserver().expect("killed");
    assert!(!first.await.expect("it ended"), "it knows that it lost");
    assert_eq!(workers.now.load(Ordering::SeqCst), 0);
    plane.restart_apiserver().await.expect("it is back");
    eventually("the second works", || {
        workers.now.load(Ordering::SeqCst) == 1
    })
    .await;
    assert_eq!(holder(&world).await, "second");
    assert_eq!(workers.most.load(Ordering::SeqCst), 1);
}
