//! What passes write down for the next one, to and from `status`. Lossless, so that a crash loses nothing that was written.

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{self as api, VirtualMachine, VirtualMachineStatus};
use polyvirt_api::names;
use polyvirt_contract::{Identity, TaskId, VmId};

use crate::virtual_machine::desired::power;
use crate::virtual_machine::facts::{
    Applied, Attention, Claim, DeletionPolicy, DesiredPower, Force, Intent, Life, Object,
    Operation, OperationKind, Origin, Record, Shape,
};
use crate::virtual_machine::{hooks, revert};

/// What the object says about its own life.
pub fn object(vm: &VirtualMachine) -> Object<'_> {
    let annotation = |name: &str| annotation(vm, name);
    // What goes with the finalizer on it goes with its VM, also when somebody took the identity off.
    let identified = annotation(names::IDENTITY_ANNOTATION).is_some()
        || vm.metadata.deletion_timestamp.is_some();
    let claimed = has_finalizer(vm) && identified;
    Object {
        claim: if claimed { Claim::Held } else { Claim::Missing },
        life: life(vm),
        attention: if is_true(annotation(names::PAUSED_ANNOTATION)) {
            Attention::Paused
        } else {
            Attention::Active
        },
        force: if is_true(annotation(names::FORCE_DELETE_ANNOTATION)) {
            Force::Yes
        } else {
            Force::No
        },
        reboot: annotation(names::REBOOT_ANNOTATION).unwrap_or_default(),
        origin: origin(vm),
    }
}

/// The value of an annotation.
pub fn annotation<'a>(vm: &'a VirtualMachine, name: &str) -> Option<&'a str> {
    vm.metadata
        .annotations
        .as_ref()?
        .get(name)
        .map(String::as_str)
}

/// Whether our finalizer is on the object.
pub fn has_finalizer(vm: &VirtualMachine) -> bool {
    let list = vm.metadata.finalizers.as_deref().unwrap_or_default();
    list.iter().any(|f| f == names::VIRTUAL_MACHINE_FINALIZER)
}

fn is_true(value: Option<&str>) -> bool {
    value.is_some_and(|v| v.eq_ignore_ascii_case("true"))
}

fn origin(vm: &VirtualMachine) -> Origin {
    let label = vm
        .metadata
        .labels
        .as_ref()
        .and_then(|l| l.get(names::ADOPTED_LABEL));
    if is_true(label.map(String::as_str)) {
        Origin::Adopted
    } else {
        Origin::Created
    }
}

fn life(vm: &VirtualMachine) -> Life {
    if vm.metadata.deletion_timestamp.is_none() {
        return Life::Alive;
    }
    // Nothing that a person wrote to keep a VM is outvoted by what deletes it.
    if is_true(annotation(vm, names::ORPHAN_ANNOTATION)) {
        return Life::Deleting(DeletionPolicy::Retain);
    }
    Life::Deleting(match (vm.spec.deletion_policy, origin(vm)) {
        (Some(api::DeletionPolicy::Retain), _) | (None, Origin::Adopted) => DeletionPolicy::Retain,
        (Some(api::DeletionPolicy::Delete), _) | (None, Origin::Created) => DeletionPolicy::Delete,
    })
}

/// The identity on the object, or the one that it will get: its UID at first sight.
pub fn identity(vm: &VirtualMachine) -> Identity {
    let written = annotation(vm, names::IDENTITY_ANNOTATION);
    Identity::from(written.unwrap_or_else(|| vm.metadata.uid.as_deref().unwrap_or_default()))
}

/// What earlier passes have written.
pub fn record(vm: &VirtualMachine) -> Record {
    let status = vm.status.clone().unwrap_or_default();
    Record {
        id: status.id.clone().and_then(VmId::non_empty),
        identity: annotation(vm, names::IDENTITY_ANNOTATION).map(Identity::from),
        applied: status
            .applied
            .as_deref()
            .map(applied_from)
            .unwrap_or_default(),
        operation: status.operation.as_deref().map(operation_from),
        reboot_handled: status.reboot_handled.clone().unwrap_or_default(),
        restart_required: status.restart_required.clone(),
        revert: revert::from_status(&status),
        placement: status.placement.clone(),
        hooks: hooks::from_status(&status),
    }
}

/// Whether an earlier pass was about to create.
pub fn intent(vm: &VirtualMachine) -> Intent {
    let written = vm.status.as_ref().and_then(|s| s.create_intent.as_ref());
    written.map_or(Intent::Missing, |time| Intent::Older(time.0))
}

fn applied_from(applied: &api::AppliedState) -> Applied {
    let shape = applied.cpu.map(|cpu| Shape {
        cpu: u32::try_from(cpu).unwrap_or(0),
        memory_mib: applied
            .memory_mib
            .and_then(|m| u64::try_from(m).ok())
            .unwrap_or(0),
        disks: applied
            .disks
            .iter()
            .map(|d| (d.name.clone(), u32::try_from(d.size_gib).unwrap_or(0)))
            .collect(),
        networks: applied.networks.clone(),
    });
    Applied {
        reached: applied.generation,
        power: applied.power_state.map(power),
        shape,
        options: applied.options.clone(),
        image: applied.image.clone(),
        created: applied.created.clone(),
    }
}

pub(crate) fn operation_from(operation: &api::Operation) -> Operation {
    Operation {
        kind: kind_from(operation.kind),
        task: operation.task_ref.clone().and_then(TaskId::non_empty),
        since: operation.since.0,
        attempt: u32::try_from(operation.attempt).unwrap_or(0),
    }
}

/// Writes the record into a status.
pub fn write(record: &Record, status: &mut VirtualMachineStatus) {
    status.id = record.id.as_ref().map(ToString::to_string);
    status.applied = applied_to(&record.applied);
    status.operation = record.operation.as_ref().map(|o| Box::new(operation_to(o)));
    let task = |reconfigure: bool| {
        let operation = record.operation.as_ref()?;
        let is_reconfigure = operation.kind == OperationKind::Reconfigure;
        (is_reconfigure == reconfigure).then(|| operation.task.as_ref().map(ToString::to_string))?
    };
    status.last_task_ref = task(false);
    status.reconfigure_task_ref = task(true);
    status.reboot_handled = Some(record.reboot_handled.clone()).filter(|r| !r.is_empty());
    status.restart_required.clone_from(&record.restart_required);
    status.revert = revert::to_status(record.revert.as_ref());
    status.placement.clone_from(&record.placement);
    status.hooks = hooks::to_status(&record.hooks);
}

fn applied_to(applied: &Applied) -> Option<Box<api::AppliedState>> {
    (*applied != Applied::default()).then(|| Box::new(applied_state(applied)))
}

fn applied_state(applied: &Applied) -> api::AppliedState {
    let mut state = api::AppliedState {
        generation: applied.reached,
        power_state: applied.power.map(power_word),
        options: applied.options.clone(),
        image: applied.image.clone(),
        created: applied.created.clone(),
        ..api::AppliedState::default()
    };
    if let Some(shape) = &applied.shape {
        state.cpu = i32::try_from(shape.cpu).ok();
        state.memory_mib = i64::try_from(shape.memory_mib).ok();
        state.networks.clone_from(&shape.networks);
        let disk = |(name, gib): &(String, u32)| api::AppliedDisk {
            name: name.clone(),
            size_gib: i32::try_from(*gib).unwrap_or(i32::MAX),
        };
        state.disks = shape.disks.iter().map(disk).collect();
    }
    state
}

fn power_word(power: DesiredPower) -> api::PowerState {
    match power {
        DesiredPower::On => api::PowerState::On,
        DesiredPower::Off => api::PowerState::Off,
        DesiredPower::OffGraceful => api::PowerState::OffGraceful,
        DesiredPower::Paused => api::PowerState::Paused,
    }
}

pub(crate) fn operation_to(operation: &Operation) -> api::Operation {
    api::Operation {
        kind: kind_to(operation.kind),
        since: Time(whole_second(operation.since)),
        attempt: i32::try_from(operation.attempt).unwrap_or(i32::MAX),
        task_ref: operation.task.as_ref().map(ToString::to_string),
        request_id: None,
    }
}

macro_rules! same_kinds {
    ($($kind:ident),+) => {
        fn kind_from(kind: api::OperationKind) -> OperationKind {
            match kind { $(api::OperationKind::$kind => OperationKind::$kind),+ }
        }

        fn kind_to(kind: OperationKind) -> api::OperationKind {
            match kind { $(OperationKind::$kind => api::OperationKind::$kind),+ }
        }
    };
}

same_kinds!(
    Create,
    PowerOn,
    PowerOff,
    GracefulStop,
    Reboot,
    Pause,
    Reconfigure,
    Revert,
    Delete
);

/// The API keeps whole seconds. Rounded up, so that nobody's time is cut short.
fn whole_second(time: Timestamp) -> Timestamp {
    time.round(
        TimestampRound::new()
            .smallest(Unit::Second)
            .mode(RoundMode::Ceil),
    )
    .unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;
    use crate::virtual_machine::revert::{RevertState, Reverted};

    fn vm(status: VirtualMachineStatus) -> VirtualMachine {
        VirtualMachine {
            metadata: ObjectMeta::default(),
            spec: api::VirtualMachineSpec::default(),
            status: Some(status),
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let record_in = Record {
            id: Some(VmId::from("vm-1")),
            identity: None,
            applied: Applied {
                reached: Some(3),
                power: Some(DesiredPower::OffGraceful),
                shape: Some(Shape {
                    cpu: 2,
                    memory_mib: 512,
                    disks: vec![("data".into(), 5)],
                    networks: vec!["eth0".into()],
                }),
                options: Some("0a".into()),
                image: Some("debian".into()),
                created: [("spec.imageRef".into(), "v1:0".into())].into(),
            },
            operation: Some(Operation {
                kind: OperationKind::Reconfigure,
                task: Some(TaskId::from("t")),
                since: Timestamp::from_second(5).expect("in range"),
                attempt: 2,
            }),
            reboot_handled: "monday".into(),
            restart_required: vec!["spec.resources.cpu".into()],
            revert: Some(Reverted {
                name: "before".into(),
                uid: "u".into(),
                state: RevertState::Refused,
                message: Some("No".into()),
            }),
            placement: Some(Box::new(api::PlacementStatus {
                host: Some("host-1".into()),
                ..api::PlacementStatus::default()
            })),
            hooks: hooks::Runs {
                pre_stop: Some(hooks::Run::due(Some(2), Timestamp::UNIX_EPOCH).done()),
                ..hooks::Runs::default()
            },
        };
        let mut status = VirtualMachineStatus::default();
        write(&record_in, &mut status);
        assert_eq!(status.reconfigure_task_ref.as_deref(), Some("t"));
        assert_eq!(status.last_task_ref, None);
        assert_eq!(record(&vm(status)), record_in);
    }

    #[test]
    fn the_time_of_an_operation_is_not_cut_short_by_whole_seconds() {
        let begun = Timestamp::from_millisecond(5_300).expect("in range");
        let six = Timestamp::from_second(6).expect("in range");
        assert_eq!(whole_second(begun), six);
        assert_eq!(whole_second(six), six);
    }

    #[test]
    fn what_is_not_sure_any_more_is_not_written() {
        let reached = Applied {
            reached: Some(1),
            ..Applied::default()
        };
        let record_in = Record {
            applied: reached,
            ..Record::default()
        };
        let mut status = VirtualMachineStatus::default();
        write(&record_in, &mut status);
        assert_eq!(record(&vm(status)), record_in);
    }

    #[test]
    fn a_vm_that_is_to_be_left_alone_is_retained_whatever_the_policy_says() {
        let mut left = vm(VirtualMachineStatus::default());
        left.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        left.spec.deletion_policy = Some(api::DeletionPolicy::Delete);
        left.metadata.annotations =
            Some([(names::ORPHAN_ANNOTATION.to_owned(), "true".to_owned())].into());
        assert_eq!(object(&left).life, Life::Deleting(DeletionPolicy::Retain));
        left.metadata.annotations =
            Some([(names::ORPHAN_ANNOTATION.to_owned(), "false".to_owned())].into());
        assert_eq!(object(&left).life, Life::Deleting(DeletionPolicy::Delete));
    }

    #[test]
    fn an_adopted_vm_is_retained_unless_told_otherwise() {
        let mut adopted = vm(VirtualMachineStatus::default());
        adopted.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        adopted.metadata.labels =
            Some([(names::ADOPTED_LABEL.to_owned(), "true".to_owned())].into());
        assert_eq!(
            object(&adopted).life,
            Life::Deleting(DeletionPolicy::Retain)
        );
        adopted.spec.deletion_policy = Some(api::DeletionPolicy::Delete);
        assert_eq!(
            object(&adopted).life,
            Life::Deleting(DeletionPolicy::Delete)
        );
    }
}
