//! The end of a VM: first its process, then its volumes, then its domain, which is what remembers it. Cut short anywhere, it
//! can be done again.

use std::collections::BTreeSet;
use std::sync::Arc;

use polyvirt_contract::model::Stage;
use polyvirt_contract::{Result, TaskId};
use polyvirt_provider_kit::tasks::Begun;
use polyvirt_provider_kit::uuid::Uuid;

use crate::core::{Core, Vm};
use crate::create;
use crate::domain::{Machine, Marks};
use crate::rpc::{Domain, Session, code, flags};
use crate::storage::{self, Pool};

/// Deletes the VM with its disks and snapshots, whether it runs or not.
pub(crate) async fn delete(core: &Arc<Core>, vm: Arc<Vm>) -> Result<Option<TaskId>> {
    begin(core, vm).answer().await
}

/// The same for a VM whose end was begun in an earlier session.
pub(crate) fn go_on(core: &Arc<Core>, vm: &Arc<Vm>) {
    drop(begin(core, vm.clone()));
}

fn begin(core: &Arc<Core>, vm: Arc<Vm>) -> Begun {
    let key = format!("delete {}", vm.uuid);
    let core_of_task = core.clone();
    core.tasks.begin(&key, move |_| async move {
        let _alone = vm.change.lock().await;
        everything(&core_of_task, &vm).await
    })
}

/// Removes all that there is of a VM. The caller holds [`Vm::change`].
pub(crate) async fn everything(core: &Arc<Core>, vm: &Arc<Vm>) -> Result<()> {
    if core.look(vm).await?.is_none() {
        return Ok(());
    }
    let config = vm.config()?;
    let session = core.session().await?;
    let domain = Domain::of(vm.uuid);
    if let Some(marks) = &config.marks {
        let leaving = Marks {
            stage: Stage::Deleting,
            ..marks.clone()
        };
        create::set_marks(core, vm.uuid, &leaving, flags::CONFIG).await?;
        core.look(vm).await?;
    }
    stop(&session, &domain).await?;
    match &config.marks {
        Some(marks) if !marks.pool.is_empty() => {
            remove_volumes(core, &session, vm.uuid, marks).await?;
        }
        // It was taken over: its volumes have names of their own.
        _ => remove_disks(core, &session, vm.uuid, &config).await?,
    }
    match session.undefine(&domain).await {
        Err(error) if error.is(code::NO_DOMAIN) => {}
        other => other?,
    }
    core.look(vm).await?;
    if let Some(marks) = &config.marks {
        remove_orphans(core, &session, marks).await?;
    }
    Ok(())
}

/// Pulls the plug. One that is off is a success.
pub(crate) async fn stop(session: &Session, domain: &Domain) -> Result<()> {
    match session.destroy(domain).await {
        Err(error) if error.is(code::OPERATION_INVALID) || error.is(code::NO_DOMAIN) => Ok(()),
        other => Ok(other?),
    }
}

/// Volumes that disks of other VMs are overlays of.
pub(crate) fn bases_of_others(core: &Core, uuid: Uuid) -> BTreeSet<String> {
    let others = core.all().into_iter().filter(|vm| vm.uuid != uuid);
    let marks = others.filter_map(|vm| vm.config().ok()?.marks);
    marks.flat_map(|marks| marks.bases).collect()
}

fn pools(marks: &Marks) -> BTreeSet<String> {
    let disks = marks.disks.iter().map(|disk| disk.pool.clone());
    disks
        .chain([marks.pool.clone(), marks.files.clone()])
        .filter(|name| !name.is_empty())
        .collect()
}

/// Removes what has the VM's name, except what others are built upon.
async fn remove_volumes(core: &Core, session: &Session, uuid: Uuid, marks: &Marks) -> Result<()> {
    let needed = bases_of_others(core, uuid);
    for name in pools(marks) {
        let pool = Pool::open(session, &name, "spec.placement.datastore").await?;
        for volume in pool.list(session).await? {
            let ours = storage::owner_of(&volume.name) == Some(uuid);
            if ours && !needed.contains(&volume.name) {
                session.delete_volume(&volume).await?;
            }
        }
    }
    Ok(())
}

/// Removes layers that the VM was built upon, whose own VM is gone and that nobody else needs.
pub(crate) async fn remove_orphans(core: &Core, session: &Session, marks: &Marks) -> Result<()> {
    if marks.bases.is_empty() {
        return Ok(());
    }
    let pool = Pool::open(session, &marks.pool, "spec.placement.datastore").await?;
    for base in &marks.bases {
        let Some(owner) = storage::owner_of(base) else {
            continue;
        };
        let needed = bases_of_others(core, owner).contains(base);
        if !needed && session.by_uuid(owner).await?.is_none() {
            pool.remove(session, base).await?;
        }
    }
    Ok(())
}

/// The disks of a VM that was taken over: those that lie in a storage pool and that no other domain has.
async fn remove_disks(core: &Core, session: &Session, uuid: Uuid, config: &Machine) -> Result<()> {
    let others: Vec<_> = core
        .all()
        .into_iter()
        .filter(|vm| vm.uuid != uuid)
        .collect();
    let shared = |path: &str| {
        let has = |machine: Machine| machine.disks.iter().any(|disk| disk.path == path);
        others.iter().any(|vm| vm.config().is_ok_and(has))
    };
    for disk in config.disks.iter().filter(|disk| disk.device == "disk") {
        if shared(&disk.path) {
            continue;
        }
        if let Some(volume) = session.volume_at(&disk.path).await? {
            session.delete_volume(&volume).await?;
        }
    }
    Ok(())
}
