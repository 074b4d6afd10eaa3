//! What the manager may cost: the one table from which the bench, its verdicts and the reference page are made.

use clap::ValueEnum;
use serde::Serialize;

/// VMs of the ordinary measurements, unless told otherwise.
pub const VMS: usize = 1000;
/// VMs of the large measurements, unless told otherwise.
pub const LARGE: usize = 10_000;

/// The name of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    CreateWrites,
    CreateEvents,
    CreateMutations,
    CreateTime,
    TaskWrites,
    TaskEvents,
    RestWrites,
    RestCalls,
    DriftLatency,
    EditFirst,
    Memory,
    MemoryLarge,
    RestartWrites,
    RestartMutations,
    GuestReady,
    GuestMemory,
}

/// What is measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Create,
    Tasks,
    Rest,
    Drift,
    Edit,
    Memory,
    Large,
    Restart,
    Guest,
}

/// The most that is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Whatever the number of VMs.
    Fixed(f64),
    /// MiB at so many VMs; with another number, the line through all limits of this kind.
    Memory { vms: usize, mib: f64 },
}

/// One promise.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    pub name: Name,
    pub stage: Stage,
    pub limit: Limit,
    pub unit: &'static str,
    /// What is counted, and how; a sentence for the reference page.
    pub how: &'static str,
}

const SMALL_MIB: f64 = 40.0;
const LARGE_MIB: f64 = 150.0;

/// All promises, in the order in which they are measured.
pub const BUDGETS: [Budget; 16] = [
    Budget {
        name: Name::CreateWrites,
        stage: Stage::Create,
        limit: Limit::Fixed(2.0),
        unit: "writes per VM",
        how: "Requests of the manager that write VirtualMachines, granted or not, from the audit log of the API server: from \
              the creation of all VMs at once until all are Running and nothing moves any more. The provider answers when the work \
              is done, without tasks.",
    },
    Budget {
        name: Name::CreateEvents,
        stage: Stage::Create,
        limit: Limit::Fixed(2.0),
        unit: "events per VM",
        how: "The same, for Events.",
    },
    Budget {
        name: Name::CreateMutations,
        stage: Stage::Create,
        limit: Limit::Fixed(2.0),
        unit: "calls per VM",
        how: "Calls that changed something on the hypervisor in that time, counted by the mock provider. The image is prepared \
              before, by one VM that does not count.",
    },
    Budget {
        name: Name::CreateTime,
        stage: Stage::Create,
        limit: Limit::Fixed(2.0),
        unit: "x the floor",
        how: "Time from the first create until a watch has seen all VMs with Ready=True, divided by the floor: the time of bare \
              writes of the same number, verbs, bodies and concurrency on other objects of the same API server, right after.",
    },
    Budget {
        name: Name::Memory,
        stage: Stage::Memory,
        limit: Limit::Memory {
            vms: VMS,
            mib: SMALL_MIB,
        },
        unit: "MiB",
        how: "Resident memory of the manager's process (VmRSS) when all VMs are Running and nothing moves any more.",
    },
    Budget {
        name: Name::RestWrites,
        stage: Stage::Rest,
        limit: Limit::Fixed(0.0),
        unit: "writes",
        how: "Requests of the manager that write anything, in a window in which nobody does anything: 65 s (quick: 20 s).",
    },
    Budget {
        name: Name::RestCalls,
        stage: Stage::Rest,
        limit: Limit::Fixed(1.0),
        unit: "calls per minute",
        how: "Most calls to the provider within any minute of that window; the open watch stream is no call.",
    },
    Budget {
        name: Name::DriftLatency,
        stage: Stage::Drift,
        limit: Limit::Fixed(1.0),
        unit: "s",
        how: "A VM among all is powered off on the hypervisor: time until a watch sees it in the status (driftPolicy Report). \
              95th percentile of 20 trials (quick: 10).",
    },
    Budget {
        name: Name::EditFirst,
        stage: Stage::Edit,
        limit: Limit::Fixed(0.25),
        unit: "of the background work",
        how: "The provider's stream breaks and all VMs have changed when it is back. While their statuses are being written, \
              a person powers one VM off: time until a watch sees it off, divided by the time of the whole work. Median of 3 \
              trials (quick: 1).",
    },
    Budget {
        name: Name::MemoryLarge,
        stage: Stage::Large,
        limit: Limit::Memory {
            vms: LARGE,
            mib: LARGE_MIB,
        },
        unit: "MiB",
        how: "The same as memory, with the large number of VMs.",
    },
    Budget {
        name: Name::RestartWrites,
        stage: Stage::Restart,
        limit: Limit::Fixed(0.0),
        unit: "writes",
        how: "The manager is killed and started again with the large number of VMs: its requests that write anything, until \
              nothing has moved for 30 s (quick: 10 s).",
    },
    Budget {
        name: Name::RestartMutations,
        stage: Stage::Restart,
        limit: Limit::Fixed(0.0),
        unit: "calls",
        how: "Calls that changed something on the hypervisor in that time.",
    },
    Budget {
        name: Name::TaskWrites,
        stage: Stage::Tasks,
        limit: Limit::Fixed(3.0),
        unit: "writes per VM",
        how: "The same as create-writes, with a provider that answers with tasks and takes 2 s for a create, as hypervisors do.",
    },
    Budget {
        name: Name::TaskEvents,
        stage: Stage::Tasks,
        limit: Limit::Fixed(3.0),
        unit: "events per VM",
        how: "The same, for Events.",
    },
    Budget {
        name: Name::GuestReady,
        stage: Stage::Guest,
        limit: Limit::Fixed(1.15),
        unit: "x by hand",
        how: "Time from the creation of a VirtualMachine until its guest says on its serial port that it is ready, with the \
              manager and the QEMU provider as processes of their own; divided by the time of the same guest on a QEMU that is \
              started by hand with the same arguments and a disk that is there already. Medians of 5 runs each in turn \
              (quick: 3).",
    },
    Budget {
        name: Name::GuestMemory,
        stage: Stage::Guest,
        limit: Limit::Fixed(30.0),
        unit: "MiB with 20 VMs",
        how: "Resident memory of the QEMU provider's process (VmRSS) with 20 VMs that run; their own processes do not count.",
    },
];

/// What needs the control plane with the mock provider.
pub const OF_MANAGER: &[Stage] = &[
    Stage::Create,
    Stage::Rest,
    Stage::Drift,
    Stage::Edit,
    Stage::Memory,
    Stage::Large,
    Stage::Restart,
];

impl Name {
    /// The budget of that name.
    pub fn budget(self) -> Option<&'static Budget> {
        BUDGETS.iter().find(|budget| budget.name == self)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

impl Limit {
    /// The limit with so many VMs.
    pub fn at(self, vms: usize) -> f64 {
        match self {
            Self::Fixed(limit) => limit,
            Self::Memory { vms: usual, mib } if usual == vms => mib,
            Self::Memory { .. } => {
                let slope = (LARGE_MIB - SMALL_MIB) / (count(LARGE) - count(VMS));
                SMALL_MIB + slope * (count(vms) - count(VMS))
            }
        }
    }
}

/// A count as a figure.
pub fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_one_budget() {
        for name in Name::value_variants() {
            assert_eq!(
                BUDGETS.iter().filter(|b| b.name == *name).count(),
                1,
                "{name}"
            );
        }
        assert_eq!(Name::RestCalls.to_string(), "rest-calls");
    }

    #[test]
    fn memory_is_a_line_through_both_promises() {
        let small = Limit::Memory {
            vms: VMS,
            mib: SMALL_MIB,
        };
        assert!((small.at(VMS) - 40.0).abs() < 1e-9);
        assert!((small.at(LARGE) - 150.0).abs() < 1e-9);
        assert!((small.at(5500) - 95.0).abs() < 1e-9);
    }
}
