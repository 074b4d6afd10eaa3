//! How far moves are, by the tasks that were answered for them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use polyvirt_contract::TaskId;
use polyvirt_contract::model::MigrationProgress;

/// Moves that are remembered.
const REMEMBERED: usize = 1024;

/// How far moves are.
#[derive(Default)]
pub(crate) struct Moves(Mutex<Inside>);

#[derive(Default)]
struct Inside {
    of_task: HashMap<TaskId, String>,
    progress: HashMap<String, MigrationProgress>,
}

impl Moves {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task that stands for a move.
    pub(crate) fn remember(&self, task: &TaskId, place: &str) {
        let mut inside = self.lock();
        if inside.of_task.len() >= REMEMBERED {
            inside.of_task.clear();
            inside.progress.clear();
        }
        inside.of_task.insert(task.clone(), place.to_owned());
    }

    /// How far a move is now.
    pub(crate) fn tell(&self, place: &str, progress: MigrationProgress) {
        self.lock().progress.insert(place.to_owned(), progress);
    }

    /// `None` if no move has this task.
    pub(crate) fn progress(&self, task: &TaskId) -> Option<MigrationProgress> {
        let inside = self.lock();
        let place = inside.of_task.get(task)?;
        Some(inside.progress.get(place).cloned().unwrap_or_default())
    }
}
