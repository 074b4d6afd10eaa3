//! Every virtual machine, one Kubernetes API.

mod cli;
mod commands;
mod exit;
mod guests;
mod hypervisors;
mod leader_label;
mod logging;
mod prepare;
mod registry;
mod rights;
mod webhooks;

use std::io::Write;

use cli::Audience;

/// Many small objects live long in the caches; this keeps them from scattering over the heap.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    let cli = cli::Cli::read();
    let audience = cli.command.audience();
    // Two TLS stacks would be one too many; all users of rustls are told which one it is.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let traces = logging::start(&cli.global, audience);
    match commands::run(cli, traces) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            let (code, told) = exit::code(&error);
            match (told, audience) {
                (exit::Told::Already, _) => {}
                (exit::Told::NotYet, Audience::People) => {
                    let _ = writeln!(std::io::stderr(), "error: {error:#}");
                }
                (exit::Told::NotYet, Audience::Operators) => tracing::error!("{error:#}"),
            }
            code
        }
    }
}
