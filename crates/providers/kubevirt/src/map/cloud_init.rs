//! What the guest reads at first boot, and where it stands until then.

use bytes::Bytes;
use k8s_openapi::ByteString;
use polyvirt_api::kubevirt::{CloudInitMedium, CloudInitOption, CloudInitPlace};
use polyvirt_contract::model::{CreateVm, NicSpec, UserData};
use polyvirt_disks::seed::network_config;
use serde_json::{Value, json};

use crate::map::cards::Card;

/// The disk with it.
pub(crate) const VOLUME: &str = "cloudinitdisk";
/// KubeVirt takes no more than this in a VirtualMachine.
const LONGEST_INLINE: usize = 2048;
/// cloud-init data that say nothing.
const NOTHING: &[u8] = b"#cloud-config\n";

/// What the guest reads. It may hold secrets.
pub(crate) struct Seed {
    medium: &'static str,
    user: Bytes,
    network: Option<Bytes>,
    inline: Option<(String, Option<String>)>,
    /// Whether a person wrote data for users, and for networks.
    said: (bool, bool),
}

impl Seed {
    /// `None` if there is nothing to read.
    pub(crate) fn of(request: &CreateVm, cards: &[Card], option: CloudInitOption) -> Option<Self> {
        let network = network(request, cards);
        let user = match (&request.user_data, &network) {
            (Some(data), _) => data.bytes().clone(),
            (None, Some(_)) => Bytes::from_static(NOTHING),
            (None, None) => return None,
        };
        let inline = match option.keep {
            CloudInitPlace::Inline => inline(&user, network.as_ref()),
            CloudInitPlace::Secret => None,
        };
        let drive = option.medium == CloudInitMedium::ConfigDrive
            || matches!(request.user_data, Some(UserData::Ignition(_)));
        Some(Self {
            medium: if drive {
                "cloudInitConfigDrive"
            } else {
                "cloudInitNoCloud"
            },
            user,
            network,
            inline,
            said: (request.user_data.is_some(), says_networks(request)),
        })
    }

    /// The entry of `volumes` for a VM that has this one already, or none. A guest reads it once, so what follows from the cards
    /// changes nothing of it: cards come and go while the machine runs, and its disk does not.
    pub(crate) fn kept(seed: Option<&Self>, live: Option<&Value>, secret: &str) -> Option<Value> {
        match (seed, live) {
            (None, live) => live.cloned(),
            (Some(seed), None) if seed.said == (false, false) => None,
            (Some(seed), Some(live)) if seed.says(live, secret) => Some(live.clone()),
            (Some(seed), _) => Some(seed.volume(secret)),
        }
    }

    /// Whether an entry says the same, but for what follows from the cards.
    fn says(&self, live: &Value, secret: &str) -> bool {
        let bare = |mut entry: Value| {
            let source = entry.get_mut(self.medium).and_then(Value::as_object_mut);
            if let Some(source) = source.filter(|_| !self.said.1) {
                source.remove("networkData");
                source.remove("networkDataSecretRef");
            }
            entry
        };
        bare(live.clone()) == bare(self.volume(secret))
    }

    /// The entry of `volumes`.
    pub(crate) fn volume(&self, secret: &str) -> Value {
        let mut source = json!({});
        if let Some((user, network)) = &self.inline {
            source["userData"] = json!(user);
            if let Some(network) = network {
                source["networkData"] = json!(network);
            }
        } else {
            source["secretRef"] = json!({"name": secret});
            if self.network.is_some() {
                source["networkDataSecretRef"] = json!({"name": secret});
            }
        }
        json!({"name": VOLUME, self.medium: source})
    }

    /// What the Secret holds; `None` if all stands in the VirtualMachine.
    pub(crate) fn secret(&self) -> Option<Value> {
        if self.inline.is_some() {
            return None;
        }
        let mut data = json!({"userdata": ByteString(self.user.to_vec())});
        if let Some(network) = &self.network {
            data["networkdata"] = json!(ByteString(network.to_vec()));
        }
        Some(data)
    }
}

/// Whether a person wrote how the guest reaches its networks, and not only which there are.
fn says_networks(request: &CreateVm) -> bool {
    let mut nics = request.networks.iter();
    !request.network_data.is_empty() || nics.any(|nic| nic.address.is_some() || nic.mtu > 0)
}

/// The user's own, or what follows from the cards.
fn network(request: &CreateVm, cards: &[Card]) -> Option<Bytes> {
    if !request.network_data.is_empty() {
        return Some(request.network_data.clone());
    }
    let with_mac = |(nic, card): (&NicSpec, &Card)| NicSpec {
        mac: card.mac.clone(),
        ..nic.clone()
    };
    let nics: Vec<NicSpec> = request.networks.iter().zip(cards).map(with_mac).collect();
    network_config(&nics).map(Bytes::from)
}

fn inline(user: &Bytes, network: Option<&Bytes>) -> Option<(String, Option<String>)> {
    let text = |bytes: &Bytes| {
        let text = std::str::from_utf8(bytes).ok()?;
        (text.len() <= LONGEST_INLINE).then(|| text.to_owned())
    };
    let network = match network {
        Some(bytes) => Some(text(bytes)?),
        None => None,
    };
    Some((text(user)?, network))
}
