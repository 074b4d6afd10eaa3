//! How the provider of a VM can be reached in a pass.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use polyvirt_contract::{Capabilities, Features, Provider};
use polyvirt_plan::virtual_machine::ProviderFacts;

use crate::link::{Link, Standing};

/// How the provider can be reached in this pass.
pub(crate) enum Reach {
    Missing,
    Connecting,
    Unavailable,
    Ready(Ready),
}

pub(crate) struct Ready {
    /// Since when it is connected.
    pub since: Timestamp,
    /// Since when it is heard without a break.
    pub heard: Timestamp,
    pub link: Arc<Link>,
    pub provider: Arc<dyn Provider>,
    pub features: Arc<Features>,
    pub capabilities: Arc<Capabilities>,
}

impl Reach {
    /// In the words of the planner.
    pub(crate) fn facts(&self) -> ProviderFacts<'_> {
        match self {
            Self::Missing => ProviderFacts::Missing,
            Self::Connecting => ProviderFacts::Connecting,
            Self::Unavailable => ProviderFacts::Unavailable,
            Self::Ready(ready) => ProviderFacts::Ready {
                features: &ready.features,
                capabilities: &ready.capabilities,
            },
        }
    }
}

/// How long the first complete word of a provider about its VMs is waited for, before it is asked about each.
const FIRST_PICTURE: SignedDuration = SignedDuration::from_secs(30);

/// What a link's standing means to a pass.
pub(crate) fn reach(link: Option<Arc<Link>>, exists: bool, now: Timestamp) -> Reach {
    let Some(link) = link else {
        // The Provider object is there but its controller has not made the link yet.
        return if exists {
            Reach::Connecting
        } else {
            Reach::Missing
        };
    };
    let view = link.view();
    match (view.standing, view.provider) {
        (Standing::Connected { since, .. }, Some(provider))
            if link.seen(|seen| seen.complete_once())
                || now.duration_since(since) > FIRST_PICTURE =>
        {
            Reach::Ready(Ready {
                since,
                heard: view.heard.map_or(since, |heard| heard.max(since)),
                link,
                provider,
                features: view.features,
                capabilities: view.capabilities,
            })
        }
        (Standing::Unavailable { .. }, _) => Reach::Unavailable,
        _ => Reach::Connecting,
    }
}
