//! The floor: what the API server alone takes for the writes that the manager made. Same number, verbs, bodies and
//! concurrency, on objects that nobody looks at.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use polyvirt_api::infra::VirtualMachine;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::lab::{CREATES_AT_ONCE, Lab, create};
use super::objects::{self, NAMESPACE, SCRATCH};
use super::writes::Writes;

/// Passes of the manager in flight for one provider.
const PASSES_AT_ONCE: usize = 32;
/// Events of the manager in flight.
const EVENTS_AT_ONCE: usize = 4;
const FIELD_MANAGER: &str = "polyvirt";

/// What the manager wrote in total, and how it looks for one VM.
pub struct Shape {
    vms: usize,
    metadata_writes: usize,
    status_writes: usize,
    event_writes: usize,
    metadata: Value,
    statuses: Vec<Value>,
    events: Vec<Event>,
}

impl Shape {
    /// The shape of what was written for so many VMs, one of which was looked at closely.
    pub async fn of(
        lab: &Lab,
        vms: usize,
        writes: &Writes,
        sample: &str,
        statuses: Vec<Value>,
    ) -> anyhow::Result<Self> {
        let vm = lab.vms().get(sample).await?;
        Ok(Self {
            vms,
            metadata_writes: writes.of("virtualmachines"),
            status_writes: writes.of("virtualmachines/status"),
            event_writes: writes.events(),
            metadata: json!({"finalizers": vm.metadata.finalizers, "annotations": vm.metadata.annotations}),
            statuses,
            events: events_about(lab, sample).await?,
        })
    }

    /// How many of all writes of a kind fall to one VM, so that the sum over all VMs is right.
    const fn share(&self, total: usize, number: usize) -> usize {
        (number + 1) * total / self.vms - number * total / self.vms
    }
}

async fn events_about(lab: &Lab, vm: &str) -> anyhow::Result<Vec<Event>> {
    let api: Api<Event> = Api::namespaced(lab.client.clone(), NAMESPACE);
    let list = api
        .list(&ListParams::default().fields(&format!("involvedObject.name={vm}")))
        .await?;
    Ok(list
        .items
        .into_iter()
        .map(|event| Event {
            metadata: ObjectMeta::default(),
            ..event
        })
        .collect())
}

struct Run {
    shape: Shape,
    vms: Api<VirtualMachine>,
    events: Api<Event>,
}

/// Makes all the writes, and tells how long it took until the last status was written.
pub async fn measure(lab: &Lab, shape: Shape) -> anyhow::Result<Duration> {
    let (user, manager) = (lab.another_client()?, lab.another_client()?);
    let created = Api::namespaced(user, SCRATCH);
    let run = Arc::new(Run {
        vms: Api::namespaced(manager.clone(), SCRATCH),
        events: Api::namespaced(manager, SCRATCH),
        shape,
    });
    let begin = Instant::now();
    let (objects_in, objects_out) = mpsc::unbounded_channel();
    let (events_in, events_out) = mpsc::unbounded_channel();
    let writer = tokio::spawn(create_all(created, run.shape.vms, objects_in));
    let events = tokio::spawn(run.clone().send_events(events_out));
    run.clone().pass_over_all(objects_out, events_in).await?;
    let took = begin.elapsed();
    writer.await??;
    events.await??;
    Ok(took)
}

async fn create_all(
    api: Api<VirtualMachine>,
    vms: usize,
    created: mpsc::UnboundedSender<(usize, VirtualMachine)>,
) -> anyhow::Result<()> {
    let (api, created) = (&api, &created);
    let requests = stream::iter(0..vms).map(|number| async move {
        let vm = create(api, &objects::vm(SCRATCH, &objects::vm_name(number))).await?;
        created
            .send((number, vm))
            .context("Nobody waits for what is created")
    });
    requests
        .buffer_unordered(CREATES_AT_ONCE)
        .try_collect()
        .await
}

fn received<T: Send + 'static>(
    queue: mpsc::UnboundedReceiver<T>,
) -> impl futures::Stream<Item = T> {
    stream::unfold(queue, |mut queue| async move {
        queue.recv().await.map(|item| (item, queue))
    })
}

impl Run {
    async fn pass_over_all(
        self: Arc<Self>,
        created: mpsc::UnboundedReceiver<(usize, VirtualMachine)>,
        events: mpsc::UnboundedSender<Event>,
    ) -> anyhow::Result<()> {
        let passes = received(created).map(|(number, vm)| {
            let (run, events) = (self.clone(), events.clone());
            // A task each, as in the manager: on all processors.
            async move { tokio::spawn(async move { run.pass(number, vm, &events).await }).await? }
        });
        passes.buffer_unordered(PASSES_AT_ONCE).try_collect().await
    }

    async fn pass(
        &self,
        number: usize,
        mut vm: VirtualMachine,
        events: &mpsc::UnboundedSender<Event>,
    ) -> anyhow::Result<()> {
        let name = objects::vm_name(number);
        let shape = &self.shape;
        for _ in 0..shape.share(shape.metadata_writes, number) {
            let mut metadata = shape.metadata.clone();
            metadata["resourceVersion"] = json!(vm.metadata.resource_version);
            let patch = Patch::Merge(json!({"metadata": metadata}));
            vm = self
                .vms
                .patch(&name, &PatchParams::default(), &patch)
                .await?;
        }
        for turn in 0..shape.share(shape.status_writes, number) {
            let body = json!({
                "apiVersion": "infra.virtrigaud.io/v1beta1",
                "kind": "VirtualMachine",
                "metadata": {"name": name, "namespace": SCRATCH},
                "status": nth(&shape.statuses, turn),
            });
            self.vms
                .patch_status(
                    &name,
                    &PatchParams::apply(FIELD_MANAGER).force(),
                    &Patch::Apply(body),
                )
                .await?;
        }
        for turn in 0..shape.share(shape.event_writes, number) {
            let _ = events.send(event(nth(&shape.events, turn), &name, turn));
        }
        Ok(())
    }

    async fn send_events(
        self: Arc<Self>,
        queue: mpsc::UnboundedReceiver<Event>,
    ) -> anyhow::Result<()> {
        let sent = received(queue).map(|event| {
            let run = self.clone();
            async move {
                run.events
                    .create(&PostParams::default(), &event)
                    .await
                    .map(drop)
            }
        });
        Ok(sent.buffer_unordered(EVENTS_AT_ONCE).try_collect().await?)
    }
}

/// The nth of a sample, or its last where the manager wrote more often for other VMs.
fn nth<T: Clone + Default>(samples: &[T], turn: usize) -> T {
    samples
        .get(turn)
        .or(samples.last())
        .cloned()
        .unwrap_or_default()
}

fn event(mut event: Event, vm: &str, turn: usize) -> Event {
    event.metadata = ObjectMeta {
        name: Some(format!("{vm}.{turn:016x}")),
        namespace: Some(SCRATCH.to_owned()),
        ..ObjectMeta::default()
    };
    event.involved_object.namespace = Some(SCRATCH.to_owned());
    event.involved_object.name = Some(vm.to_owned());
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(vms: usize) -> Shape {
        Shape {
            vms,
            metadata_writes: 0,
            status_writes: 0,
            event_writes: 0,
            metadata: Value::Null,
            statuses: Vec::new(),
            events: Vec::new(),
        }
    }

    #[test]
    fn the_shares_add_up_to_the_total() {
        for total in [0, 7, 1000, 2345] {
            let sum: usize = (0..1000)
                .map(|number| shape(1000).share(total, number))
                .sum();
            assert_eq!(sum, total);
        }
    }

    #[test]
    fn a_sample_that_is_too_short_repeats_its_last() {
        assert_eq!(nth(&[1, 2], 0), 1);
        assert_eq!(nth(&[1, 2], 5), 2);
        assert_eq!(nth::<u8>(&[], 5), 0);
    }
}
