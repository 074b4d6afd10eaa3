//! Find or create, and delete.

use futures::future::join_all;
use polyvirt_contract::model::{CreateVm, Owner, PowerOp, PowerState, VmRef};
use polyvirt_contract::{ErrorKind, Extension, Identity};

use crate::check::{Check, Checked, Failure, Need, check, ensure};
use crate::lab::{Lab, untouched};

const IDENTITY: &[Need] = &[Need::Extension(Extension::Identity)];

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(
            "create",
            "A new VM is off and has the size that was asked for.",
            &[],
            creates
        ),
        check!(
            "create-twice",
            "Create with one identity is done once.",
            IDENTITY,
            twice
        ),
        check!(
            "create-at-once",
            "Also when it is sent many times at once.",
            IDENTITY,
            at_once
        ),
        check!(
            "find",
            "A VM is found by its identity, and an unknown one is absent.",
            IDENTITY,
            find
        ),
        check!(
            "name-conflict",
            "A name that is taken is never taken over.",
            &[],
            name_conflict
        ),
        check!(
            "identity-conflict",
            "A VM of another identity is never touched.",
            IDENTITY,
            identity_conflict
        ),
        check!(
            "invalid",
            "What can never work is refused, with its field.",
            &[Need::Full],
            invalid
        ),
        check!(
            "delete-twice",
            "A VM that is gone is gone.",
            &[],
            delete_twice
        ),
    ]
}

async fn creates(lab: &Lab) -> Checked {
    let desired = lab.desired();
    let vm = lab.make(desired.clone()).await?;
    let state = lab.state(&vm.id).await?;
    ensure!(
        state.power == PowerState::Off,
        "a new VM is {:?}",
        state.power
    );
    let told = lab.listed(&vm.id).await?;
    ensure!(
        told.cpu == 0 || told.cpu == desired.class.cpu,
        "it has {} CPUs",
        told.cpu
    );
    let memory = told.memory_mib;
    ensure!(
        memory == 0 || memory == desired.class.memory_mib,
        "it has {memory} MiB"
    );
    if lab.offered().features.has(Extension::Identity) {
        ensure!(
            state.owner == desired.owner,
            "its owner is {:?}",
            state.owner
        );
    }
    Ok(())
}

async fn twice(lab: &Lab) -> Checked {
    let desired = lab.desired();
    let first = lab.make(desired.clone()).await?;
    let second = lab.make(desired.clone()).await?;
    ensure!(
        first.id == second.id,
        "the second create made {} beside {}",
        second.id,
        first.id
    );
    only_one(lab, &desired).await
}

async fn at_once(lab: &Lab) -> Checked {
    let desired = lab.desired();
    let made = join_all((0..8).map(|_| lab.make(desired.clone()))).await;
    let made = made.into_iter().collect::<Checked<Vec<VmRef>>>()?;
    let same = made.iter().all(|vm| vm.id == made[0].id);
    ensure!(same, "they made different VMs: {made:?}");
    only_one(lab, &desired).await
}

/// One VM carries the identity.
async fn only_one(lab: &Lab, desired: &CreateVm) -> Checked {
    let vms = lab.provider().list_vms().await?;
    let count = vms
        .iter()
        .filter(|vm| identity(vm.owner.as_ref()) == identity(desired.owner.as_ref()))
        .count();
    ensure!(count == 1, "{count} VMs carry the identity");
    Ok(())
}

fn identity(owner: Option<&Owner>) -> Option<&Identity> {
    owner.map(|owner| &owner.identity)
}

async fn find(lab: &Lab) -> Checked {
    let vm = lab.vm().await?;
    let unknown = lab.provider().find(&lab.owner().identity).await?;
    ensure!(
        unknown.is_none(),
        "found a VM for an identity that none has: {unknown:?}"
    );
    let owner = vm
        .owner
        .ok_or_else(|| Failure::new("the VM was made without an owner".to_owned()))?;
    let found = lab.provider().find(&owner.identity).await?;
    let id = found.map(|state| state.id);
    ensure!(
        id.as_ref() == Some(&vm.id),
        "found {id:?} instead of {}",
        vm.id
    );
    Ok(())
}

async fn name_conflict(lab: &Lab) -> Checked {
    let vm = lab.vm().await?;
    let before = lab.state(&vm.id).await?;
    let second = CreateVm {
        name: before_name(lab, &vm).await?,
        ..lab.desired()
    };
    let owner = second.owner.clone();
    let answer = lab.provider().create(second).await;
    if let Ok(created) = &answer {
        let id = created.id.clone();
        lab.will_clean(&VmRef { id, owner });
    }
    lab.refused(answer, ErrorKind::NameConflict, "a name that is taken")?;
    let after = lab.state(&vm.id).await?;
    untouched(&before, &after)
}

/// The name on the hypervisor, which `provider.v1` tells only in the list.
async fn before_name(lab: &Lab, vm: &VmRef) -> Checked<String> {
    Ok(lab.listed(&vm.id).await?.name)
}

async fn identity_conflict(lab: &Lab) -> Checked {
    let vm = lab.vm().await?;
    let before = lab.state(&vm.id).await?;
    let theirs = VmRef {
        id: vm.id.clone(),
        owner: Some(lab.owner()),
    };
    let desired = CreateVm {
        name: before.name.clone(),
        owner: theirs.owner.clone(),
        ..lab.desired()
    };
    let kind = ErrorKind::IdentityConflict;
    let provider = lab.provider();
    lab.refused(
        provider.power(&theirs, PowerOp::On.into()).await,
        kind,
        "power",
    )?;
    lab.refused(
        provider.reconfigure(&theirs, desired).await,
        kind,
        "reconfigure",
    )?;
    lab.refused(provider.delete(&theirs).await, kind, "delete")?;
    let after = lab.state(&vm.id).await?;
    untouched(&before, &after)
}

async fn invalid(lab: &Lab) -> Checked {
    let mut desired = lab.desired();
    desired.class.cpu = 0;
    let owner = desired.owner.clone();
    let answer = lab.provider().create(desired).await;
    if let Ok(created) = &answer {
        let id = created.id.clone();
        lab.will_clean(&VmRef { id, owner });
    }
    let error = lab.refused(answer, ErrorKind::Invalid, "a VM without CPUs")?;
    let begins = error.message.starts_with(char::is_uppercase);
    ensure!(
        begins,
        "the text does not begin with a capital: {:?}",
        error.message
    );
    let field = error.field.unwrap_or_default();
    ensure!(
        !field.is_empty(),
        "the error names no field: {:?}",
        error.message
    );
    Ok(())
}

async fn delete_twice(lab: &Lab) -> Checked {
    let vm = lab.running().await?;
    lab.delete(&vm).await?;
    let listed = lab.provider().list_vms().await?;
    ensure!(
        !listed.iter().any(|other| other.id == vm.id),
        "it is still in the list"
    );
    match lab.provider().delete(&vm).await {
        Ok(task) => lab.done(task).await,
        Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}
