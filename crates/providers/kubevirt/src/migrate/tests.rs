//! Which wishes are honoured, and how far a move is.

use super::*;

#[test]
fn what_kubevirt_cannot_do_is_refused_by_its_field() {
    let live = MigrateVm::default;
    for (request, field) in [
        (
            MigrateVm {
                mode: MigrationMode::Cold,
                ..live()
            },
            "live",
        ),
        (
            MigrateVm {
                compression: true,
                ..live()
            },
            "compression",
        ),
    ] {
        let error = honour(&request).expect_err("refused");
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert_eq!(error.field.as_deref(), Some(field));
    }
    let honoured = MigrateVm {
        encrypted: true,
        bandwidth: Some(1),
        auto_converge: true,
        post_copy: true,
        ..live()
    };
    assert_eq!(
        honour(&honoured),
        Ok(()),
        "whether moves are encrypted is asked of the cluster"
    );
}

#[test]
fn progress_is_read_from_the_object() {
    let object = |phase: &str, mode: &str| -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration", "metadata": {},
            "status": {"phase": phase, "migrationState": {"sourceNode": "a", "targetNode": "b", "mode": mode}},
        }))
        .expect("an object")
    };
    for (phase, mode, expected) in [
        ("Pending", "", MigrationPhase::Preparing),
        ("TargetReady", "", MigrationPhase::Preparing),
        ("Running", "PreCopy", MigrationPhase::Copying),
        ("Running", "PostCopy", MigrationPhase::Fetching),
        ("Succeeded", "PreCopy", MigrationPhase::Finishing),
    ] {
        let seen = state(&object(phase, mode));
        assert_eq!(seen.phase, expected, "{phase}");
        assert_eq!(
            (seen.source_host.as_str(), seen.target_host.as_str()),
            ("a", "b")
        );
    }
    let rising: Vec<u8> = [
        "Pending",
        "Scheduling",
        "Scheduled",
        "PreparingTarget",
        "TargetReady",
        "Running",
        "Succeeded",
    ]
    .map(percent)
    .to_vec();
    assert!(rising.is_sorted(), "{rising:?}");
}
