//! Between the messages and the model. A reader refuses what it cannot understand, and names the field.

mod capabilities;
mod create;
mod error;
mod event;
mod guest;
mod handover;
mod identity;
mod image;
mod inventory;
mod migration;
mod operations;
mod staging;
mod state;
mod usage;

use crate::ids::TaskId;

use super::v1;

pub use create::{reconfigure_request, reconfigured};
pub(crate) use error::{failure, kind_of_word};
pub(crate) use handover::handover;
pub(crate) use identity::{Reuse, hosts};

/// A task on the wire; finished work has none.
pub(crate) fn task_ref(task: Option<TaskId>) -> Option<v1::TaskRef> {
    task.map(|id| v1::TaskRef {
        id: id.as_str().to_owned(),
    })
}

/// A task off the wire, where an empty id is as good as none.
pub(crate) fn task_id(task: Option<v1::TaskRef>) -> Option<TaskId> {
    task.and_then(|task| TaskId::non_empty(task.id))
}
