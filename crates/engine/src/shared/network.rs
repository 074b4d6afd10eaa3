//! The controller of VMNetworkAttachments: who is connected, with which fixed addresses, and where it can be used.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polyvirt_api::infra::{
    IpAllocationRecord, NetworkPhase, NetworkProviderStatus, Provider, VMNetworkAttachment,
    VMNetworkAttachmentStatus, VirtualMachine,
};
use polyvirt_plan::Reason;
use polyvirt_plan::conditions::{self, Finding, Truth, kind};

use super::attachable::{self, Told};
use super::{Protection, Usage, keep, protect, status_body};
use crate::cluster::{self, ClusterError, Patch};
use crate::context::Context;
use crate::link::Standing;
use crate::next::Next;
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::runtime::vm_index::Target;

/// A status holds no more addresses than this; a larger network is counted, not listed.
const LISTED_ADDRESSES: usize = 256;

/// Brings the status of one network up to date.
pub async fn reconcile(ctx: &Context, key: &ObjectKey) -> Next {
    let Some(network) = ctx.stores.networks.get(key) else {
        return Next::Idle;
    };
    match pass(ctx, key, &network).await {
        Ok(()) => Next::Idle,
        Err(error) => Next::after_refusal(&error),
    }
}

async fn pass(
    ctx: &Context,
    object: &ObjectKey,
    network: &VMNetworkAttachment,
) -> Result<(), ClusterError> {
    let key = Key::new(Kind::VMNetworkAttachment, object.clone());
    let usage = Usage::of(ctx, &Target::Network(object.clone()));
    let mut network = network.clone();
    let protection = protect(ctx, &key, &ctx.stores.networks, &mut network, &usage).await?;
    if protection == Protection::Released {
        return Ok(());
    }
    let old = network.status.clone().unwrap_or_default();
    let new = status(ctx, &network, &usage, protection, &old);
    if new == old {
        return Ok(());
    }
    let written: VMNetworkAttachment =
        cluster::patch(&*ctx.cluster, &key, Patch::Status(status_body(&key, &new))).await?;
    keep(&ctx.stores.networks, &network, written);
    Ok(())
}

fn status(
    ctx: &Context,
    network: &VMNetworkAttachment,
    usage: &Usage,
    protection: Protection,
    old: &VMNetworkAttachmentStatus,
) -> VMNetworkAttachmentStatus {
    let providers = providers(ctx, network, old);
    let mut new = VMNetworkAttachmentStatus {
        ready: Some(true),
        phase: Some(NetworkPhase::Ready),
        message: None,
        available_on: providers
            .iter()
            .filter(|(_, s)| s.available)
            .map(|(name, _)| name.clone())
            .collect(),
        connected_vms: Some(usage.number()),
        ip_allocations: addresses(ctx, &ObjectKey::of(network), old),
        provider_status: providers,
        conditions: old.conditions.clone(),
        observed_generation: network.metadata.generation,
    };
    let generation = network.metadata.generation;
    let ready = Finding::new(
        kind::READY,
        Truth::True,
        Reason::Valid,
        "The network can be used",
    );
    conditions::set(&mut new.conditions, ready, generation, ctx.now());
    match protection {
        Protection::Blocked => {
            conditions::set(&mut new.conditions, usage.blocked(), generation, ctx.now());
        }
        _ => conditions::clear(&mut new.conditions, kind::DELETING),
    }
    new
}

/// Providers of the namespace: whether their VMs can be connected to the network.
fn providers(
    ctx: &Context,
    network: &VMNetworkAttachment,
    old: &VMNetworkAttachmentStatus,
) -> BTreeMap<String, NetworkProviderStatus> {
    let namespace = network.metadata.namespace.as_deref().unwrap_or_default();
    let all = ctx.stores.providers.list();
    let near = all
        .iter()
        .filter(|p| p.metadata.namespace.as_deref() == Some(namespace));
    near.map(|provider| {
        let name = provider.metadata.name.clone().unwrap_or_default();
        let before = old.provider_status.get(&name);
        let fresh = provider_status(ctx, network, provider, before);
        let same = old.provider_status.get(&name).filter(|before| {
            NetworkProviderStatus {
                last_updated: None,
                ..(*before).clone()
            } == fresh
        });
        let entry = same.cloned().unwrap_or(NetworkProviderStatus {
            last_updated: Some(Time(ctx.now())),
            ..fresh
        });
        (name, entry)
    })
    .collect()
}

/// What is known of a provider that this process has not heard yet is what was known before.
fn provider_status(
    ctx: &Context,
    network: &VMNetworkAttachment,
    provider: &Provider,
    before: Option<&NetworkProviderStatus>,
) -> NetworkProviderStatus {
    let link = ctx.links.get(&ObjectKey::of(provider));
    let view = link.map(|link| link.view());
    let told = match &view {
        Some(view) if matches!(view.standing, Standing::Connected { .. }) => Told::Answers {
            features: &view.features,
            inventory: view.inventory.as_deref(),
        },
        Some(view) if matches!(view.standing, Standing::Unavailable { .. }) => Told::Silent,
        _ => match before {
            Some(before) => {
                return NetworkProviderStatus {
                    last_updated: None,
                    ..before.clone()
                };
            }
            None => Told::Silent,
        },
    };
    attachable::entry(&network.spec.network, provider.spec.type_, &told)
}

/// Fixed addresses on this network, by VM.
fn addresses(
    ctx: &Context,
    key: &ObjectKey,
    old: &VMNetworkAttachmentStatus,
) -> Vec<IpAllocationRecord> {
    let users = ctx
        .stores
        .index
        .some_users(&Target::Network(key.clone()), LISTED_ADDRESSES);
    let vms = users.iter().filter_map(|user| ctx.stores.vms.get(user));
    vms.flat_map(|vm| fixed(ctx, key, &vm, old))
        .take(LISTED_ADDRESSES)
        .collect()
}

fn fixed(
    ctx: &Context,
    key: &ObjectKey,
    vm: &VirtualMachine,
    old: &VMNetworkAttachmentStatus,
) -> Vec<IpAllocationRecord> {
    let namespace = vm.metadata.namespace.as_deref().unwrap_or_default();
    let here = vm.spec.networks.iter().filter(|n| {
        n.network_ref
            .as_ref()
            .is_some_and(|r| ObjectKey::new(r.namespace_or(namespace), &r.name) == *key)
    });
    here.filter_map(|nic| {
        let ip = nic.ip_address.clone()?;
        let name = ObjectKey::of(vm).to_string();
        let before = old
            .ip_allocations
            .iter()
            .find(|a| a.ip == ip && a.vm == name);
        let at = before
            .and_then(|b| b.allocated_at.clone())
            .unwrap_or_else(|| Time(ctx.now()));
        Some(IpAllocationRecord {
            ip,
            vm: name,
            mac: nic.mac_address.clone(),
            allocated_at: Some(at),
            lease_expiry: None,
        })
    })
    .collect()
}
