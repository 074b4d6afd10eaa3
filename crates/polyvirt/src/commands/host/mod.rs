//! `polyvirt host`: hosts of a provider, and how to empty them.

mod cordon;
mod drain;
mod list;
mod presence;

use std::time::Duration;

use clap::{Args, Subcommand};

use super::vm::connect::connect;
use super::vm::options::{MoveTerms, Place};

/// Options of `polyvirt host`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Which cluster and namespace
    #[command(flatten)]
    pub place: Place,
    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do with hosts.
#[derive(Clone, Debug, Subcommand)]
pub enum Verb {
    /// Show how many VMs are on which host
    List(OfProvider),
    /// Put no more VMs on a host
    Cordon(OneHost),
    /// Put VMs on a host again
    Uncordon(OneHost),
    /// Put no more VMs on a host, and move those away that are there
    #[command(visible_alias = "evacuate")]
    Drain(Drain),
}

/// A Provider.
#[derive(Clone, Debug, Args)]
pub struct OfProvider {
    /// The Provider
    pub provider: String,
}

/// A host of a Provider.
#[derive(Clone, Debug, Args)]
pub struct OneHost {
    /// The Provider
    pub provider: String,
    /// The host
    pub host: String,
}

/// Options of `polyvirt host drain`.
#[derive(Clone, Debug, Args)]
pub struct Drain {
    /// The host
    #[command(flatten)]
    pub host: OneHost,
    /// How many VMs move at once
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub parallel: usize,
    /// How to move; VMs that are off move cold in any case
    #[command(flatten)]
    pub terms: MoveTerms,
    /// How long one VM may take
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = super::vm::seconds)]
    pub timeout: Duration,
}

/// Does what was asked for.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let cluster = connect(&options.place).await?;
    match options.verb {
        Verb::List(of) => list::run(&cluster, &of).await,
        Verb::Cordon(host) => cordon::run(&cluster, &host, cordon::Wish::Closed).await,
        Verb::Uncordon(host) => cordon::run(&cluster, &host, cordon::Wish::Open).await,
        Verb::Drain(drain) => drain::run(&cluster, &drain).await,
    }
}
