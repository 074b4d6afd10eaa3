//! The dialects: kinds of others, which become ours.

use super::{
    CORE, Get, INFRA, KEPT, List, MADE, Names, Patch, Right, Role, Room, SEEN, Update, WHOLE, Watch,
};

const NOVACRON: &str = polyvirt_api::novacron::GROUP;
const VITISTACK: &str = polyvirt_api::vitistack::GROUP;

/// Their rooms.
pub const ROOMS: &[Room] = &[
    Room {
        path: "dialects/src/vitistack",
        why: "Machines become VirtualMachines, KubevirtConfigs become Providers",
        rights: &[
            Right::new(Role::Work, INFRA, &["virtualmachines", "providers"], MADE),
            Right::new(Role::Work, VITISTACK, &["machines"], KEPT),
            Right::new(
                Role::Work,
                VITISTACK,
                &["kubevirtconfigs"],
                &[Get, List, Watch],
            ),
            Right::new(Role::Work, VITISTACK, &["networkconfigurations"], WHOLE),
            Right::new(Role::Work, VITISTACK, &["networknamespaces"], SEEN),
            Right::new(
                Role::Work,
                VITISTACK,
                &["machines/status", "kubevirtconfigs/status"],
                &[Patch],
            ),
            // Lets them own what is made for them, on clusters that ask for it.
            Right::new(
                Role::Work,
                VITISTACK,
                &["machines/finalizers", "kubevirtconfigs/finalizers"],
                &[Update],
            ),
            Right::new(Role::Cluster, VITISTACK, &["machineclasses"], SEEN),
        ],
    },
    Room {
        path: "dialects/src/vitistack/controller/checks.rs",
        why: "whether those definitions are of this version is said in the log",
        rights: &[Right::new(
            Role::Cluster,
            "apiextensions.k8s.io",
            &["customresourcedefinitions"],
            &[Get],
        )
        .only(Names::These(&[
            "machines.vitistack.io",
            "networkconfigurations.vitistack.io",
            "kubevirtconfigs.vitistack.io",
        ]))],
    },
    Room {
        path: "dialects/src/shared/desk.rs",
        why: "what tells this cluster from others: a VM is owned by its Machine only where both are in one",
        rights: &[Right::new(Role::Cluster, CORE, &["namespaces"], &[Get])
            .only(Names::These(&["kube-system"]))],
    },
    Room {
        path: "dialects/src/novacron",
        why: "VMs of NovaCron become VirtualMachines, with networks, scheduled snapshots and moves",
        rights: &[
            Right::new(
                Role::Work,
                INFRA,
                &[
                    "virtualmachines",
                    "vmsnapshots",
                    "vmnetworkattachments",
                    "vmmigrations",
                ],
                MADE,
            ),
            Right::new(Role::Work, NOVACRON, &["virtualmachines"], KEPT),
            Right::new(Role::Work, NOVACRON, &["virtualmachines/status"], &[Patch]),
            Right::new(
                Role::Work,
                NOVACRON,
                &["virtualmachines/finalizers"],
                &[Update],
            ),
            Right::new(Role::Own, CORE, &["configmaps"], &[Get])
                .only(Names::These(&[polyvirt_dialects::novacron::CATALOGUE])),
        ],
    },
];
