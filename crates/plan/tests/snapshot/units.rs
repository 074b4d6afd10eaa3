//! Single decisions and single sentences.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{SnapshotPhase, VMSnapshot, VMSnapshotSpec, VMSnapshotStatus};
use polyvirt_contract::model::{GuestDisks, Quiesce, SnapshotContents, SnapshotRequest};
use polyvirt_contract::{Capabilities, ErrorKind, ProviderError};
use polyvirt_plan::snapshot::report::Hearing;
use polyvirt_plan::snapshot::schedule::{Hold, newest};
use polyvirt_plan::snapshot::{
    Desired, Done, EndOfLife, Facts, Intent, Life, Lost, Maker, Object, Observed, OnVmGone,
    Outcome, PassEnd, Record, Step, VmFacts, alarm, next_step, report,
};
use polyvirt_plan::virtual_machine::{Claim, ProviderFacts};
use polyvirt_plan::{Note, Reason, Severity};

use super::facts::{NAME, able, at, features, named, place};

fn taken() -> Record {
    Record {
        vm: Some(place()),
        id: Some("s-1".into()),
        begun: Some(at(0)),
        completed: Some(at(0)),
        operation: None,
    }
}

struct Case {
    now: i64,
    record: Record,
    desired: Desired,
    vm: VmFacts,
    capabilities: Capabilities,
    hold: Hold,
    maker: Maker,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            now: 0,
            record: taken(),
            desired: Desired::default(),
            vm: VmFacts::Made,
            capabilities: able(),
            hold: Hold::Free,
            maker: Maker::User,
        }
    }
}

impl Case {
    fn with<T>(&self, observed: Observed<'_>, work: impl Fn(&Facts<'_>) -> T) -> T {
        work(&Facts {
            now: at(self.now),
            object: Object {
                claim: Claim::Held,
                life: Life::Alive,
                ..Object::default()
            },
            name: NAME,
            record: &self.record,
            desired: Ok(&self.desired),
            vm: self.vm,
            hold: self.hold,
            maker: self.maker,
            provider: ProviderFacts::Ready {
                features: &features(true),
                capabilities: &self.capabilities,
            },
            observed,
            intent: Intent::Earlier,
        })
    }

    fn plan(&self, observed: Observed<'_>) -> Step {
        self.with(observed, next_step)
    }
}

#[test]
fn a_life_ends_after_its_age_and_its_grace() {
    let desired = Desired {
        max_age: Some(Duration::from_secs(100)),
        grace: Duration::from_secs(10),
        ..Desired::default()
    };
    let list = [named(NAME)];
    let case = |now| Case {
        now,
        desired: desired.clone(),
        ..Case::default()
    };
    let listed = Observed::Listed(&list);
    assert_eq!(case(99).plan(listed), Step::Done(Done::Ready));
    assert_eq!(case(40).with(listed, alarm), Some(Duration::from_secs(60)));
    assert_eq!(case(100).plan(listed), Step::Done(Done::Expired(at(110))));
    assert_eq!(case(100).with(listed, alarm), Some(Duration::from_secs(10)));
    assert_eq!(
        case(110).plan(listed),
        Step::DeleteObject(EndOfLife::Expired)
    );
}

#[test]
fn what_is_held_has_no_age() {
    let desired = Desired {
        max_age: Some(Duration::from_secs(100)),
        ..Desired::default()
    };
    let list = [named(NAME)];
    let case = |hold| Case {
        now: 100,
        desired: desired.clone(),
        hold,
        ..Case::default()
    };
    let listed = Observed::Listed(&list);
    let goes = Step::DeleteObject(EndOfLife::Expired);
    assert_eq!(case(Hold::Free).plan(listed), goes);
    assert_eq!(case(Hold::Kept).plan(listed), Step::Done(Done::Ready));
    assert_eq!(case(Hold::Kept).with(listed, alarm), None);
}

#[test]
fn the_newest_whole_one_of_a_schedule_is_known() {
    let made = |slot: &str, phase: &str, by: &str| -> VMSnapshot {
        let object = serde_json::json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMSnapshot",
            "metadata": {
                "name": slot, "uid": format!("{by} {slot}"),
                "annotations": {"polyvirt.io/scheduled-at": format!("2026-06-{slot}T03:00:00Z")},
                "ownerReferences": [{
                    "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMSnapshot",
                    "name": by, "uid": by, "controller": true,
                }],
            },
            "spec": {"vmRef": {"name": "web"}}, "status": {"phase": phase},
        });
        serde_json::from_value(object).expect("valid")
    };
    let all = [
        made("01", "Ready", "ours"),
        made("02", "Expired", "ours"),
        made("03", "Failed", "ours"),
        made("04", "Ready", "theirs"),
    ];
    assert_eq!(newest(&all, "ours"), Some("ours 02".to_owned()));
    assert_eq!(newest(&all, "nobody's"), None);
}

#[test]
fn what_is_held_outlives_the_schedule_that_made_it() {
    let list = [named(NAME)];
    let plan = |hold| {
        let case = Case {
            hold,
            maker: Maker::Gone,
            ..Case::default()
        };
        case.plan(Observed::Listed(&list))
    };
    let goes = Step::DeleteObject(EndOfLife::ScheduleGone);
    assert_eq!(plan(Hold::Free), goes);
    assert_eq!(plan(Hold::Kept), Step::Done(Done::Ready));
}

#[test]
fn what_somebody_deleted_is_told_and_not_taken_again() {
    let case = Case::default();
    let lost = |how| Step::Done(Done::Lost(how));
    assert_eq!(case.plan(Observed::Listed(&[])), lost(Lost::Alone));
    assert_eq!(case.plan(Observed::Silent), lost(Lost::WithItsVm));
    assert_eq!(case.plan(Observed::Unknown), Step::Done(Done::Ready));
    let leaving = Case {
        vm: VmFacts::Leaving,
        ..Case::default()
    };
    assert_eq!(leaving.plan(Observed::Silent), Step::Done(Done::Ready));
}

#[test]
fn a_snapshot_goes_with_its_vm_only_when_that_is_proved() {
    let orphan = |on_vm_gone| Case {
        vm: VmFacts::Missing,
        desired: Desired {
            on_vm_gone,
            ..Desired::default()
        },
        ..Case::default()
    };
    let goes = orphan(OnVmGone::Delete);
    assert_eq!(goes.plan(Observed::Silent), Step::Look);
    assert_eq!(
        goes.plan(Observed::NoVm),
        Step::DeleteObject(EndOfLife::VmGone)
    );
    let retained = [named(NAME)];
    assert_eq!(
        goes.plan(Observed::Listed(&retained)),
        Step::Done(Done::Ready)
    );
    let stays = orphan(OnVmGone::Keep).plan(Observed::NoVm);
    assert_eq!(stays, Step::Done(Done::Lost(Lost::WithItsVm)));
}

#[test]
fn what_the_provider_cannot_do_is_not_asked_of_it() {
    let with_memory = Desired {
        request: SnapshotRequest {
            contents: SnapshotContents::DisksAndMemory,
            ..SnapshotRequest::default()
        },
        ..Desired::default()
    };
    for (snapshots, field) in [
        (false, "spec.vmRef.name"),
        (true, "spec.snapshotConfig.includeMemory"),
    ] {
        let case = Case {
            record: Record::default(),
            desired: with_memory.clone(),
            capabilities: Capabilities {
                snapshots,
                ..Capabilities::default()
            },
            ..Case::default()
        };
        let Step::Stop(problem) = case.plan(Observed::Unknown) else {
            panic!("it goes on")
        };
        assert_eq!(problem.reason, Reason::UnsupportedByProvider);
        assert_eq!(problem.field, field);
    }
}

fn told(
    object: &VMSnapshot,
    record: &Record,
    outcome: &Outcome,
    hearing: Hearing,
) -> (Option<VMSnapshotStatus>, Vec<Note>) {
    let mut found = named(NAME);
    (found.size_bytes, found.guest) = (4096, GuestDisks::Quiet);
    let desired = Desired {
        request: SnapshotRequest {
            quiesce: Quiesce::IfPossible,
            ..SnapshotRequest::default()
        },
        ignored: vec!["spec.schedule"],
        ..Desired::default()
    };
    let done = matches!(outcome, Outcome::Done(_));
    report(&PassEnd {
        object,
        record,
        outcome,
        found: done.then_some(&found),
        kin: None,
        desired: Some(&desired),
        expires: None,
        hearing,
        now: at(7),
    })
}

fn reason(status: &VMSnapshotStatus, kind: &str) -> String {
    let found = status.conditions.iter().find(|c| c.type_ == kind);
    found.map(|c| c.reason.clone()).unwrap_or_default()
}

#[test]
fn everything_is_told_and_nothing_is_written_twice() {
    let mut object = VMSnapshot::new("a", VMSnapshotSpec::default());
    let ready = Outcome::Done(Done::Ready);
    let (status, notes) = told(&object, &taken(), &ready, Hearing::Full);
    let status = status.expect("something new");
    assert_eq!(status.phase, Some(SnapshotPhase::Ready));
    assert_eq!(status.snapshot_id.as_deref(), Some("s-1"));
    assert_eq!(status.completion_time, Some(Time(at(0))));
    assert_eq!(status.size.as_ref().expect("a size").0, "4Ki");
    assert_eq!(reason(&status, "Quiesced"), "Quiesced");
    assert_eq!(reason(&status, "FieldsHonoured"), "FieldsIgnored");
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0].reason, Reason::SnapshotReady);
    object.status = Some(status);
    let (again, notes) = told(&object, &taken(), &ready, Hearing::Full);
    assert_eq!((again, notes), (None, Vec::new()));
}

#[test]
fn a_provider_that_cannot_hear_quiesce_is_named() {
    let object = VMSnapshot::new("a", VMSnapshotSpec::default());
    let ready = Outcome::Done(Done::Ready);
    let (status, _) = told(&object, &taken(), &ready, Hearing::Basic);
    let status = status.expect("something new");
    let fields = status
        .conditions
        .iter()
        .find(|c| c.type_ == "FieldsHonoured");
    let message = &fields.expect("told").message;
    assert!(message.contains("spec.snapshotConfig.quiesce"), "{message}");
}

#[test]
fn a_failure_is_a_warning_and_a_silent_provider_is_none() {
    let object = VMSnapshot::new("a", VMSnapshotSpec::default());
    let failed = |kind| Outcome::Failed(ProviderError::new(kind, "It does not work"));
    let begun = Record {
        completed: None,
        ..taken()
    };
    let (status, notes) = told(&object, &begun, &failed(ErrorKind::Internal), Hearing::Full);
    assert_eq!(status.expect("new").phase, Some(SnapshotPhase::Failed));
    assert_eq!(
        (notes[0].severity, notes[0].reason),
        (Severity::Warning, Reason::SnapshotFailed)
    );
    let silent = failed(ErrorKind::Unavailable);
    let (status, _) = told(&object, &begun, &silent, Hearing::Full);
    assert_eq!(status.expect("new").phase, Some(SnapshotPhase::Creating));
}

#[test]
fn a_snapshot_with_memory_says_what_it_holds() {
    use SnapshotContents::{Disks, DisksAndMemory};
    let desired = |contents| Desired {
        request: SnapshotRequest {
            contents,
            quiesce: Quiesce::IfPossible,
            ..SnapshotRequest::default()
        },
        ..Desired::default()
    };
    for (asked, holds, quiesced, disks_only) in [
        (DisksAndMemory, DisksAndMemory, "", false),
        (DisksAndMemory, Disks, "NotQuiesced", true),
        (Disks, Disks, "NotQuiesced", false),
    ] {
        let found = polyvirt_contract::model::SnapshotState {
            contents: holds,
            ..named(NAME)
        };
        let (status, _) = report(&PassEnd {
            object: &VMSnapshot::new("a", VMSnapshotSpec::default()),
            record: &taken(),
            outcome: &Outcome::Done(Done::Ready),
            found: Some(&found),
            kin: None,
            desired: Some(&desired(asked)),
            expires: None,
            hearing: Hearing::Full,
            now: at(7),
        });
        let status = status.expect("something new");
        assert_eq!(reason(&status, "Quiesced"), quiesced, "{asked:?} {holds:?}");
        let message = status.message.expect("a message");
        assert_eq!(message.contains("disks only"), disks_only, "{message}");
    }
}
