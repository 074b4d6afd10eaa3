//! What a run covered, so that a green result says something.

use std::collections::BTreeMap;

use crate::effect::{Effect, Fate};

/// Counts of one schedule, or of many.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub schedules: u64,
    pub moves: u64,
    pub effects: u64,
    pub fates: BTreeMap<(Effect, Fate), u64>,
    pub counts: BTreeMap<&'static str, BTreeMap<String, u64>>,
}

impl Summary {
    pub fn fate(&mut self, effect: Effect, fate: Fate) {
        self.effects += 1;
        *self.fates.entry((effect, fate)).or_default() += 1;
    }

    pub fn count(&mut self, group: &'static str, what: &str) {
        let group = self.counts.entry(group).or_default();
        *group.entry(what.to_owned()).or_default() += 1;
    }

    pub fn add(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.moves += other.moves;
        self.effects += other.effects;
        for (key, count) in other.fates {
            *self.fates.entry(key).or_default() += count;
        }
        for (group, counts) in other.counts {
            let mine = self.counts.entry(group).or_default();
            for (what, count) in counts {
                *mine.entry(what).or_default() += count;
            }
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "{} schedules, {} moves, {} effects",
            self.schedules, self.moves, self.effects
        )?;
        for effect in Effect::ALL {
            let fates = self.fates.iter().filter(|((of, _), _)| *of == effect);
            let list: Vec<_> = fates
                .map(|((_, fate), n)| format!("{fate:?} {n}"))
                .collect();
            writeln!(f, "  {:<13} {}", format!("{effect:?}"), list.join(", "))?;
        }
        for (group, counts) in &self.counts {
            let list: Vec<_> = counts
                .iter()
                .map(|(what, n)| format!("{what} {n}"))
                .collect();
            writeln!(f, "  {group}: {}", list.join(", "))?;
        }
        Ok(())
    }
}
