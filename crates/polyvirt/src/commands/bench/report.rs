//! What a run found: figures with verdicts, and facts for whoever wonders about them.

use std::fmt::Write;

use serde::Serialize;
use serde_json::json;

use super::budgets::{Budget, Name};

/// One figure and the limit that held for it.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub name: Name,
    pub value: f64,
    pub limit: f64,
    pub unit: &'static str,
}

/// Something worth knowing that has no limit.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    pub about: String,
    pub value: String,
}

/// The machine and the numbers of VMs.
#[derive(Clone, Debug, Serialize)]
pub struct Circumstances {
    pub version: &'static str,
    pub date: String,
    pub cpus: usize,
    pub memory_gib: u64,
    pub vms: usize,
    pub large: usize,
}

/// Everything that a run found.
#[derive(Debug)]
pub struct Report {
    pub circumstances: Circumstances,
    pub figures: Vec<Figure>,
    pub facts: Vec<Fact>,
}

impl Figure {
    /// The figure keeps its promise.
    pub fn holds(&self) -> bool {
        self.value <= self.limit
    }

    fn verdict(&self) -> &'static str {
        if self.holds() { "ok" } else { "OVER" }
    }
}

impl Report {
    /// Nothing yet.
    pub const fn new(circumstances: Circumstances) -> Self {
        Self {
            circumstances,
            figures: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// Takes a figure, measured with so many VMs.
    pub fn figure(&mut self, budget: &Budget, vms: usize, value: f64) {
        let figure = Figure {
            name: budget.name,
            value,
            limit: budget.limit.at(vms),
            unit: budget.unit,
        };
        tracing::info!(
            "{}: {} (at most {} {})",
            figure.name,
            number(value),
            number(figure.limit),
            figure.unit
        );
        self.figures.push(figure);
    }

    /// Takes a fact.
    pub fn fact(&mut self, about: impl Into<String>, value: impl Into<String>) {
        let fact = Fact {
            about: about.into(),
            value: value.into(),
        };
        tracing::info!("{}: {}", fact.about, fact.value);
        self.facts.push(fact);
    }

    /// Takes in what another part of the run found.
    pub fn append(&mut self, part: Self) {
        self.figures.extend(part.figures);
        self.facts.extend(part.facts);
    }

    /// The budgets that are exceeded.
    pub fn over(&self) -> Vec<Name> {
        self.figures
            .iter()
            .filter(|figure| !figure.holds())
            .map(|figure| figure.name)
            .collect()
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut text = format!("{}\n\n", self.circumstances.line());
        let _ = writeln!(
            text,
            "{:<18} {:>9} {:>9}  {:<23} VERDICT",
            "BUDGET", "LIMIT", "FIGURE", "UNIT"
        );
        for figure in &self.figures {
            let (limit, value) = (number(figure.limit), number(figure.value));
            let _ = writeln!(
                text,
                "{:<18} {limit:>9} {value:>9}  {:<23} {}",
                figure.name,
                figure.unit,
                figure.verdict()
            );
        }
        if !self.facts.is_empty() {
            text.push_str("\nFor information:\n");
        }
        for fact in &self.facts {
            let _ = writeln!(text, "  {}: {}", fact.about, fact.value);
        }
        text
    }

    /// For machines.
    pub fn json(&self) -> serde_json::Value {
        let figures: Vec<_> = self
            .figures
            .iter()
            .map(|f| json!({"name": f.name, "value": f.value, "limit": f.limit, "unit": f.unit, "ok": f.holds()}))
            .collect();
        json!({"circumstances": self.circumstances, "figures": figures, "facts": self.facts})
    }
}

impl Circumstances {
    /// What this machine is.
    pub fn here(vms: usize, large: usize) -> Self {
        let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib = super::running::kib_after(&meminfo, "MemTotal:").unwrap_or(0);
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            date,
            cpus,
            memory_gib: kib.div_ceil(1024 * 1024),
            vms,
            large,
        }
    }

    /// One line of it.
    pub fn line(&self) -> String {
        let Self {
            version,
            date,
            cpus,
            memory_gib,
            vms,
            large,
        } = self;
        format!(
            "polyvirt {version}, {date}, {cpus} CPUs and {memory_gib} GiB shared with etcd and the API server; {vms} VMs, large: {large}"
        )
    }
}

/// A figure with as many digits as mean something.
pub fn number(value: f64) -> String {
    let digits = match value {
        v if v.fract() == 0.0 => 0,
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(value: f64) -> Report {
        let circumstances = Circumstances {
            version: "1",
            date: "2026-01-01".into(),
            cpus: 2,
            memory_gib: 8,
            vms: 1000,
            large: 10_000,
        };
        let mut report = Report::new(circumstances);
        report.figure(
            Name::CreateWrites.budget().expect("in the table"),
            1000,
            value,
        );
        report
    }

    #[test]
    fn a_figure_at_its_limit_holds_and_one_above_is_named() {
        assert!(report(2.0).over().is_empty());
        assert!(report(2.0).table().contains("ok"));
        let over = report(2.001);
        assert_eq!(over.over(), vec![Name::CreateWrites]);
        assert!(over.table().contains("OVER"));
        assert_eq!(over.json()["figures"][0]["ok"], false);
    }

    #[test]
    fn numbers_are_short() {
        let shown: Vec<_> = [0.0, 3.0, 0.0123, 1.234, 12.34, 123.4]
            .into_iter()
            .map(number)
            .collect();
        assert_eq!(shown, ["0", "3", "0.012", "1.23", "12.3", "123"]);
    }
}
