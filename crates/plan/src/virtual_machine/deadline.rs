//! How long a task of a provider is waited for.

use std::time::Duration;

use jiff::Timestamp;
use polyvirt_contract::{ErrorKind, ProviderError};

use super::facts::{Operation, OperationKind};
use super::next::remaining;

/// How long a task may run before it is no longer waited for. Copies of disks take hours; nothing else does.
const fn task_deadline(kind: OperationKind) -> Duration {
    const HOUR: u64 = 60 * 60;
    match kind {
        OperationKind::Create | OperationKind::Reconfigure | OperationKind::Revert => {
            Duration::from_secs(6 * HOUR)
        }
        OperationKind::PowerOn
        | OperationKind::PowerOff
        | OperationKind::GracefulStop
        | OperationKind::Reboot
        | OperationKind::Pause
        | OperationKind::Delete => Duration::from_secs(HOUR),
    }
}

/// The error of an operation whose task has run longer than any such task can; `None` while it may run.
pub fn overdue_task(operation: &Operation, now: Timestamp) -> Option<ProviderError> {
    let task = operation.task.as_ref()?;
    let limit = task_deadline(operation.kind);
    if remaining(now, operation.since, limit).is_some() {
        return None;
    }
    let text = format!(
        "Task {task} ({:?}) did not end within {}h and is no longer waited for; the VM is inspected before the next step. Check the task on the hypervisor",
        operation.kind,
        limit.as_secs() / 3600
    );
    Some(ProviderError::new(ErrorKind::Timeout, text))
}

#[cfg(test)]
mod tests {
    use polyvirt_contract::TaskId;

    use super::*;

    fn operation(kind: OperationKind) -> Operation {
        Operation {
            kind,
            task: Some(TaskId::from("task-7")),
            since: Timestamp::UNIX_EPOCH,
            attempt: 0,
        }
    }

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(hours * 3600 + 1).expect("a time")
    }

    #[test]
    fn a_task_that_never_ends_has_a_deadline() {
        assert_eq!(overdue_task(&operation(OperationKind::Delete), at(0)), None);
        let error = overdue_task(&operation(OperationKind::Delete), at(1)).expect("overdue");
        assert_eq!(error.kind, ErrorKind::Timeout);
        assert!(error.message.contains("task-7 (Delete)"), "{error}");
    }

    #[test]
    fn copies_of_disks_may_take_hours() {
        assert_eq!(overdue_task(&operation(OperationKind::Create), at(5)), None);
        assert!(overdue_task(&operation(OperationKind::Create), at(6)).is_some());
    }

    #[test]
    fn what_has_no_task_is_not_overdue() {
        let quiet = Operation {
            task: None,
            ..operation(OperationKind::GracefulStop)
        };
        assert_eq!(overdue_task(&quiet, at(100)), None);
    }
}
