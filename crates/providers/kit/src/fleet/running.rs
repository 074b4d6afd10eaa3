//! Moves of this life: how far they are, and how to stop them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::uuid::Uuid;
use polyvirt_contract::model::{MigrationPhase, MigrationProgress};
use polyvirt_contract::{RequestId, TaskId};
use tokio_util::sync::CancellationToken;

/// Moves that are remembered.
const REMEMBERED: usize = 256;

/// A move of this life.
#[derive(Debug)]
pub struct Running {
    /// The VM.
    pub vm: Uuid,
    /// Who asked for it.
    pub request: Option<RequestId>,
    /// Cancelled to stop the move.
    pub stop: CancellationToken,
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    progress: MigrationProgress,
    stage: Stage,
}

/// How much of a move can still be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The guest is at the source.
    Open,
    /// The guest may be at the target.
    Closed,
    /// It is over.
    Over,
}

impl Running {
    /// One that begins, from the first host to the second.
    pub fn new(vm: Uuid, request: Option<RequestId>, hosts: (String, String)) -> Arc<Self> {
        let (source_host, target_host) = hosts;
        Arc::new(Self {
            vm,
            request,
            stop: CancellationToken::new(),
            inside: Mutex::new(Inside {
                progress: MigrationProgress {
                    source_host,
                    target_host,
                    ..MigrationProgress::default()
                },
                stage: Stage::Open,
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far it is.
    pub fn progress(&self) -> MigrationProgress {
        self.lock().progress.clone()
    }

    /// Changes what is told of it.
    pub fn tell(&self, change: impl FnOnce(&mut MigrationProgress)) {
        change(&mut self.lock().progress);
    }

    /// From here on nothing can be taken back, unless somebody has stopped it before.
    pub fn close(&self) {
        let mut inside = self.lock();
        inside.stage = Stage::Closed;
        inside.progress.phase = MigrationPhase::Finishing;
    }

    /// It is over, however it went.
    pub fn end(&self) {
        self.lock().stage = Stage::Over;
    }

    /// How much of it can still be taken back.
    pub fn stage(&self) -> Stage {
        self.lock().stage
    }
}

/// Moves of this life, the last ones at the end.
#[derive(Debug, Default)]
pub struct Moves(Mutex<VecDeque<(TaskId, Arc<Running>)>>);

impl Moves {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(TaskId, Arc<Running>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a move that begins, and the oldest that are over no longer.
    pub fn remember(&self, task: TaskId, running: Arc<Running>) {
        let mut moves = self.lock();
        let over = moves.iter().position(|(_, m)| m.stage() == Stage::Over);
        if let Some(oldest) = over.filter(|_| moves.len() >= REMEMBERED) {
            moves.remove(oldest);
        }
        moves.push_back((task, running));
    }

    /// The move of this task.
    pub fn of_task(&self, task: &TaskId) -> Option<Arc<Running>> {
        let moves = self.lock();
        let found = moves.iter().find(|(id, _)| id == task);
        found.map(|(_, running)| running.clone())
    }

    /// The move of a VM that is not over.
    pub fn of_vm(&self, vm: Uuid) -> Option<Arc<Running>> {
        let moves = self.lock();
        let goes_on = |m: &Arc<Running>| m.vm == vm && m.stage() != Stage::Over;
        let found = moves.iter().find(|(_, running)| goes_on(running));
        found.map(|(_, running)| running.clone())
    }
}
