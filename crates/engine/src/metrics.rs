//! What the manager counts, under the names that dashboards of the field already use.

mod labels;
mod moves;

use std::sync::Arc;
use std::time::Duration;

use polyvirt_api::infra::DriftKind;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::runtime::queue::Urgency;

pub use labels::*;
pub use moves::Moves;

/// The calls that count as operations on VMs.
const OPERATIONS: [&str; 10] = [
    "Create",
    "Delete",
    "Power",
    "Describe",
    "Reconfigure",
    "SnapshotCreate",
    "SnapshotDelete",
    "SnapshotRevert",
    "Clone",
    "Migrate",
];

/// All that the manager counts.
#[derive(Clone)]
pub struct Metrics {
    passes: Family<PassLabels, Counter>,
    pass_seconds: Family<KindLabel, Histogram>,
    wait_seconds: Family<UrgencyLabel, Histogram>,
    ready_seconds: Family<TypeLabel, Histogram>,
    calls: Family<CallLabels, Counter>,
    call_seconds: Family<MethodLabels, Histogram>,
    operations: Family<OperationLabels, Counter>,
    corrections: Family<CorrectionLabels, Counter>,
    circuit: Family<ProviderLabels, Gauge>,
    circuit_failures: Family<ProviderLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    tasks: Family<ProviderLabels, Gauge>,
    unclaimed: Family<ProviderLabels, Gauge>,
    address_seconds: Family<TypeLabel, Histogram>,
    build: Family<BuildLabels, Gauge>,
    leading: Family<LeaseLabel, Gauge>,
    /// Moves between hosts.
    pub moves: Moves,
    /// Objects that wait to be looked at.
    pub queue_depth: Gauge,
    /// VMs by kind of object in the cache.
    pub objects: Family<KindLabel, Gauge>,
}

/// How a circuit stands, as the gauge has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Circuit {
    /// Calls go through.
    Closed = 0,
    /// One call tries.
    HalfOpen = 1,
    /// Calls fail at once.
    Open = 2,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 4.0, 9))
}

/// For what takes a guest's time.
fn long_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.25, 2.0, 12))
}

/// Always one; its labels are what it tells.
fn build(git_sha: &'static str) -> Family<BuildLabels, Gauge> {
    let build = Family::<BuildLabels, Gauge>::default();
    let labels = BuildLabels {
        version: env!("CARGO_PKG_VERSION"),
        git_sha,
        component: "manager",
    };
    build.get_or_create(&labels).set(1);
    build
}

impl Default for Metrics {
    /// Metrics of a program whose commit is not known.
    fn default() -> Self {
        Self::of_build("unknown")
    }
}

impl Metrics {
    /// Metrics of a program that was built from that commit.
    pub fn of_build(git_sha: &'static str) -> Self {
        Self {
            passes: Family::default(),
            pass_seconds: Family::new_with_constructor(seconds),
            wait_seconds: Family::new_with_constructor(seconds),
            ready_seconds: Family::new_with_constructor(long_seconds),
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(seconds),
            operations: Family::default(),
            corrections: Family::default(),
            circuit: Family::default(),
            circuit_failures: Family::default(),
            errors: Family::default(),
            tasks: Family::default(),
            unclaimed: Family::default(),
            address_seconds: Family::new_with_constructor(long_seconds),
            build: build(git_sha),
            leading: Family::default(),
            moves: Moves::default(),
            queue_depth: Gauge::default(),
            objects: Family::default(),
        }
    }
}

impl Metrics {
    /// Registers everything under the names of the reference page.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "leader_election_master_status",
            "1 while this manager leads, 0 while it stands by",
            self.leading.clone(),
        );
        let registry = registry.sub_registry_with_prefix("virtrigaud");
        registry.register(
            "manager_reconcile",
            "Passes over objects",
            self.passes.clone(),
        );
        registry.register(
            "manager_reconcile_duration_seconds",
            "Time of a pass",
            self.pass_seconds.clone(),
        );
        registry.register(
            "queue_wait_seconds",
            "Time from a change (a user's, an event of a provider's) to the pass that answers it",
            self.wait_seconds.clone(),
        );
        registry.register(
            "vm_ready_duration_seconds",
            "Time from the creation of a VirtualMachine to its first Running",
            self.ready_seconds.clone(),
        );
        registry.register(
            "provider_rpc_requests",
            "Calls to providers",
            self.calls.clone(),
        );
        registry.register(
            "provider_rpc_latency_seconds",
            "Time of a call to a provider",
            self.call_seconds.clone(),
        );
        registry.register(
            "vm_operations",
            "Operations on VMs",
            self.operations.clone(),
        );
        registry.register(
            "vm_drift_corrections",
            "Changes made outside Kubernetes that were corrected, such as a crashed VM that was started again",
            self.corrections.clone(),
        );
        registry.register(
            "circuit_breaker_state",
            "0 closed, 1 half open, 2 open or never connected",
            self.circuit.clone(),
        );
        registry.register(
            "circuit_breaker_failures",
            "Failures that count against a provider",
            self.circuit_failures.clone(),
        );
        registry.register("errors", "Errors by reason", self.errors.clone());
        registry.register(
            "queue_depth",
            "Objects that wait to be looked at",
            self.queue_depth.clone(),
        );
        registry.register(
            "provider_tasks_inflight",
            "Tasks of providers that are waited for",
            self.tasks.clone(),
        );
        registry.register(
            "provider_unclaimed_vms",
            "VMs that were made for objects which are not there",
            self.unclaimed.clone(),
        );
        registry.register(
            "ip_discovery_duration_seconds",
            "Time from the start of a VM to its first address",
            self.address_seconds.clone(),
        );
        self.moves.register(registry);
        registry.register("build_info", "What runs", self.build.clone());
        registry.register("objects", "Objects in the cache", self.objects.clone());
    }

    /// A pass ended.
    pub fn pass(&self, kind: &'static str, outcome: &'static str, took: Duration) {
        self.passes
            .get_or_create(&PassLabels { kind, outcome })
            .inc();
        self.pass_seconds
            .get_or_create(&KindLabel { kind })
            .observe(took.as_secs_f64());
    }

    /// An object has waited so long for its pass.
    pub fn waited(&self, urgency: Urgency, took: Duration) {
        let urgency = match urgency {
            Urgency::User => "user",
            Urgency::Event => "event",
            Urgency::Background => "background",
        };
        self.wait_seconds
            .get_or_create(&UrgencyLabel { urgency })
            .observe(took.as_secs_f64());
    }

    /// A VM runs for the first time, so long after its object was created.
    pub fn vm_ready(&self, provider_type: &str, took: Duration) {
        let provider_type = provider_type.to_owned();
        self.ready_seconds
            .get_or_create(&TypeLabel { provider_type })
            .observe(took.as_secs_f64());
    }

    /// A call to a provider ended.
    pub fn call(
        &self,
        provider: &ProviderLabels,
        method: &'static str,
        code: Result<(), polyvirt_contract::ErrorKind>,
        took: Duration,
    ) {
        let provider_type = provider.provider_type.clone();
        let word = code.map_or_else(polyvirt_contract::ErrorKind::reason, |()| "OK");
        self.calls
            .get_or_create(&CallLabels {
                provider_type: provider_type.clone(),
                method,
                code: word,
            })
            .inc();
        self.call_seconds
            .get_or_create(&MethodLabels {
                provider_type: provider_type.clone(),
                method,
            })
            .observe(took.as_secs_f64());
        if let Err(kind) = code {
            self.errors
                .get_or_create(&ErrorLabels {
                    reason: kind.reason(),
                    component: "provider",
                })
                .inc();
        }
        if OPERATIONS.contains(&method) {
            let outcome = if code.is_ok() { "success" } else { "error" };
            let labels = OperationLabels {
                operation: method,
                provider_type,
                provider: provider.provider.clone(),
                outcome,
            };
            self.operations.get_or_create(&labels).inc();
        }
    }

    /// A change made outside Kubernetes was corrected.
    pub fn drift_corrected(&self, provider: &ProviderLabels, kind: DriftKind) {
        let kind = match kind {
            DriftKind::Power => "power",
            DriftKind::Size => "size",
            DriftKind::Deletion => "deletion",
        };
        let labels = CorrectionLabels {
            kind,
            provider_type: provider.provider_type.clone(),
            provider: provider.provider.clone(),
        };
        self.corrections.get_or_create(&labels).inc();
    }

    /// So many tasks of a provider are waited for now.
    pub fn tasks(&self, provider: &ProviderLabels, number: usize) {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.tasks.get_or_create(provider).set(number);
    }

    /// So many VMs of a provider were made for objects that are not there.
    pub fn unclaimed(&self, provider: &ProviderLabels, number: usize) {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.unclaimed.get_or_create(provider).set(number);
    }

    /// A VM got its first address so long after it was started.
    pub fn address_found(&self, provider: &ProviderLabels, took: Duration) {
        let provider_type = provider.provider_type.clone();
        self.address_seconds
            .get_or_create(&TypeLabel { provider_type })
            .observe(took.as_secs_f64());
    }

    /// This manager stands by for a Lease.
    pub fn stands_by(&self, lease: &str) {
        let name = lease.to_owned();
        self.leading.get_or_create(&LeaseLabel { name }).set(0);
    }

    /// This manager holds a Lease.
    pub fn leads(&self, lease: &str) {
        let name = lease.to_owned();
        self.leading.get_or_create(&LeaseLabel { name }).set(1);
    }

    /// A provider's circuit moved.
    pub fn circuit(&self, provider: &ProviderLabels, circuit: Circuit) {
        self.circuit.get_or_create(provider).set(circuit as i64);
        if circuit == Circuit::Open {
            self.circuit_failures.get_or_create(provider).inc();
        }
    }

    /// A provider was not connected yet. It is no failure that counts.
    pub fn unconnected(&self, provider: &ProviderLabels) {
        let circuit = self.circuit.get_or_create(provider);
        circuit.set(Circuit::Open as i64);
    }

    /// A Provider is gone: its series go with it.
    pub fn forget(&self, provider: &ProviderLabels) {
        self.circuit.remove(provider);
        self.tasks.remove(provider);
        self.unclaimed.remove(provider);
        self.circuit_failures.remove(provider);
    }
}

/// Metrics that nobody looks at, for tests.
pub fn unobserved() -> Arc<Metrics> {
    Arc::new(Metrics::default())
}
