//! What happens in a run: all of it from one seed.

use std::time::Duration;

use polyvirt_provider_mock::{MockConfig, TaskMode, Times};
use serde_json::{Value, json};

/// Splitmix64: small, and the same everywhere.
pub struct Chance(u64);

impl Chance {
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than the limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// One time in so many.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap_or(0)]
    }

    /// At least, at most.
    pub fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.below(most - least + 1))
    }
}

/// How the manager reaches the hypervisor.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    Direct,
    LateAnswers,
    Wire,
}

/// What goes wrong on the hypervisor, some of it in each run.
const FAULTS: [&str; 9] = [
    "lose=Create:30%",
    "lose=Power:30%",
    "lose=Delete:30% lose=Reconfigure:30%",
    "fail=*:Unavailable:4%",
    "forget=30%",
    "break=15%",
    "duplicate=30% reorder=30%",
    "crash=Create:1 crash=Power:1",
    "drop=Create:1 drop=Delete:1",
];

pub fn faults(chance: &mut Chance) -> Vec<&'static str> {
    let some = chance.below(4);
    (0..some).map(|_| chance.pick(&FAULTS)).collect()
}

pub fn hypervisor(chance: &mut Chance) -> MockConfig {
    let mut time = || chance.millis(0, 150);
    let times = Times {
        create: time(),
        delete: time(),
        power: time(),
        reconfigure: time(),
        image: time(),
        shutdown: time(),
        ..Times::default()
    };
    MockConfig {
        tasks: chance.pick(&[TaskMode::Immediate, TaskMode::Async]),
        times,
        seed: chance.below(u64::MAX),
        ..MockConfig::default()
    }
}

/// What the user wants of one VM at last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    pub name: String,
    pub cpu: u32,
    pub power: &'static str,
    pub disks: Vec<(&'static str, u32)>,
    pub deleted: bool,
}

impl Wish {
    pub fn new(number: u64, chance: &mut Chance) -> Self {
        Self {
            name: format!("vm-{number}"),
            cpu: 2,
            power: chance.pick(&["On", "On", "Off"]),
            disks: vec![("data", 1)],
            deleted: false,
        }
    }

    /// The spec that says so.
    pub fn spec(&self) -> Value {
        let disk = |(name, gib): &(&str, u32)| json!({"name": name, "sizeGiB": gib, "expandPolicy": "Online"});
        json!({
            "resources": {"cpu": self.cpu},
            "powerState": self.power,
            "disks": self.disks.iter().map(disk).collect::<Vec<_>>(),
            "reconfigurePolicy": {"restart": "WhenNeeded"},
            "lifecycle": {"gracefulShutdownTimeout": "2s"},
        })
    }

    /// The user changes their mind.
    pub fn change(&mut self, chance: &mut Chance) {
        match chance.below(6) {
            0 | 1 => self.power = chance.pick(&["On", "Off", "OffGraceful"]),
            2 => self.cpu = u32::try_from(1 + chance.below(8)).unwrap_or(1),
            3 => self.disks[0].1 += 1,
            4 if self.disks.len() == 1 => self.disks.push(("more", 2)),
            4 => self.disks.truncate(1),
            _ => self.deleted = chance.one_in(2),
        }
    }
}
