//! What is there, asked of the cluster and not of memory.

use kube::api::ListParams;
use polyvirt_contract::model::VmState;
use polyvirt_contract::{Identity, Result, VmId};

use crate::books::Scope;
use crate::kinds::{IDENTITY, Kind, VmKey, label};
use crate::vm::Core;

/// The VM; `None` if the cluster has looked and it is not there.
pub(crate) async fn describe(core: &Core, id: &VmId) -> Result<Option<VmState>> {
    let Some(key) = VmKey::parse(id) else {
        return Ok(None);
    };
    let vm = core.cluster.look(Kind::Vm, &key).await?;
    core.books.settle(Kind::Vm, Scope::Vm(&key), &vm);
    let Some(found) = vm.objects.first() else {
        return crate::clone::under_way(core, &key).await;
    };
    if let Some(identity) = label(found, IDENTITY) {
        futures::try_join!(
            parts(core, Kind::Claim, &key, identity),
            parts(core, Kind::Snapshot, &key, identity)
        )?;
    }
    let instance = core.cluster.look(Kind::Vmi, &key).await?;
    core.books.settle(Kind::Vmi, Scope::Vm(&key), &instance);
    Ok(core.books.state(&key))
}

/// Takes note of claims or snapshots of a VM.
async fn parts(core: &Core, kind: Kind, key: &VmKey, identity: &str) -> Result<()> {
    let api = core.cluster.api(kind, &key.namespace);
    let params = ListParams::default().labels(&format!("{IDENTITY}={identity}"));
    note(core, kind, Scope::Vm(key), api, &params).await
}

async fn note(
    core: &Core,
    kind: Kind,
    scope: Scope<'_>,
    api: kube::Api<kube::core::DynamicObject>,
    params: &ListParams,
) -> Result<()> {
    let listed = core.cluster.list_served(kind, api, params).await?;
    let Some(listed) = listed else { return Ok(()) };
    core.books.settle(kind, scope, &listed);
    if kind == Kind::Snapshot {
        core.books.has_snapshots();
    }
    Ok(())
}

/// The VM that carries the identity.
pub(crate) async fn find(core: &Core, identity: &Identity) -> Result<Option<VmState>> {
    match key_of(core, identity).await? {
        Some(key) => describe(core, &key.id()).await,
        None => crate::clone::of_identity(core, identity).await,
    }
}

/// Where the VM is that carries the identity.
pub(crate) async fn key_of(core: &Core, identity: &Identity) -> Result<Option<VmKey>> {
    if identity.is_empty() {
        return Ok(None);
    }
    let api = core.cluster.everywhere(Kind::Vm);
    let params = ListParams::default().labels(&format!("{IDENTITY}={identity}"));
    let listed = core.cluster.list(Kind::Vm, api, &params).await?;
    let found = listed.objects.into_iter().next();
    Ok(found.and_then(|vm| crate::facts::about(Kind::Vm, &vm)))
}

/// All VMs, ours and others'.
pub(crate) async fn list(core: &Core) -> Result<Vec<VmState>> {
    let all = |kind| core.cluster.everywhere(kind);
    let every = ListParams::default();
    let ours = ListParams::default().labels(IDENTITY);
    let (vms, instances, (), ()) = futures::try_join!(
        core.cluster.list(Kind::Vm, all(Kind::Vm), &every),
        core.cluster.list(Kind::Vmi, all(Kind::Vmi), &every),
        note(core, Kind::Claim, Scope::All, all(Kind::Claim), &ours),
        note(core, Kind::Snapshot, Scope::All, all(Kind::Snapshot), &ours)
    )?;
    core.books.settle(Kind::Vm, Scope::All, &vms);
    core.books.settle(Kind::Vmi, Scope::All, &instances);
    let keys = vms
        .objects
        .iter()
        .filter_map(|vm| crate::facts::about(Kind::Vm, vm));
    Ok(keys.filter_map(|key| core.books.state(&key)).collect())
}
