//! What people read of a Provider. Pure but for the clock.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use polyvirt_api::infra::{
    CircuitState, Provider, ProviderCapability, ProviderError, ProviderFeature, ProviderLimits,
    ProviderStatus, ReportedCapabilities, ResourceUsage, RuntimeMode, UsageStats,
};
use polyvirt_contract::{Capabilities, Extension, Features};
use polyvirt_plan::conditions::{self, Finding, Truth, kind};
use polyvirt_plan::honoured::finding::of_sentences;
use polyvirt_plan::honoured::provider as honoured;
use polyvirt_plan::{Note, Problem, Reason};

use crate::context::Context;
use crate::link::session::totals;
use crate::link::{Standing, View};
use crate::provider::{NoWay, Place, place_report};
use crate::shared::{Protection, Usage};

/// What a pass has found out.
pub struct Findings<'a> {
    /// How the link stands.
    pub view: Option<&'a View>,
    /// Where the code runs, or why it does not.
    pub place: Result<&'a Place, &'a NoWay>,
    /// Who uses the Provider.
    pub usage: &'a Usage,
    /// Whether it may go.
    pub protection: Protection,
    /// How much is asked of it at a time.
    pub limits: ProviderLimits,
}

/// The status for what was found.
pub fn status(ctx: &Context, provider: &Provider, found: &Findings<'_>) -> ProviderStatus {
    let Findings {
        view, place, usage, ..
    } = *found;
    let mut new = provider.status.clone().unwrap_or_default();
    new.observed_generation = provider.metadata.generation;
    new.connected_vms = Some(usage.number());
    new.limits = Some(found.limits.clone());
    if place.is_ok() && is_connecting(view) && new.healthy.is_some() {
        // This process has just begun. What the last one knew is still the best that can be told.
        return new;
    }
    let finding = match (place, view) {
        (Err(NoWay::Unknown(_)), Some(view)) if is_connected(view) => {
            // Nothing is known to have changed but that nobody could look.
            return new;
        }
        (Err(no_way), _) => misconfigured(&mut new, no_way.problem()),
        (Ok(_), None) => connecting(),
        (Ok(place), Some(view)) => place_report::excused(standing(&mut new, view), place),
    };
    new.runtime = Some(place_report::runtime(provider, place.ok(), &finding));
    if let Some(view) = view {
        offers(&mut new, view);
    }
    if new.healthy != Some(finding.truth == Truth::True) {
        new.last_health_check = Some(Time(ctx.now()));
    }
    new.healthy = Some(finding.truth == Truth::True);
    put_conditions(ctx, provider, &mut new, finding, found);
    new
}

fn is_connecting(view: Option<&View>) -> bool {
    view.is_none_or(|view| view.standing == Standing::Connecting)
}

fn is_connected(view: &View) -> bool {
    matches!(view.standing, Standing::Connected { .. })
}

fn misconfigured(status: &mut ProviderStatus, problem: &Problem) -> Finding {
    status.connected_since = None;
    Finding::new(
        kind::READY,
        Truth::False,
        problem.reason,
        problem.to_string(),
    )
}

fn connecting() -> Finding {
    Finding::new(
        kind::READY,
        Truth::Unknown,
        Reason::Connecting,
        "The first connection is being made",
    )
}

fn standing(status: &mut ProviderStatus, view: &View) -> Finding {
    match &view.standing {
        Standing::Connecting => connecting(),
        Standing::Connected { since, latency } => {
            // A manager that starts anew is no interruption of the provider.
            let unbroken = status
                .connected_since
                .take()
                .filter(|_| status.healthy == Some(true));
            status.connected_since = Some(unbroken.unwrap_or(Time(*since)));
            status.latency_ms = i64::try_from(latency.as_millis()).ok();
            status.circuit = Some(CircuitState::Closed);
            Finding::new(
                kind::READY,
                Truth::True,
                Reason::Connected,
                "The provider answers",
            )
        }
        Standing::Unavailable { since, error } => {
            status.connected_since = None;
            status.circuit = Some(CircuitState::Open);
            status.last_error = Some(ProviderError {
                time: Some(Time(*since)),
                message: error.message.clone(),
            });
            Finding::new(
                kind::READY,
                Truth::False,
                error.kind.into(),
                error.message.clone(),
            )
        }
    }
}

fn offers(status: &mut ProviderStatus, view: &View) {
    if view.provider.is_none() {
        return;
    }
    status.version = Some(view.features.version.clone()).filter(|v| !v.is_empty());
    status.reported_capabilities = Some(reported(&view.capabilities));
    status.capabilities = summary(&view.capabilities, &view.features);
    status.features = view
        .features
        .extensions
        .iter()
        .map(|e| feature(*e))
        .collect();
    status.honoured_fields = view
        .features
        .honoured_fields
        .iter()
        .flatten()
        .cloned()
        .collect();
    status.resource_usage = view.inventory.as_ref().map(|inventory| {
        let [cpu, memory, storage] = totals(inventory);
        Box::new(ResourceUsage {
            cpu: Some(stats(cpu)),
            memory: Some(stats(memory)),
            storage: Some(stats(storage)),
            network: None,
        })
    });
}

fn stats((total, used): (u64, u64)) -> UsageStats {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let percent = used.saturating_mul(100).checked_div(total).unwrap_or(0);
    UsageStats {
        total: Some(number(total)),
        used: Some(number(used)),
        available: Some(number(total.saturating_sub(used))),
        usage_percent: i32::try_from(percent).ok(),
    }
}

const fn feature(extension: Extension) -> ProviderFeature {
    match extension {
        Extension::Identity => ProviderFeature::Identity,
        Extension::Watch => ProviderFeature::Watch,
        Extension::Inventory => ProviderFeature::Inventory,
        Extension::GuestExec => ProviderFeature::GuestExec,
        Extension::Console => ProviderFeature::Console,
        Extension::Migrate => ProviderFeature::Migrate,
        Extension::Usage => ProviderFeature::Usage,
        Extension::Pause => ProviderFeature::Pause,
    }
}

fn reported(can: &Capabilities) -> ReportedCapabilities {
    ReportedCapabilities {
        supports_reconfigure_online: can.reconfigure_online,
        supports_disk_expansion_online: can.disk_expansion_online,
        supports_snapshots: can.snapshots,
        supports_memory_snapshots: can.memory_snapshots,
        supports_linked_clones: can.linked_clones,
        supports_image_import: can.image_import,
        supports_disk_export: can.disk_export,
        supports_disk_import: can.disk_import,
        supports_export_compression: can.export_compression,
        supported_disk_types: can.disk_types.clone(),
        supported_network_types: can.network_types.clone(),
        supported_export_formats: can.export_formats.clone(),
        supported_import_formats: can.import_formats.clone(),
        supported_export_backends: can.export_backends.clone(),
        supported_import_backends: can.import_backends.clone(),
        supported_transfer_modes: can.transfer_modes.clone(),
    }
}

/// The coarse list of the older field.
fn summary(can: &Capabilities, features: &Features) -> Vec<ProviderCapability> {
    [
        (true, ProviderCapability::VirtualMachines),
        (can.snapshots, ProviderCapability::Snapshots),
        (can.linked_clones, ProviderCapability::Cloning),
        (
            features.has(Extension::Migrate),
            ProviderCapability::LiveMigration,
        ),
        (
            features.has(Extension::Console),
            ProviderCapability::ConsoleAccess,
        ),
        (
            can.disk_expansion_online || !can.disk_types.is_empty(),
            ProviderCapability::DiskManagement,
        ),
        (
            !can.network_types.is_empty(),
            ProviderCapability::NetworkManagement,
        ),
        (can.image_import, ProviderCapability::Templates),
    ]
    .into_iter()
    .filter_map(|(has, name)| has.then_some(name))
    .collect()
}

fn put_conditions(
    ctx: &Context,
    provider: &Provider,
    status: &mut ProviderStatus,
    ready: Finding,
    found: &Findings<'_>,
) {
    let generation = provider.metadata.generation;
    let known = status.reported_capabilities.is_some();
    let reported = honoured::reported(status);
    let status_runtime = status.runtime.as_ref().and_then(|r| r.mode);
    let list = &mut status.conditions;
    let mut put = |finding| conditions::set(list, finding, generation, ctx.now());
    put(place_report::runtime_ready(&ready, found.place.ok()));
    put(Finding {
        kind: kind::AVAILABLE,
        ..ready.clone()
    });
    put(ready);
    match found.place.ok().and_then(place_report::security) {
        Some(finding) => put(finding),
        None => conditions::clear(list, kind::TLS_CONFIGURED),
    }
    let mut put = |finding| conditions::set(list, finding, generation, ctx.now());
    put(if known {
        Finding::new(
            kind::CAPABILITIES,
            Truth::True,
            Reason::CapabilitiesFetched,
            "Read when it was connected",
        )
    } else {
        Finding::new(
            kind::CAPABILITIES,
            Truth::False,
            Reason::CapabilitiesUnavailable,
            "Read when it is connected",
        )
    });
    match found.protection {
        Protection::Blocked => put(found.usage.blocked()),
        _ => conditions::clear(list, kind::DELETING),
    }
    match unheard(provider, status_runtime, reported.as_ref()) {
        Some(finding) => conditions::set(list, finding, generation, ctx.now()),
        None => conditions::clear(list, kind::FIELDS_HONOURED),
    }
}

/// What the object asks for and does not get.
fn unheard(
    provider: &Provider,
    mode: Option<RuntimeMode>,
    reported: Option<&Features>,
) -> Option<Finding> {
    let mode = mode.unwrap_or_default();
    let ignored = honoured::ignored(provider, mode, reported);
    of_sentences([honoured::sentence(&ignored)])
}

/// Figures that move all the time are carried along with other changes, and cause no write of their own.
pub fn differs(old: &ProviderStatus, new: &ProviderStatus) -> bool {
    let quiet = ProviderStatus {
        latency_ms: old.latency_ms,
        resource_usage: old.resource_usage.clone(),
        ..new.clone()
    };
    quiet != *old
}

/// One event for each change of what `Ready` says.
pub fn transitions(old: &ProviderStatus, new: &ProviderStatus) -> Vec<Note> {
    let find = |s: &ProviderStatus| {
        s.conditions
            .iter()
            .find(|c| c.type_ == kind::READY)
            .cloned()
    };
    let says = |c: &Condition| (c.status.clone(), c.reason.clone());
    let (before, after) = (find(old), find(new));
    let Some(after) = after else {
        return Vec::new();
    };
    if before.as_ref().map(says) == Some(says(&after)) {
        return Vec::new();
    }
    let reason = Reason::parse(&after.reason).unwrap_or(Reason::ProviderError);
    match after.status.as_str() {
        "False" => vec![Note::warning(reason, after.message)],
        _ => vec![Note::normal(reason, after.message)],
    }
}
