//! What the manager serves, the certificates for it, and the rights of people.

use super::{CORE, Create, Get, List, Names, Patch, Right, Role, Room, Switch, Update, Watch};

const GUESTS: &str = "subresources.polyvirt.io";

/// Their rooms.
pub const ROOMS: &[Room] = &[
    Room {
        path: "pki/src",
        why: "the authority behind the certificates of Remote providers, webhooks and gateway, and certificates that somebody else keeps",
        rights: &[
            Right::new(Role::Own, CORE, &["secrets"], &[Get, Update])
                .only(Names::These(&[polyvirt_pki::AUTHORITY_SECRET])),
            Right::new(Role::Own, CORE, &["secrets"], &[Get])
                .only(Names::Certificates)
                .with(Switch::Certificates),
            Right::new(Role::Own, CORE, &["secrets"], &[Create]).with(Switch::NewAuthority),
        ],
    },
    Room {
        path: "admission/src/register",
        why: "it puts the authority of its certificate into the configurations of its webhooks",
        rights: &[Right::new(
            Role::Cluster,
            "admissionregistration.k8s.io",
            &[
                "validatingwebhookconfigurations",
                "mutatingwebhookconfigurations",
            ],
            &[Get, Patch],
        )
        .only(Names::Release)
        .with(Switch::Webhooks)],
    },
    Room {
        path: "gateway/src",
        why: "the API for consoles and commands, and whether a person may do what they ask it for",
        rights: &[
            Right::new(
                Role::Cluster,
                "apiregistration.k8s.io",
                &["apiservices"],
                &[Patch],
            )
            .only(Names::These(&[
                "v1.subresources.polyvirt.io",
                "priority.novacron.io",
            ]))
            .with(Switch::Gateway),
            Right::new(
                Role::Cluster,
                "authorization.k8s.io",
                &["subjectaccessreviews"],
                &[Create],
            )
            .with(Switch::Gateway),
        ],
    },
    Room {
        path: "gateway/src/routes.rs",
        why: "what people ask the gateway for",
        rights: &[
            Right::new(
                Role::Guests,
                GUESTS,
                &[
                    "virtualmachines/console",
                    "virtualmachines/vnc",
                    "virtualmachines/log",
                ],
                &[Get],
            ),
            Right::new(Role::Guests, GUESTS, &["virtualmachines/exec"], &[Create]),
            Right::new(Role::GuestLogs, GUESTS, &["virtualmachines/log"], &[Get]),
        ],
    },
    Room {
        // No names: what does not exist yet has none, as far as this right is concerned.
        path: "polyvirt/src/commands/crds.rs",
        why: "the job that brings CRDs up to date before each installation and upgrade",
        rights: &[Right::new(
            Role::CrdUpgrade,
            "apiextensions.k8s.io",
            &["customresourcedefinitions"],
            &[Get, List, Watch, Create, Patch],
        )],
    },
];
