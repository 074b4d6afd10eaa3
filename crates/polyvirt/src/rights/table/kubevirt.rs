//! VMs in the KubeVirt of the manager's own cluster (endpoint `kubevirt://in-cluster`).

use super::{
    CORE, Create, Delete, Get, List, Patch, Right, Role, Room, Switch, Update, Verb, WHOLE, Watch,
};

/// What is made, and looked for where it is needed.
const LISTED: &[Verb] = &[Get, List, Create, Patch, Delete];

const fn right(
    role: Role,
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [super::Verb],
) -> Right {
    Right::new(role, group, resources, verbs).with(Switch::Kubevirt)
}

/// Its rooms.
pub const ROOMS: &[Room] = &[
    Room {
        path: "providers/kubevirt/src/vm",
        why: "VMs of KubeVirt, their disks, the copies of images that these are, and their cloud-init",
        rights: &[
            right(Role::Work, "kubevirt.io", &["virtualmachines"], WHOLE),
            right(
                Role::Work,
                "kubevirt.io",
                &["virtualmachineinstances"],
                &[Get, List, Watch, Delete],
            ),
            right(Role::Work, "cdi.kubevirt.io", &["datavolumes"], WHOLE),
            right(
                Role::Work,
                "cdi.kubevirt.io",
                &["datavolumes/source"],
                &[Create],
            ),
            right(Role::Work, CORE, &["persistentvolumeclaims"], WHOLE),
            right(Role::Work, CORE, &["secrets"], LISTED),
            right(
                Role::Work,
                "k8s.cni.cncf.io",
                &["network-attachment-definitions"],
                LISTED,
            ),
            right(Role::Cluster, CORE, &["namespaces"], &[Get, Create, Patch]),
        ],
    },
    Room {
        path: "providers/kubevirt/src/access.rs",
        why: "what disks are copies of: where DataSources lead, and what their owners share with others",
        rights: &[
            right(Role::Work, "cdi.kubevirt.io", &["datasources"], &[Get]),
            right(
                Role::Work,
                "snapshot.storage.k8s.io",
                &["volumesnapshots"],
                &[Get],
            ),
        ],
    },
    Room {
        path: "providers/kubevirt/src/subresource.rs",
        why: "what KubeVirt does at once: a stop, a pause, a disk for a guest that runs, a console",
        rights: &[
            right(
                Role::Work,
                "subresources.kubevirt.io",
                &[
                    "virtualmachines/stop",
                    "virtualmachineinstances/pause",
                    "virtualmachineinstances/unpause",
                    "virtualmachineinstances/addvolume",
                    "virtualmachineinstances/removevolume",
                ],
                &[Update],
            ),
            right(
                Role::Work,
                "subresources.kubevirt.io",
                &[
                    "virtualmachineinstances/console",
                    "virtualmachineinstances/vnc",
                ],
                &[Get],
            ),
        ],
    },
    Room {
        path: "providers/kubevirt/src/usage.rs",
        why: "what VMs use, where the cluster measures it",
        rights: &[right(Role::Work, "metrics.k8s.io", &["pods"], &[List])],
    },
    Room {
        path: "providers/kubevirt/src/snapshot.rs",
        why: "snapshots of KubeVirt",
        rights: &[right(
            Role::Work,
            "snapshot.kubevirt.io",
            &["virtualmachinesnapshots", "virtualmachinerestores"],
            WHOLE,
        )],
    },
    Room {
        path: "providers/kubevirt/src/clone.rs",
        why: "clones of KubeVirt",
        rights: &[right(
            Role::Work,
            "clone.kubevirt.io",
            &["virtualmachineclones"],
            WHOLE,
        )],
    },
    Room {
        path: "providers/kubevirt/src/migrate",
        why: "moves between nodes, and how fast they may be",
        rights: &[
            right(
                Role::Work,
                "kubevirt.io",
                &["virtualmachineinstancemigrations"],
                WHOLE,
            ),
            right(
                Role::Cluster,
                "migrations.kubevirt.io",
                &["migrationpolicies"],
                LISTED,
            ),
        ],
    },
    Room {
        path: "providers/kubevirt/src/inventory.rs",
        why: "what nodes and storage there are, and what KubeVirt has switched on",
        rights: &[
            right(Role::Cluster, CORE, &["nodes"], &[List]),
            right(
                Role::Cluster,
                "storage.k8s.io",
                &["storageclasses"],
                &[List],
            ),
            right(
                Role::Cluster,
                "cdi.kubevirt.io",
                &["storageprofiles"],
                &[List],
            ),
            right(Role::Cluster, "kubevirt.io", &["kubevirts"], &[List]),
        ],
    },
];
