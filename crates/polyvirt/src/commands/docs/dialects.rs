//! Metrics of the dialects with samples, for the reference page.

use std::time::Duration;

use polyvirt_dialects::novacron::metrics::Outcome;
use polyvirt_dialects::{novacron, vitistack};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::usage::Used;

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
    metrics.network_error(&ObjectKey::new("default", "web"), Some("prod-network"));
    metrics.storage_ready("default", Duration::ZERO);
    metrics
}

/// One sample of each family.
pub(super) fn vms_of_novacron() -> novacron::Metrics {
    let metrics = novacron::Metrics::default();
    metrics.count(&ObjectKey::new("default", "my-vm"), Some("Running"));
    metrics.pass(Outcome::Success, Duration::ZERO);
    metrics
}

/// What VMs of NovaCron use.
pub(super) fn figures_of_novacron() -> novacron::Figures {
    novacron::Figures::new(|| {
        let used = Used {
            cpu_cores: Some(0.5),
            memory_bytes: Some(1_000_000_000),
        };
        vec![(ObjectKey::new("default", "my-vm"), used)]
    })
}
