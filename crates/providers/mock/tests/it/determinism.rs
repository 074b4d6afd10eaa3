//! The same seed and the same calls give the same history, on an executor of a few lines.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use polyvirt_contract::Provider;
use polyvirt_contract::model::{PowerOp, VmRef, VmState};
use polyvirt_provider_mock::{Counts, LogEntry, Mock, MockConfig};

use crate::common::{SECOND, async_config, owner, request};

/// Polls all futures in turn, turning the clock whenever nobody can go on.
fn drive(mock: &Mock, mut futures: Vec<Pin<Box<dyn Future<Output = ()> + '_>>>) {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..10_000 {
        futures.retain_mut(|future| future.as_mut().poll(&mut context) == Poll::Pending);
        if futures.is_empty() {
            return;
        }
        let now = mock.now();
        let next = mock
            .next_due()
            .map_or(SECOND, |due| due.saturating_sub(now));
        mock.advance(next);
    }
    panic!("{} futures never ended", futures.len());
}

/// Retries until the VM runs, as a manager would.
async fn until_running(mock: &Mock, name: &str) {
    loop {
        let Ok(created) = mock.create(request(name)).await else {
            continue;
        };
        let vm = VmRef {
            id: created.id,
            owner: Some(owner(name)),
        };
        let _ = mock.power(&vm, PowerOp::On.into()).await;
        if let Ok(Some(state)) = mock.describe(&vm.id).await
            && !state.ips.is_empty()
        {
            return;
        }
    }
}

fn run(seed: u64) -> (Vec<LogEntry>, Vec<VmState>, Counts) {
    let faults =
        "fail=*:Unavailable:20% lose=Create:30% drop=Power:20% latency=10ms..900ms crash=Create:5%";
    let mock = Mock::new(MockConfig {
        seed,
        ..async_config()
    });
    mock.faults().parse(faults).expect("readable");
    let futures = (0..20).map(|number| {
        let mock = &mock;
        let future: Pin<Box<dyn Future<Output = ()>>> =
            Box::pin(async move { until_running(mock, &format!("vm{number}")).await });
        future
    });
    drive(&mock, futures.collect());
    (mock.journal(), mock.vms(), mock.counts())
}

#[test]
fn one_seed_is_one_history() {
    let first = run(1);
    assert_eq!(first, run(1));
    assert_ne!(first.0, run(2).0);
    assert_eq!(first.1.len(), 20);
    assert!(first.1.iter().all(|vm| vm.details["boots"] == "1"));
}
