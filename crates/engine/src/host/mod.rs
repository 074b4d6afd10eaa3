//! The controller of Hosts: what the provider reports of a host, and what its object asks of the scheduler.
//!
//! People make these objects; the manager fills their status from the inventory that it has of the Provider anyway. No host is
//! asked on its own, and nothing is written while nothing changes.

pub mod pool;
pub mod rules;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{self, HostHealth, HostStatus};
use polyvirt_contract::model::{self, Inventory};
use polyvirt_plan::Reason;
use polyvirt_plan::conditions::{self, Finding, Truth, kind};

use crate::cluster::{self, ClusterError, Patch};
use crate::context::Context;
use crate::next::Next;
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::runtime::vm_index::Target;
use crate::shared::{keep, status_body};

/// Brings the status of one host up to date.
pub async fn reconcile(ctx: &Context, key: &ObjectKey) -> Next {
    let Some(host) = ctx.stores.hosts.get(key) else {
        return Next::Idle;
    };
    match pass(ctx, key, &host).await {
        Ok(()) => Next::Idle,
        Err(error) => Next::after_refusal(&error),
    }
}

async fn pass(ctx: &Context, object: &ObjectKey, host: &infra::Host) -> Result<(), ClusterError> {
    let old = host.status.clone().unwrap_or_default();
    let mut new = status(ctx, object, host);
    if new == old {
        return Ok(());
    }
    new.last_heartbeat_time = Some(Time(ctx.now()));
    let key = Key::new(Kind::Host, object.clone());
    let body = Patch::Status(status_body(&key, &new));
    let written: infra::Host = cluster::patch(&*ctx.cluster, &key, body).await?;
    keep(&ctx.stores.hosts, host, written);
    Ok(())
}

/// What is known of the host. The time of the last change is left as it was.
fn status(ctx: &Context, key: &ObjectKey, host: &infra::Host) -> HostStatus {
    let found = look_up(ctx, key, host);
    let mut new = HostStatus {
        bound_vms: Some(bound_vms(ctx, key, host)),
        observed_generation: host.metadata.generation,
        ..host.status.clone().unwrap_or_default()
    };
    match &found {
        Ok((told, inventory)) => observed(&mut new, told, inventory),
        Err(_) => new.health = Some(HostHealth::Unknown),
    }
    let generation = host.metadata.generation;
    let mut set = |finding| conditions::set(&mut new.conditions, finding, generation, ctx.now());
    set(ready(found.as_ref().map(|(told, _)| told), host));
    set(honoured(&idle_fields(host)));
    new
}

type Found = Result<(model::Host, Inventory), (Reason, String)>;

fn look_up(ctx: &Context, key: &ObjectKey, host: &infra::Host) -> Found {
    let name = host.spec.provider_ref.as_ref().map(|r| r.name.as_str());
    let provider = ObjectKey::new(key.namespace(), name.unwrap_or_default());
    let away = |why: &str| {
        let text = format!("Provider {}: {why}", provider.name());
        (Reason::WaitingForDependencies, text)
    };
    if ctx.stores.providers.get(&provider).is_none() {
        return Err(away(
            "does not exist. Create it, or correct spec.providerRef.name",
        ));
    }
    let inventory = ctx.links.get(&provider).and_then(|l| l.view().inventory);
    let Some(inventory) = inventory else {
        return Err(away("has not reported its hosts yet"));
    };
    let found = inventory.hosts.iter().find(|told| told.name == key.name());
    match found.cloned() {
        Some(told) => Ok((told, (*inventory).clone())),
        None => Err(away(&format!(
            "reports no host of the name {}. Name the Host object as the provider names the host",
            key.name()
        ))),
    }
}

fn observed(status: &mut HostStatus, told: &model::Host, inventory: &Inventory) {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let stores = inventory.datastores.iter();
    let bytes = stores
        .filter(|d| d.hosts.is_empty() || d.hosts.contains(&told.name))
        .map(|d| d.capacity_bytes)
        .fold(0, u64::saturating_add);
    status.allocatable_cpu = i32::try_from(told.cpus).ok();
    status.allocatable_memory_mib = Some(number(told.memory_mib));
    status.allocatable_storage_bytes = Some(number(bytes)).filter(|bytes| *bytes > 0);
    status.health = Some(match told.health {
        model::HostHealth::Ready | model::HostHealth::Cordoned => HostHealth::Ready,
        model::HostHealth::Down => HostHealth::NotReady,
    });
}

/// VMs that run on the host or were assigned to it.
fn bound_vms(ctx: &Context, key: &ObjectKey, host: &infra::Host) -> i32 {
    let Some(of) = &host.spec.provider_ref else {
        return 0;
    };
    let provider = Target::Provider(ObjectKey::new(key.namespace(), &of.name));
    let users = ctx.stores.index.users(&provider);
    let there = users.iter().filter_map(|vm| ctx.stores.vms.get(vm));
    let there = there.filter(|vm| {
        let status = vm.status.as_ref();
        let seen = status.and_then(|s| s.host.as_deref());
        let chosen = || status.and_then(|s| s.placement.as_ref()?.host.as_deref());
        seen.or_else(chosen) == Some(key.name())
    });
    i32::try_from(there.count()).unwrap_or(i32::MAX)
}

fn ready(found: Result<&model::Host, &(Reason, String)>, host: &infra::Host) -> Finding {
    match found {
        Err((reason, text)) => Finding::new(kind::READY, Truth::Unknown, *reason, text.clone()),
        Ok(told) if told.health == model::HostHealth::Down => Finding::new(
            kind::READY,
            Truth::False,
            Reason::ProviderUnavailable,
            "The provider does not reach the host. Check the host",
        ),
        Ok(_) if host.spec.schedulable == Some(false) => Finding::new(
            kind::READY,
            Truth::True,
            Reason::Valid,
            "The host is up and takes no new VMs (spec.schedulable is false)",
        ),
        Ok(_) => Finding::new(kind::READY, Truth::True, Reason::Valid, "The host is up"),
    }
}

/// Fields that are set and have no effect.
fn idle_fields(host: &infra::Host) -> Vec<&'static str> {
    let spec = &host.spec;
    let fields = [
        ("spec.endpoint", spec.endpoint.is_some()),
        (
            "spec.credentialSecretRef",
            spec.credential_secret_ref.is_some(),
        ),
    ];
    let set = fields.into_iter().filter(|(_, is_set)| *is_set);
    set.map(|(path, _)| path).collect()
}

/// Whether all fields that are set have an effect.
pub(crate) fn honoured(idle: &[&str]) -> Finding {
    if idle.is_empty() {
        let text = "All fields have an effect";
        return Finding::new(
            kind::FIELDS_HONOURED,
            Truth::True,
            Reason::AllFieldsHonoured,
            text,
        );
    }
    let text = format!(
        "These fields have no effect: {}. Remove them",
        idle.join(", ")
    );
    Finding::new(
        kind::FIELDS_HONOURED,
        Truth::False,
        Reason::FieldsIgnored,
        text,
    )
}
