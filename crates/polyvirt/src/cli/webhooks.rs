//! Options of the manager about the admission webhooks.

use clap::{Args, ValueEnum};

use super::Bind;

/// Options of `polyvirt manager` about the admission webhooks.
#[derive(Clone, Debug, Args)]
#[allow(
    clippy::struct_field_names,
    reason = "the names are those of the flags"
)]
pub struct Webhooks {
    /// Serve the admission webhooks to the API server here, while standing by too; 0 to switch them off
    #[arg(long, default_value = "0", value_name = "ADDRESS")]
    pub webhook_bind_address: Bind,
    /// The Service through which the API server reaches that address
    #[arg(long, default_value = "polyvirt-webhook", value_name = "NAME")]
    pub webhook_service_name: String,
    /// The namespace of that Service; nothing in it is looked at. Without it that of the pod, or polyvirt-system
    #[arg(long, value_name = "NAMESPACE")]
    pub webhook_service_namespace: Option<String>,
    /// The name of the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration, into which the authority is put
    #[arg(long, default_value = "polyvirt", value_name = "NAME")]
    pub webhook_configuration_name: String,
    /// A Secret with tls.crt, tls.key and ca.crt that somebody else keeps, such as cert-manager; without it the manager's own authority signs a certificate
    #[arg(long, value_name = "SECRET")]
    pub webhook_certificate: Option<String>,
    /// Outside a cluster: where the API server reaches that address, such as https://127.0.0.1:9443. Then the manager makes the configurations itself, and removes them when it stops
    #[arg(long, value_name = "URL")]
    pub webhook_url: Option<String>,
    /// With --webhook-url: what happens to requests when nobody answers. In a cluster the configurations say it
    #[arg(
        long,
        default_value = "ignore",
        value_name = "POLICY",
        ignore_case = true
    )]
    pub webhook_failure_policy: FailurePolicy,
}

/// What happens to requests when no webhook answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailurePolicy {
    /// They go on.
    Ignore,
    /// They are refused.
    Fail,
}
