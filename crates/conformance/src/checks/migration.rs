//! Moves between hosts.

use polyvirt_contract::model::{HostHealth, MigrateVm, MigrationMode, VmState};
use polyvirt_contract::{ErrorKind, Extension, RequestId};

use crate::check::{Check, Checked, Need, check, ensure};
use crate::lab::{Lab, untouched};

const NEEDS: &[Need] = &[
    Need::Extension(Extension::Migrate),
    Need::Extension(Extension::Inventory),
];

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(
            "migrate",
            "A VM that runs moves to the host that is named, and runs there. Asked again, it is there.",
            NEEDS,
            migrate
        ),
        check!(
            "migrate-off",
            "A VM that is off does not move live, and says so.",
            NEEDS,
            migrate_off
        ),
        check!(
            "migrate-cancel-none",
            "To stop a move that nobody asked for is answered with NotFound, and the VM stays as it is.",
            NEEDS,
            cancel_none
        ),
    ]
}

/// A host other than that of the VM; `None` where the hypervisor has one only.
async fn elsewhere(lab: &Lab, host: &str) -> Checked<Option<String>> {
    let hosts = lab.provider().inventory().await?.hosts.into_iter();
    let mut others = hosts.filter(|h| h.name != host && h.health == HostHealth::Ready);
    Ok(others.next().map(|other| other.name))
}

fn to(host: &str) -> MigrateVm {
    MigrateVm {
        target_host: host.to_owned(),
        mode: MigrationMode::Live,
        request: RequestId::non_empty("conformance-move"),
        ..MigrateVm::default()
    }
}

async fn migrate(lab: &Lab) -> Checked {
    let vm = lab.running().await?;
    let before = lab.quiet(&vm.id).await?;
    let Some(target) = elsewhere(lab, &before.host).await? else {
        return Ok(());
    };
    let task = lab.provider().migrate(&vm, to(&target)).await?;
    lab.done(task).await?;
    let there = |state: &VmState| state.host == target;
    let after = lab.until(&vm.id, "the move", there).await?;
    ensure!(after.power == before.power, "it is {:?} now", after.power);
    let again = lab.provider().migrate(&vm, to(&target)).await?;
    lab.done(again).await?;
    let now = lab.quiet(&vm.id).await?;
    ensure!(
        now.host == target,
        "the second time it went to {:?}",
        now.host
    );
    Ok(())
}

async fn migrate_off(lab: &Lab) -> Checked {
    let vm = lab.vm().await?;
    let before = lab.quiet(&vm.id).await?;
    let Some(target) = elsewhere(lab, &before.host).await? else {
        return Ok(());
    };
    let answer = lab.provider().migrate(&vm, to(&target)).await;
    lab.refused(
        answer,
        ErrorKind::Precondition,
        "a live move of a VM that is off",
    )?;
    let after = lab.state(&vm.id).await?;
    untouched(&before, &after)
}

async fn cancel_none(lab: &Lab) -> Checked {
    let vm = lab.running().await?;
    let before = lab.quiet(&vm.id).await?;
    let request = RequestId::from("conformance-never-asked");
    let answer = lab.provider().cancel_migration(&vm, &request).await;
    lab.refused(answer, ErrorKind::NotFound, "the end of no move")?;
    let after = lab.state(&vm.id).await?;
    untouched(&before, &after)
}
