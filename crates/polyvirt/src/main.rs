//! Every virtual machine, one Kubernetes API.

mod cli;
mod commands;
mod logging;
mod registry;

use clap::Parser;

/// Many small objects live long in the caches; this keeps them from scattering over the heap.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    let cli = cli::Cli::parse();
    logging::start(&cli.global);
    // Two TLS stacks would be one too many; both users of rustls are told which one it is.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match commands::run(cli) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}
