//! Every virtual machine, one Kubernetes API.

mod cli;
mod commands;
mod exit;
mod guests;
mod logging;
mod registry;

/// Many small objects live long in the caches; this keeps them from scattering over the heap.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    let cli = cli::Cli::read();
    logging::start(&cli.global);
    // Two TLS stacks would be one too many; both users of rustls are told which one it is.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match commands::run(cli) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            let (code, told) = exit::code(&error);
            if told == exit::Told::NotYet {
                tracing::error!("{error:#}");
            }
            code
        }
    }
}
