//! Where providers run.

use super::{CORE, Get, INFRA, List, Right, Role, Room, Update, WHOLE};

/// Their rooms.
pub const ROOMS: &[Room] = &[
    Room {
        path: "runtimes/src/remote",
        why: "the pods of Remote providers, and all that stands around them",
        rights: &[
            Right::new(Role::Work, "apps", &["deployments"], WHOLE),
            Right::new(
                Role::Work,
                CORE,
                &["services", "serviceaccounts", "secrets"],
                WHOLE,
            ),
            Right::new(Role::Work, "networking.k8s.io", &["networkpolicies"], WHOLE),
            Right::new(Role::Work, CORE, &["pods"], &[List]),
            // Lets a Provider own them, on clusters that ask for it.
            Right::new(Role::Work, INFRA, &["providers/finalizers"], &[Update]),
        ],
    },
    Room {
        path: "runtimes/src/credentials.rs",
        why: "credentials of hypervisors",
        rights: &[Right::new(Role::Work, CORE, &["secrets"], &[Get])],
    },
    Room {
        path: "runtimes/src/process",
        why: "variables that a Provider of mode Process takes from Secrets and ConfigMaps",
        rights: &[Right::new(
            Role::Work,
            CORE,
            &["secrets", "configmaps"],
            &[Get],
        )],
    },
];
