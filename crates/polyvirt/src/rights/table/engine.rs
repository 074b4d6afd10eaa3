//! The engine: our own kinds.

use super::{
    CORE, Create, Delete, Get, INFRA, KEPT, List, Patch, Right, Role, Room, Switch, Update, Watch,
};

/// Its rooms.
pub const ROOMS: &[Room] = &[
    Room {
        path: "engine/src/virtual_machine",
        why: "VMs, the user data that they name, and the snapshots of their hooks",
        rights: &[
            Right::new(Role::Work, INFRA, &["virtualmachines"], KEPT),
            Right::new(Role::Work, INFRA, &["virtualmachines/status"], &[Patch]),
            // Lets a VM own the snapshots of its hooks, on clusters that ask for it.
            Right::new(
                Role::Work,
                INFRA,
                &["virtualmachines/finalizers"],
                &[Update],
            ),
            Right::new(Role::Work, INFRA, &["vmsnapshots"], &[Create]),
            Right::new(Role::Work, CORE, &["secrets"], &[Get, List, Watch]),
            // Whether what another namespace shares is shared with the VM's, by the labels of that.
            Right::new(Role::Work, CORE, &["namespaces"], &[Get]),
        ],
    },
    Room {
        path: "engine/src/shared",
        why: "classes, images and networks, which say who uses them",
        rights: &[
            Right::new(
                Role::Work,
                INFRA,
                &["vmclasses", "vmimages", "vmnetworkattachments"],
                KEPT,
            ),
            Right::new(
                Role::Work,
                INFRA,
                &["vmclasses/status", "vmnetworkattachments/status"],
                &[Patch],
            ),
        ],
    },
    Room {
        path: "engine/src/image",
        why: "images, which each provider prepares once, and the Secrets for their origin",
        rights: &[
            Right::new(Role::Work, INFRA, &["vmimages"], KEPT),
            Right::new(Role::Work, INFRA, &["vmimages/status"], &[Patch]),
            Right::new(Role::Work, CORE, &["secrets"], &[Get, List, Watch]),
        ],
    },
    Room {
        path: "engine/src/provider",
        why: "Providers: whether they answer, and what they can do",
        rights: &[
            Right::new(Role::Work, INFRA, &["providers"], KEPT),
            Right::new(Role::Work, INFRA, &["providers/status"], &[Patch]),
        ],
    },
    Room {
        path: "engine/src/snapshot",
        why: "snapshots; a schedule makes and removes them",
        rights: &[
            Right::new(
                Role::Work,
                INFRA,
                &["vmsnapshots"],
                &[List, Watch, Create, Patch, Delete],
            ),
            Right::new(Role::Work, INFRA, &["vmsnapshots/status"], &[Patch]),
            Right::new(Role::Work, INFRA, &["vmsnapshots/finalizers"], &[Update]),
        ],
    },
    Room {
        path: "engine/src/migration",
        why: "moves of VMs",
        rights: &[
            Right::new(Role::Work, INFRA, &["vmmigrations"], KEPT),
            Right::new(Role::Work, INFRA, &["vmmigrations/status"], &[Patch]),
        ],
    },
    Room {
        path: "engine/src/unimplemented.rs",
        why: "kinds that this version does not implement, which says so in their status",
        rights: &[
            Right::new(Role::Work, INFRA, &["vmclones", "vmsets"], &[List, Watch]),
            Right::new(
                Role::Work,
                INFRA,
                &["vmclones/status", "vmsets/status"],
                &[Patch],
            ),
        ],
    },
    Room {
        path: "engine/src/runtime/namespaces.rs",
        why: "VMs that are to be near to, or away from, others know those by the labels of their namespaces",
        rights: &[
            Right::new(Role::Cluster, CORE, &["namespaces"], &[List, Watch])
                .with(Switch::AllNamespaces),
        ],
    },
    Room {
        path: "engine/src/placement",
        why: "rules that VMs are placed by",
        rights: &[
            Right::new(Role::Work, INFRA, &["vmplacementpolicies"], KEPT),
            Right::new(Role::Work, INFRA, &["vmplacementpolicies/status"], &[Patch]),
        ],
    },
    Room {
        path: "engine/src/runtime/events.rs",
        why: "events of all kinds, beside the object that they are about",
        rights: &[Right::new(
            Role::Work,
            "events.k8s.io",
            &["events"],
            &[Create, Patch],
        )],
    },
    Room {
        path: "engine/src/calls",
        why: "hooks call no Service of the cluster, so which addresses those have must be known",
        rights: &[Right::new(
            Role::Cluster,
            "networking.k8s.io",
            &["servicecidrs"],
            &[List],
        )],
    },
    Room {
        path: "engine/src/leader",
        why: "the Lease by which managers agree who works",
        rights: &[Right::new(
            Role::Own,
            "coordination.k8s.io",
            &["leases"],
            &[Get, Watch, Create, Update],
        )
        .with(Switch::LeaderElection)],
    },
    Room {
        path: "polyvirt/src/leader_label.rs",
        why: "the one that leads marks its pod, and unmarks the one that did",
        rights: &[
            Right::new(Role::Own, CORE, &["pods"], &[List, Patch]).with(Switch::LeaderElection)
        ],
    },
];
