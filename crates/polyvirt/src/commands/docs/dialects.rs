//! Metrics of the dialects with samples, for the reference page.

use std::time::Duration;

use polyvirt_dialects::novacron::metrics::{Counted, Outcome, Used};
use polyvirt_dialects::{novacron, vitistack};
use polyvirt_engine::runtime::key::ObjectKey;

/// One sample of each family.
pub(super) fn machines() -> vitistack::Metrics {
    let metrics = vitistack::Metrics::default();
    let counted = vitistack::metrics::Counted {
        phase: "Running".into(),
        template: "small".into(),
        vm: Some("Running".into()),
    };
    metrics.count(&ObjectKey::new("default", "web"), Some(counted));
    metrics.pass("Machine", Duration::ZERO);
    metrics.error("Machine", "TemplateNotFound");
    metrics.network_error("prod-network");
    metrics.storage_ready("default", Duration::ZERO);
    metrics
}

/// One sample of each family.
pub(super) fn vms_of_novacron() -> novacron::Metrics {
    let metrics = novacron::Metrics::default();
    let counted = Counted {
        phase: "Running".into(),
        used: Used {
            cpu_cores: Some(0.5),
            memory_bytes: Some(1e9),
        },
    };
    metrics.count(&ObjectKey::new("default", "my-vm"), Some(counted));
    metrics.pass(Outcome::Success, Duration::ZERO);
    metrics
}
