//! `polyvirt completion`.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::{Cli, Completion};

/// Prints the completion script of a shell.
pub fn run(options: &Completion) {
    let mut script = Vec::new();
    let shell: Shell = options.shell;
    clap_complete::generate(shell, &mut Cli::command(), "polyvirt", &mut script);
    let _ = std::io::stdout().write_all(&script);
}
