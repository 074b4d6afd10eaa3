//! `docs/reference/budgets.md`: the promises as they are in the code, and the figures of the last run.

use std::fmt::Write;
use std::path::Path;

use anyhow::Context;

use super::budgets::{BUDGETS, Limit};
use super::report::{Report, number};

/// What follows is of the last run; what goes before is of the code alone.
const FIGURES: &str = "## Figures of the last run\n";

/// Writes the whole page.
pub fn write(path: &Path, report: &Report) -> anyhow::Result<()> {
    let page = format!("{}{}", promises(), figures(report));
    std::fs::write(path, page).with_context(|| format!("Cannot write {}", path.display()))
}

/// The part that depends on the code alone.
fn promises() -> String {
    let mut text = "\
# Budgets

<!-- Written by `polyvirt bench --write-docs`; do not edit. -->

What the manager and the QEMU provider may cost at most. `make bench` measures each on a real etcd and kube-apiserver, with
a mock provider behind gRPC or, for those of guests, with QEMU; it fails when one is exceeded. The figures are counts and
ratios, so that they mean the same on a slow machine.

| Budget | Limit | How it is measured |
|---|---|---|
"
    .to_owned();
    for budget in &BUDGETS {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            budget.name,
            limit(budget.limit, budget.unit),
            budget.how
        );
    }
    text.push_str("\nWith another number of VMs, the limits of memory are in proportion.\n\n");
    text
}

fn limit(limit: Limit, unit: &str) -> String {
    match limit {
        Limit::Fixed(value) => format!("{} {unit}", number(value)),
        Limit::Memory { vms, mib } => format!("{} {unit} with {vms} VMs", number(mib)),
    }
}

fn figures(report: &Report) -> String {
    let mut text = format!(
        "{FIGURES}\n{}.\n\n| Budget | Figure | Limit |\n|---|---|---|\n",
        report.circumstances.line()
    );
    for figure in &report.figures {
        let (value, most) = (number(figure.value), number(figure.limit));
        let _ = writeln!(
            text,
            "| `{}` | {value} {} | {most} |",
            figure.name, figure.unit
        );
    }
    text.push_str("\n| For information | |\n|---|---|\n");
    for fact in &report.facts {
        let _ = writeln!(text, "| {} | {} |", fact.about, fact.value);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Rewrite with `UPDATE_GENERATED=1 cargo test -p polyvirt budgets`; the figures stay those of the last run.
    #[test]
    fn the_page_has_the_budgets_of_the_code() {
        let path =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/budgets.md");
        let page = std::fs::read_to_string(&path).expect("the page is committed");
        let (promised, measured) = page.split_once(FIGURES).expect("the page has figures");
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            std::fs::write(&path, format!("{}{FIGURES}{measured}", promises())).expect("writable");
            return;
        }
        assert!(
            promised == promises(),
            "budgets.md is stale: run UPDATE_GENERATED=1 cargo test -p polyvirt budgets"
        );
    }
}
