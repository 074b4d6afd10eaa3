//! Options of the manager about the pods that it makes for providers.

use std::time::Duration;

use clap::{Args, ValueEnum};
use polyvirt_pki::rotation::{Lifetimes, TooShort};

/// Options of `polyvirt manager` about the pods of providers.
#[derive(Clone, Debug, Args)]
pub struct Pods {
    /// Where providers of mode Remote run: in pods, or in child processes where there are none, as `polyvirt up` does
    #[arg(long, value_enum, default_value_t = RemoteProviders::Pods, value_name = "WHERE")]
    pub remote_providers: RemoteProviders,
    /// The image of providers in pods (mode Remote) that name none
    #[arg(long, env = "POLYVIRT_PROVIDER_IMAGE", value_name = "IMAGE")]
    pub provider_image: Option<String>,
    /// The types of provider that may run in pods (comma separated); without it all
    #[arg(
        long,
        env = "POLYVIRT_PROVIDER_TYPES",
        value_delimiter = ',',
        value_name = "TYPES"
    )]
    pub provider_types: Vec<String>,
    /// The labels of the manager's pods (comma separated key=value): no other pods may call providers
    #[arg(
        long,
        env = "POLYVIRT_MANAGER_LABELS",
        value_delimiter = ',',
        default_value = "app.kubernetes.io/name=polyvirt,app.kubernetes.io/component=manager",
        value_name = "LABELS"
    )]
    pub provider_clients: Vec<String>,
    /// The domain of the cluster's Services
    #[arg(
        long,
        env = "CLUSTER_DOMAIN",
        default_value = "cluster.local",
        value_name = "DOMAIN"
    )]
    pub cluster_domain: String,
    /// How long certificates are valid, those of providers, webhooks and gateway; renewed when two thirds are over
    #[arg(long, default_value = "90d", value_name = "TIME")]
    pub certificate_lifetime: Span,
    /// How long the authority that signs them is valid, at least 3.3 times as long; without it twenty times. Replaced when two thirds are over
    #[arg(long, value_name = "TIME")]
    pub authority_lifetime: Option<Span>,
}

impl Pods {
    /// How long certificates and their authority live.
    pub fn lifetimes(&self) -> Result<Lifetimes, TooShort> {
        let leaf = self.certificate_lifetime.0;
        let lifetimes = Lifetimes::of_leaf(leaf);
        match self.authority_lifetime {
            None => Ok(lifetimes),
            Some(Span(authority)) => lifetimes.with_authority(authority),
        }
    }
}

/// Where providers of mode Remote run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RemoteProviders {
    /// In Deployments of their own
    Pods,
    /// In child processes of the manager, on loopback
    Processes,
}

/// A length of time, such as `90d`, `12h`, `30m` or `45s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl std::str::FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("{text:?} is no time: write a number and s, m, h or d");
        let (number, unit) = text
            .split_at_checked(text.len().saturating_sub(1))
            .ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 24 * 3600,
            _ => return Err(wrong()),
        };
        let total = number.checked_mul(seconds).filter(|total| *total > 0);
        total.map(Duration::from_secs).map(Self).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time() {
        let seconds = |text: &str| text.parse::<Span>().map(|s| s.0.as_secs());
        assert_eq!(seconds("90d"), Ok(7_776_000));
        assert_eq!(seconds("45s"), Ok(45));
        for wrong in ["", "d", "0s", "-1h", "1w", "ninety", "é"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
