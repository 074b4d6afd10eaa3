//! The watch stream.

use crate::ids::Identity;
use crate::watch::{TaskState, VmEvent};
use crate::wire::ext::{self, task_change::State, vm_event::Event};

use super::operations::percent;

impl From<VmEvent> for ext::VmEvent {
    fn from(event: VmEvent) -> Self {
        let event = match event {
            VmEvent::State(vm) => Event::State(vm.into()),
            VmEvent::Gone {
                id,
                identity,
                revision,
            } => Event::Gone(ext::Gone {
                id: id.to_string(),
                identity: identity.map(|i| i.to_string()).unwrap_or_default(),
                revision,
            }),
            VmEvent::Synced => Event::Synced(ext::Synced {}),
            VmEvent::Task { id, state } => Event::Task(ext::TaskChange {
                id: id.to_string(),
                state: Some(state.into()),
            }),
            VmEvent::Heartbeat => Event::Heartbeat(ext::Heartbeat {}),
        };
        Self { event: Some(event) }
    }
}

/// `None` for an event of a newer peer.
impl From<ext::VmEvent> for Option<VmEvent> {
    fn from(event: ext::VmEvent) -> Self {
        Some(match event.event? {
            Event::State(vm) => VmEvent::State(vm.into()),
            Event::Gone(gone) => VmEvent::Gone {
                id: gone.id.into(),
                identity: Identity::non_empty(gone.identity),
                revision: gone.revision,
            },
            Event::Synced(_) => VmEvent::Synced,
            Event::Task(task) => VmEvent::Task {
                id: task.id.into(),
                state: task.state?.into(),
            },
            Event::Heartbeat(_) => VmEvent::Heartbeat,
        })
    }
}

impl From<TaskState> for State {
    fn from(state: TaskState) -> Self {
        match state {
            TaskState::Running { percent } => Self::Running(ext::TaskRunning {
                percent: percent.map(u32::from),
            }),
            TaskState::Succeeded => Self::Succeeded(ext::TaskSucceeded {}),
            TaskState::Failed(error) => Self::Failed(error.into()),
        }
    }
}

impl From<State> for TaskState {
    fn from(state: State) -> Self {
        match state {
            State::Running(running) => Self::Running {
                percent: running.percent.map(percent),
            },
            State::Succeeded(_) => Self::Succeeded,
            State::Failed(failure) => Self::Failed(failure.into()),
        }
    }
}
