//! The command line of `polyvirt bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::budgets::Name;

/// Options of `polyvirt bench`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// VMs of the ordinary measurements [default: 1000, with --quick 300]
    #[arg(long, value_name = "N", value_parser = enough)]
    pub vms: Option<usize>,
    /// VMs of the large measurements [default: 10000, with --quick 2000]
    #[arg(long, value_name = "N", value_parser = enough)]
    pub large: Option<usize>,
    /// The format of the figures
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Measure these budgets only (comma separated)
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAMES")]
    pub only: Vec<Name>,
    /// The test guest, for the budgets of guests (hack/guest.sh builds it and prints its path)
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// Fewer VMs and trials, shorter waits
    #[arg(long)]
    pub quick: bool,
    /// Write the reference page of the budgets, with the figures of this run
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "docs/reference/budgets.md")]
    pub write_docs: Option<PathBuf>,
}

/// Formats of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Table,
    /// For machines
    Json,
}

const FEWEST: usize = 100;

fn enough(text: &str) -> Result<usize, String> {
    let number = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if number < FEWEST {
        Err(format!("fewer than {FEWEST} VMs tell nothing"))
    } else {
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_vms_are_refused() {
        assert_eq!(enough("100"), Ok(100));
        assert!(enough("99").is_err_and(|e| e.contains("fewer than 100")));
        assert!(enough("many").is_err_and(|e| e.contains("no number")));
    }
}
