//! The end of a VM: first its process, then its folder, then its name.

use std::sync::Arc;

use polyvirt_contract::{Result, TaskId};

use crate::core::Core;
use crate::state::Stage;
use crate::vm::Vm;
use crate::{image, network};

/// Deletes the VM with its disks and snapshots, whether it runs or not.
pub(crate) async fn delete(core: &Arc<Core>, vm: Arc<Vm>) -> Result<Option<TaskId>> {
    let key = format!("delete {}", vm.uuid());
    vm.doomed.cancel();
    let core_of_task = core.clone();
    let begun = core.tasks.begin(&key, move |_| async move {
        let core = core_of_task;
        let _alone = vm.change.lock().await;
        vm.must_stay()?;
        remove(&core, &vm).await
    });
    begun.answer().await
}

/// Removes all that there is of a VM. Cut short anywhere, it can be done again.
pub(crate) async fn remove(core: &Arc<Core>, vm: &Vm) -> Result<()> {
    if core.get(vm.uuid()).is_none() {
        return Ok(());
    }
    vm.update(core, |record| record.stage = Stage::Deleting)?;
    vm.halt().await?;
    let record = vm.copy();
    network::remove_taps(core, &record).await;
    vm.dir.remove()?;
    core.remove(vm);
    image::drop_unused_layers(core);
    Ok(())
}
