//! Labels of the metrics.

use prometheus_client::encoding::EncodeLabelSet;

/// Labels of a pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PassLabels {
    /// The kind of the object.
    pub kind: &'static str,
    /// `success`, `wait` or `error`.
    pub outcome: &'static str,
}

/// A kind alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabel {
    /// The kind of the object.
    pub kind: &'static str,
}

/// Who waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct UrgencyLabel {
    /// `user`, `event` or `background`.
    pub urgency: &'static str,
}

/// Labels of a call to a provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CallLabels {
    /// `qemu`, `libvirt`, …
    pub provider_type: String,
    /// The RPC.
    pub method: &'static str,
    /// `OK`, or the reason of the error.
    pub code: &'static str,
}

/// Labels of the time of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct MethodLabels {
    /// `qemu`, `libvirt`, …
    pub provider_type: String,
    /// The RPC.
    pub method: &'static str,
}

/// Labels of an operation on VMs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OperationLabels {
    /// The RPC: one of `OPERATIONS`.
    pub operation: &'static str,
    /// `qemu`, `libvirt`, …
    pub provider_type: String,
    /// Namespace and name of the Provider.
    pub provider: String,
    /// `success` or `error`.
    pub outcome: &'static str,
}

/// Labels of a correction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CorrectionLabels {
    /// `power`, `size` or `deletion`.
    pub kind: &'static str,
    /// `qemu`, `libvirt`, …
    pub provider_type: String,
    /// Namespace and name of the Provider.
    pub provider: String,
}

/// A provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ProviderLabels {
    /// `qemu`, `libvirt`, …
    pub provider_type: String,
    /// Namespace and name of the Provider.
    pub provider: String,
}

/// A kind of provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TypeLabel {
    /// `qemu`, `libvirt`, …
    pub provider_type: String,
}

/// What one manager at a time holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LeaseLabel {
    /// The name of the Lease.
    pub name: String,
}

/// An error.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ErrorLabels {
    /// The reason, as in the condition.
    pub reason: &'static str,
    /// Where: the kind, or `provider`.
    pub component: &'static str,
}

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct BuildLabels {
    /// The version of the program.
    pub version: &'static str,
    /// The commit it was built from, where the build said so.
    pub git_sha: &'static str,
    /// `manager`.
    pub component: &'static str,
}
