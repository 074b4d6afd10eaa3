//! The contract, call by call: who has the VM, and then the same call there.

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream::{self, BoxStream};
use polyvirt_contract::model::{
    CloneVm, Cloned, ConsoleKind, ConsoleSession, CreateVm, Created, DiskInfo, ExecOutput,
    ExecRequest, Inventory, MigrateVm, MigrationProgress, PowerRequest, PrepareImage,
    PreparedImage, SnapshotCreated, SnapshotRequest, VmRef, VmState, VmUsage,
};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{
    Capabilities, ErrorKind, Extension, Features, Identity, Provider, ProviderError, RequestId,
    Result, SnapshotId, TaskId, VmId,
};
use polyvirt_provider_kit::fleet::choice::unavailable;

use super::told::{host_of_task, task_of_host};
use super::{Fleet, creating};
use crate::offer;

impl Fleet {
    /// The task under the name that it has here.
    fn task(place: usize, answer: Result<Option<TaskId>>) -> Result<Option<TaskId>> {
        answer.map(|task| task.map(|task| task_of_host(place, &task)))
    }
}

#[async_trait]
impl Provider for Fleet {
    async fn validate(&self) -> Result<()> {
        self.any_answers().await?;
        // Names are told by hosts that answer.
        self.candidates().await;
        self.check_host_names()
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        Ok(offer::capabilities())
    }

    async fn features(&self) -> Result<Features> {
        let mut features = offer::features();
        if self.members.len() > 1 {
            features.extensions.insert(Extension::Migrate);
        }
        Ok(features)
    }

    async fn create(&self, request: CreateVm) -> Result<Created> {
        self.create_somewhere(request).await
    }

    async fn delete(&self, vm: &VmRef) -> Result<Option<TaskId>> {
        let member = self.of(vm).await?;
        Self::task(member.place, member.provider.delete(vm).await)
    }

    async fn power(&self, vm: &VmRef, request: PowerRequest) -> Result<Option<TaskId>> {
        let member = self.of(vm).await?;
        Self::task(member.place, member.provider.power(vm, request).await)
    }

    async fn reconfigure(&self, vm: &VmRef, mut desired: CreateVm) -> Result<Option<TaskId>> {
        let member = self.of(vm).await?;
        if let Some(placement) = &mut desired.placement {
            // Where it is, is not changed by this.
            placement.host.clear();
        }
        Self::task(member.place, member.provider.reconfigure(vm, desired).await)
    }

    async fn describe(&self, vm: &VmId) -> Result<Option<VmState>> {
        self.look(vm).await
    }

    async fn task_status(&self, task: &TaskId) -> Result<TaskState> {
        if let Some(state) = self.tasks.status(task) {
            return Ok(state);
        }
        let absent = || ProviderError::not_found(format!("The task {task}"));
        let (place, theirs) = host_of_task(task).ok_or_else(absent)?;
        let member = self.members.get(place).ok_or_else(absent)?;
        member.provider.task_status(&theirs).await
    }

    async fn snapshot_create(
        &self,
        vm: &VmRef,
        request: SnapshotRequest,
    ) -> Result<SnapshotCreated> {
        let member = self.of(vm).await?;
        let answer = member.provider.snapshot_create(vm, request).await?;
        Ok(SnapshotCreated {
            task: Self::task(member.place, Ok(answer.task))?,
            ..answer
        })
    }

    async fn snapshot_delete(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        let member = self.of(vm).await?;
        let answer = member.provider.snapshot_delete(vm, snapshot).await;
        Self::task(member.place, answer)
    }

    async fn snapshot_revert(&self, vm: &VmRef, snapshot: &SnapshotId) -> Result<Option<TaskId>> {
        let member = self.of(vm).await?;
        let answer = member.provider.snapshot_revert(vm, snapshot).await;
        Self::task(member.place, answer)
    }

    /// On the host of the source: its disks are there.
    async fn clone_vm(&self, request: CloneVm) -> Result<Cloned> {
        let key = creating::key(request.owner.as_ref(), &request.target_name);
        let _alone = self.book.turn(&key).await;
        self.check_name(request.owner.as_ref(), &request.target_name)?;
        let member = &self.members[self.place_of(&request.source).await?];
        let answer = member.provider.clone_vm(request).await?;
        Ok(Cloned {
            task: Self::task(member.place, Ok(answer.task))?,
            ..answer
        })
    }

    /// On every host that answers. One that is away brings it when its first VM needs it.
    async fn image_prepare(&self, request: PrepareImage) -> Result<PreparedImage> {
        let asked = self.members.iter().map(|member| {
            let asked = member.provider.image_prepare(request.clone());
            async move {
                let answer = asked.await?;
                Ok(PreparedImage {
                    task: Self::task(member.place, Ok(answer.task))?,
                    ..answer
                })
            }
        });
        let (prepared, failed): (Vec<_>, Vec<_>) =
            join_all(asked).await.into_iter().partition(Result::is_ok);
        let mut prepared: Vec<PreparedImage> = prepared.into_iter().flatten().collect();
        // The one that is still at work is the one to wait for.
        prepared.sort_by_key(|image| image.task.is_none());
        let why = failed.into_iter().find_map(Result::err);
        let none = || why.unwrap_or_else(|| unavailable("There is no host".to_owned()));
        prepared.into_iter().next().ok_or_else(none)
    }

    async fn image_delete(&self, image: &PreparedImage) -> Result<()> {
        let asked = self.members.iter().map(|m| m.provider.image_delete(image));
        let answers = join_all(asked).await;
        let absent =
            |answer: &Result<()>| matches!(answer, Err(e) if e.kind == ErrorKind::NotFound);
        let nowhere = answers.iter().all(absent);
        let mut told = answers
            .into_iter()
            .filter(|answer| nowhere || !absent(answer));
        told.find(Result::is_err).unwrap_or(Ok(()))
    }

    async fn disk_info(
        &self,
        vm: &VmId,
        disk: &str,
        snapshot: Option<&SnapshotId>,
    ) -> Result<DiskInfo> {
        let member = &self.members[self.place_of(vm).await?];
        member.provider.disk_info(vm, disk, snapshot).await
    }

    /// VMs of a host that is away are told as unknown. One that has never answered may have any: then there is no list.
    async fn list_vms(&self) -> Result<Vec<VmState>> {
        let asked = self.members.iter().map(|member| member.provider.list_vms());
        let mut all = Vec::new();
        for (place, list) in join_all(asked).await.into_iter().enumerate() {
            let list = match list {
                Ok(list) => list
                    .into_iter()
                    .filter_map(|state| self.told.state(place, state))
                    .collect(),
                Err(error) if !self.told.is_whole(place) => return Err(error),
                Err(_) => {
                    self.told.lost(place);
                    self.told.of_host(place)
                }
            };
            let here = |state: &VmState| self.told.holder(&state.id) == Some(place);
            all.extend(list.into_iter().filter(here));
        }
        Ok(all)
    }

    async fn find(&self, identity: &Identity) -> Result<Option<VmState>> {
        let found = self.find_state(identity).await?;
        Ok(found.map(|(_, state)| state))
    }

    /// It is whole when the last host has told its VMs, so one that has never answered holds that up, and nothing else.
    async fn watch(&self) -> Result<BoxStream<'static, Result<VmEvent>>> {
        let (told, snapshot) = (self.told.clone(), self.told.clone());
        let events = self
            .told
            .hub
            .subscribe(move || snapshot.states(), self.stop.clone());
        let begun = (events, told, Synced::NotYet);
        let merged = stream::unfold(begun, |(mut events, told, mut synced)| async move {
            loop {
                let event = tokio::select! {
                    biased;
                    event = events.next() => event?,
                    () = told.all_whole(), if synced == Synced::Waits => Ok(VmEvent::Synced),
                };
                let own = matches!(event, Ok(VmEvent::Synced)) && synced == Synced::NotYet;
                if own {
                    // Those that were known are told; those of the last host may still come.
                    synced = Synced::Waits;
                    continue;
                }
                if matches!(event, Ok(VmEvent::Synced)) {
                    synced = Synced::Told;
                }
                return Some((event, (events, told, synced)));
            }
        });
        Ok(merged.boxed())
    }

    async fn inventory(&self) -> Result<Inventory> {
        let asked = self.members.iter().map(|member| member.inventory_or_down());
        let mut all = Inventory::default();
        for one in join_all(asked).await {
            all.hosts.extend(one.hosts);
            // Each says whose disks it is made of. A network is asked for by name, whichever host the VM is on.
            all.datastores.extend(one.datastores);
            let networks = one.networks.into_iter();
            let networks: Vec<_> = networks.filter(|n| !all.networks.contains(n)).collect();
            all.networks.extend(networks);
        }
        Ok(all)
    }

    async fn usage(&self) -> Result<Vec<VmUsage>> {
        let asked = self.members.iter().map(|member| member.provider.usage());
        let mut all = Vec::new();
        for (place, used) in join_all(asked).await.into_iter().enumerate() {
            let held = |vm: &VmUsage| self.told.holder(&vm.id) == Some(place);
            all.extend(used.unwrap_or_default().into_iter().filter(held));
        }
        Ok(all)
    }

    async fn guest_exec(&self, vm: &VmRef, request: ExecRequest) -> Result<ExecOutput> {
        self.of(vm).await?.provider.guest_exec(vm, request).await
    }

    async fn migrate(&self, vm: &VmRef, request: MigrateVm) -> Result<Option<TaskId>> {
        Box::pin(self.move_vm(vm, request)).await
    }

    async fn migration_progress(&self, task: &TaskId) -> Result<MigrationProgress> {
        self.moves.progress(task)
    }

    async fn cancel_migration(&self, vm: &VmRef, request: &RequestId) -> Result<()> {
        self.moves.stop(vm, request)
    }

    async fn console(&self, vm: &VmRef, kind: ConsoleKind) -> Result<ConsoleSession> {
        self.of(vm).await?.provider.console(vm, kind).await
    }
}

/// Whether a stream has told all VMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Synced {
    NotYet,
    /// A host has not told its VMs yet.
    Waits,
    Told,
}
