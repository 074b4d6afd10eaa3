//! When those who are concerned are woken.

use std::sync::Arc;

use polyvirt_api::infra::VirtualMachine;
use serde_json::json;
use tokio::time::Instant;

use super::{Dispatcher, Source, USAGE_DELAY};
use crate::context::Stores;
use crate::runtime::key::{Kind, ObjectKey};
use crate::runtime::queue::Queue;
use crate::runtime::store::Change;

fn vm(name: &str) -> Arc<VirtualMachine> {
    let object = json!({
        "apiVersion": "infra.virtrigaud.io/v1beta1",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "namespace": "lab", "uid": name},
        "spec": {"providerRef": {"name": "prov"}},
    });
    Arc::new(serde_json::from_value(object).expect("a VM"))
}

/// When the Provider is looked at after this VM has appeared.
async fn looked_at(dispatcher: &Dispatcher, queue: &Queue, name: &str) -> std::time::Duration {
    let begin = Instant::now();
    dispatcher.vm_changed(&Change::Added(vm(name)), Source::Watch);
    loop {
        let ticket = queue.pop().await;
        if ticket.key.kind == Kind::Provider {
            assert_eq!(ticket.key.object, ObjectKey::new("lab", "prov"));
            return begin.elapsed();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_user_is_known_at_once_and_the_others_are_counted_later() {
    let queue = Queue::new(4);
    let dispatcher = Dispatcher::new(Arc::new(Stores::default()), queue.clone());
    let first = looked_at(&dispatcher, &queue, "a").await;
    assert!(first < USAGE_DELAY, "{first:?}");
    let second = looked_at(&dispatcher, &queue, "b").await;
    assert!(second >= USAGE_DELAY, "{second:?}");
}
