//! What the suite must know of the provider that it checks.

use std::time::Duration;

use polyvirt_contract::model::{ClassSpec, ImageSource, NicSpec, PrepareImage};

/// How much is demanded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// The whole contract.
    #[default]
    Full,
    /// What every `provider.v1` server can do: kinds of errors are read coarsely, and errors need not name a field.
    Basic,
}

/// What the suite must know of the provider that it checks.
#[derive(Clone, Debug)]
pub struct Profile {
    /// How much is demanded.
    pub expect: Expect,
    /// The beginning of the names of all VMs that the suite makes.
    pub prefix: String,
    /// What VMs are made from.
    pub image: ImageSource,
    /// The size of VMs; it is doubled to see them grow.
    pub class: ClassSpec,
    /// Two network cards for a VM, as the hypervisor needs them; fewer, and checks of cards are not applicable.
    pub networks: Vec<NicSpec>,
    /// An image to prepare; `None`, and that check is not applicable.
    pub prepare: Option<PrepareImage>,
    /// A staging place that the provider can write and read, such as `pvc://claim/folder`; `None`, and disks are not moved.
    pub staging: Option<String>,
    /// A command of the guest that writes `conformance` to its output; `None` if the image has no guest to speak of.
    pub command: Option<Vec<String>>,
    /// Whether the guest obeys a request to shut down.
    pub guest_obeys: bool,
    /// How long any one thing may take.
    pub patience: Duration,
    /// How often to look while waiting.
    pub interval: Duration,
}

impl Profile {
    /// For a provider that VMs cost nothing, such as the mock.
    pub fn simulated() -> Self {
        let words = ["echo", "conformance"];
        Self {
            expect: Expect::Full,
            prefix: "conformance".to_owned(),
            image: ImageSource {
                template_name: "conformance".to_owned(),
                ..ImageSource::default()
            },
            class: ClassSpec {
                cpu: 1,
                memory_mib: 1024,
                ..ClassSpec::default()
            },
            networks: ["first", "second"].map(card).to_vec(),
            prepare: None,
            staging: None,
            command: Some(words.map(str::to_owned).to_vec()),
            guest_obeys: true,
            patience: Duration::from_mins(1),
            interval: Duration::from_millis(5),
        }
    }

    /// The same for a server that knows only `provider.v1`.
    #[must_use]
    pub fn basic(mut self) -> Self {
        self.expect = Expect::Basic;
        self
    }

    /// The same with a card on each of these networks; an empty name is the hypervisor's default. Without any it stays as it is.
    #[must_use]
    pub fn on_networks(mut self, networks: &[String]) -> Self {
        if !networks.is_empty() {
            let cards = networks.iter().enumerate();
            let cards = cards.map(|(place, network)| NicSpec {
                network: network.clone(),
                ..card(&format!("card{place}"))
            });
            self.networks = cards.collect();
        }
        self
    }
}

fn card(name: &str) -> NicSpec {
    NicSpec {
        name: name.to_owned(),
        ..NicSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_on_the_networks_that_are_named() {
        let on = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            let cards = Profile::simulated()
                .on_networks(&names)
                .networks
                .into_iter();
            cards
                .map(|card| (card.name, card.network))
                .collect::<Vec<_>>()
        };
        let pair = |name: &str, network: &str| (name.to_owned(), network.to_owned());
        assert_eq!(on(&[]), [pair("first", ""), pair("second", "")]);
        let named = on(&["", "vlan7"]);
        assert_eq!(named, [pair("card0", ""), pair("card1", "vlan7")]);
        assert_eq!(on(&["lan"]), [pair("card0", "lan")]);
    }
}
