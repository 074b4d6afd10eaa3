//! How long a guest stands still in a move, by the moments at which its two hosts tell that it was stopped and that it goes on.
//! libvirt's own figure ends later, when it has asked the new QEMU all that it wanted to: 20 to 160 ms too much were seen.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use polyvirt_provider_kit::uuid::Uuid;
use tokio::sync::Notify;

use crate::rpc::{OnEvent, Turn};

/// One move of one guest.
pub(super) struct Stopwatch {
    vm: Uuid,
    moments: Mutex<Moments>,
    begins: Notify,
}

#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    begun: bool,
    stopped: Option<Instant>,
    resumed: Option<Instant>,
}

impl Moments {
    /// What is heard after the guest goes on belongs to the end of the move.
    fn stop(&mut self, now: Instant) {
        if self.resumed.is_none() {
            self.stopped = Some(now);
        }
    }

    fn resume(&mut self, now: Instant) {
        if self.stopped.is_some() {
            self.resumed.get_or_insert(now);
        }
    }

    fn between(&self) -> Option<Duration> {
        Some(self.resumed?.saturating_duration_since(self.stopped?))
    }
}

impl Stopwatch {
    pub(super) fn of(vm: Uuid) -> Arc<Self> {
        Arc::new(Self {
            vm,
            moments: Mutex::default(),
            begins: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Moments> {
        self.moments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens at the source, where memory is passed over and the guest is stopped.
    pub(super) fn at_source(self: &Arc<Self>) -> OnEvent {
        self.on(|watch, turn| match turn {
            Some(Turn::Suspended) => watch.lock().stop(Instant::now()),
            Some(_) => {}
            None => watch.passes(),
        })
    }

    /// Listens at the target, where it goes on.
    pub(super) fn at_target(self: &Arc<Self>) -> OnEvent {
        self.on(|watch, turn| {
            if turn == Some(Turn::Resumed) {
                watch.lock().resume(Instant::now());
            }
        })
    }

    fn on(self: &Arc<Self>, note: fn(&Self, Option<Turn>)) -> OnEvent {
        let watch = self.clone();
        Arc::new(move |event| {
            if event.domain == watch.vm {
                note(&watch, event.turn);
            }
        })
    }

    /// A pass begins. Nobody is woken for later ones: the last is begun when the guest is about to be stopped.
    fn passes(&self) {
        let begun = std::mem::replace(&mut self.lock().begun, true);
        if !begun {
            self.begins.notify_one();
        }
    }

    /// Resolves once, when memory begins to move.
    pub(super) async fn memory_begins(&self) {
        self.begins.notified().await;
    }

    /// For how long the guest stands still, if it does.
    pub(super) fn stands_still(&self) -> Option<Duration> {
        let moments = self.lock();
        let stopped = moments.stopped.filter(|_| moments.resumed.is_none());
        stopped.map(|at| at.elapsed())
    }

    /// How long it stood still, if both moments were heard of.
    pub(super) fn stood_still(&self) -> Option<Duration> {
        self.lock().between()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::Event;

    fn event(vm: Uuid, turn: Turn) -> Event {
        Event {
            procedure: 318,
            domain: vm,
            turn: Some(turn),
        }
    }

    #[test]
    fn only_the_guest_that_moves_is_measured_from_its_last_stop_to_where_it_goes_on() {
        let (vm, other) = (Uuid::from_bytes([1; 16]), Uuid::from_bytes([2; 16]));
        let watch = Stopwatch::of(vm);
        let (source, target) = (watch.at_source(), watch.at_target());
        target(event(vm, Turn::Resumed));
        assert_eq!(watch.stood_still(), None, "it was not stopped yet");
        source(event(other, Turn::Suspended));
        target(event(vm, Turn::Resumed));
        assert_eq!(watch.stood_still(), None, "another was");
        source(event(vm, Turn::Resumed));
        source(event(vm, Turn::Suspended));
        assert!(watch.stands_still().is_some());
        std::thread::sleep(Duration::from_millis(20));
        target(event(vm, Turn::Resumed));
        let stood = watch.stood_still().expect("measured");
        assert!(stood >= Duration::from_millis(20), "{stood:?}");
        assert_eq!(watch.stands_still(), None);
        source(event(vm, Turn::Suspended));
        target(event(vm, Turn::Resumed));
        assert_eq!(watch.stood_still(), Some(stood), "that was the end of it");
    }

    #[tokio::test]
    async fn the_first_pass_over_the_memory_is_told_and_no_other() {
        let vm = Uuid::from_bytes([1; 16]);
        let watch = Stopwatch::of(vm);
        let pass = Event {
            turn: None,
            ..event(vm, Turn::Other)
        };
        let source = watch.at_source();
        source(pass.clone());
        watch.memory_begins().await;
        source(pass);
        let again = tokio::time::timeout(Duration::from_millis(20), watch.memory_begins());
        again.await.expect_err("it has begun before");
    }
}
