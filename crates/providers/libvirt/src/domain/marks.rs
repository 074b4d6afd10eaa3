//! What we keep in a domain's metadata: whose it is, how whole it is, and what its parts are called.

use std::collections::BTreeMap;

use polyvirt_contract::RequestId;
use polyvirt_contract::model::{Owner, PowerState, Stage};

use crate::xml::Element;

/// The name space of our element.
pub(crate) const URI: &str = "https://polyvirt.io/schema/libvirt/1";
/// Its prefix; libvirt keeps it.
pub(crate) const PREFIX: &str = "polyvirt";
const ELEMENT: &str = "polyvirt:vm";

/// A disk beyond the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskMark {
    /// Where the guest sees it: `vdb`.
    pub(crate) target: String,
    /// The name in the VirtualMachine.
    pub(crate) name: String,
    pub(crate) size_gib: u32,
    pub(crate) pool: String,
    pub(crate) volume: String,
}

/// A card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NicMark {
    pub(crate) mac: String,
    /// The name in the VirtualMachine; empty for a card that nobody asked for.
    pub(crate) name: String,
}

/// A pool whose volumes a move copies, and the pool of the target that they are copied to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) from: String,
    pub(crate) to: String,
}

/// What remembers a move until it is settled which host has the VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Moving {
    /// It leaves. Its power is told as it was until it has arrived, or stays.
    To {
        host: String,
        was: PowerState,
        copied: Vec<Copied>,
    },
    /// It comes. Nobody is told of it until it has arrived.
    From { host: String },
}

/// All that we keep with a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) owner: Option<Owner>,
    pub(crate) stage: Stage,
    /// Which provider makes it, while it is half made; empty if that was not said.
    pub(crate) maker: String,
    /// Which provider has made its guest quiet and not let it go on yet. With a machine that runs only.
    pub(crate) frozen_by: Option<String>,
    pub(crate) tags: Vec<String>,
    /// The last request of a user that was carried out.
    pub(crate) request: Option<RequestId>,
    /// The prepared image that the first disk is made from.
    pub(crate) image: String,
    /// The pool of the first disk and of all that has no pool of its own.
    pub(crate) pool: String,
    /// The pool of its small files, where that one keeps none; else empty.
    pub(crate) files: String,
    /// Volumes of others that disks of this domain are overlays of.
    pub(crate) bases: Vec<String>,
    /// When the first disk was made above the last of these, as its volume tells: nothing was written to it as long as that is
    /// when it was changed last.
    pub(crate) fresh: String,
    pub(crate) root_gib: u32,
    pub(crate) disks: Vec<DiskMark>,
    pub(crate) nics: Vec<NicMark>,
    pub(crate) moving: Option<Moving>,
    /// What became of the file systems of disks that have grown, by the disk's name. With a machine that runs only: a guest
    /// that starts sees to it by itself.
    pub(crate) growths: BTreeMap<String, String>,
}

impl Marks {
    /// Where they are in a domain's XML.
    pub(crate) const PATH: &str = "metadata/polyvirt:vm";

    /// The marks in a domain's XML; `None` if it is not ours.
    pub(crate) fn of_domain(domain: &Element) -> Option<Self> {
        domain.at("metadata")?.at(ELEMENT).map(Self::read)
    }

    fn read(element: &Element) -> Self {
        let texts = |name: &str| element.all(name).map(Element::text).collect::<Vec<_>>();
        let attr = |name: &str| element.get(name).unwrap_or_default();
        Self {
            owner: element.at("polyvirt:owner").map(owner),
            stage: stage(&attr("stage")),
            maker: attr("maker"),
            frozen_by: element.get("frozenBy"),
            tags: texts("polyvirt:tag"),
            request: RequestId::non_empty(attr("request")),
            image: attr("image"),
            pool: attr("pool"),
            files: attr("files"),
            bases: texts("polyvirt:base"),
            fresh: attr("fresh"),
            root_gib: attr("rootGiB").parse().unwrap_or(0),
            disks: element.all("polyvirt:disk").map(disk).collect(),
            nics: element.all("polyvirt:nic").map(nic).collect(),
            moving: element.at("polyvirt:move").and_then(moving),
            growths: element.all("polyvirt:growth").map(growth).collect(),
        }
    }

    /// The element that holds them.
    pub(crate) fn element(&self) -> Element {
        let mut element = Element::new(ELEMENT)
            .with("xmlns:polyvirt", URI)
            .with("stage", word(self.stage))
            .with("pool", &self.pool)
            .with("rootGiB", self.root_gib);
        if !self.maker.is_empty() {
            element.set("maker", &self.maker);
        }
        if !self.files.is_empty() {
            element.set("files", &self.files);
        }
        if let Some(provider) = &self.frozen_by {
            element.set("frozenBy", provider);
        }
        if !self.fresh.is_empty() {
            element.set("fresh", &self.fresh);
        }
        if !self.image.is_empty() {
            element.set("image", &self.image);
        }
        if let Some(request) = &self.request {
            element.set("request", request);
        }
        let said = |name: &'static str| move |text: &String| Element::new(name).saying(text);
        element
            .maybe(self.owner.as_ref().map(owner_element))
            .holding_all(self.tags.iter().map(said("polyvirt:tag")))
            .holding_all(self.bases.iter().map(said("polyvirt:base")))
            .holding_all(self.disks.iter().map(disk_element))
            .holding_all(self.nics.iter().map(nic_element))
            .maybe(self.moving.as_ref().map(moving_element))
            .holding_all(self.growths.iter().map(growth_element))
    }

    /// Puts them into a domain's XML, in the place of those that are there.
    pub(crate) fn put(&self, domain: &mut Element) {
        domain.edit("metadata", |metadata| metadata.replace(self.element()));
    }

    /// The same text that libvirt takes for the metadata alone, where it adds prefix and name space itself.
    pub(crate) fn for_libvirt(&self) -> String {
        let mut element = self.element();
        element.unset("xmlns:polyvirt");
        let text = element.to_string();
        text.replace("<polyvirt:", "<").replace("</polyvirt:", "</")
    }

    /// Whether another provider is at work on it. Without a name on either side it may have been we, in an earlier life.
    pub(crate) fn is_made_by_another(&self, we_are: &str) -> bool {
        !self.maker.is_empty() && !we_are.is_empty() && self.maker != we_are
    }

    /// Whether it is on its way to this host and not there yet.
    pub(crate) const fn is_coming(&self) -> bool {
        matches!(self.moving, Some(Moving::From { .. }))
    }

    /// How it was before it began to leave this host; `None` if it does not.
    pub(crate) const fn leaves_as(&self) -> Option<PowerState> {
        match self.moving {
            Some(Moving::To { was, .. }) => Some(was),
            _ => None,
        }
    }

    /// The pool of its small files.
    pub(crate) const fn files(&self) -> &String {
        if self.files.is_empty() {
            &self.pool
        } else {
            &self.files
        }
    }

    pub(crate) fn nic_name(&self, mac: &str) -> Option<&str> {
        let found = self.nics.iter().find(|nic| nic.mac == mac)?;
        Some(&found.name)
    }

    pub(crate) fn disk(&self, name: &str) -> Option<&DiskMark> {
        self.disks.iter().find(|disk| disk.name == name)
    }
}

fn owner(element: &Element) -> Owner {
    let attr = |name: &str| element.get(name).unwrap_or_default();
    Owner {
        identity: attr("identity").into(),
        namespace: attr("namespace"),
        name: attr("name"),
    }
}

fn owner_element(owner: &Owner) -> Element {
    Element::new("polyvirt:owner")
        .with("identity", &owner.identity)
        .with("namespace", &owner.namespace)
        .with("name", &owner.name)
}

fn disk(element: &Element) -> DiskMark {
    let attr = |name: &str| element.get(name).unwrap_or_default();
    DiskMark {
        target: attr("target"),
        name: attr("name"),
        size_gib: attr("sizeGiB").parse().unwrap_or(0),
        pool: attr("pool"),
        volume: attr("volume"),
    }
}

fn disk_element(disk: &DiskMark) -> Element {
    Element::new("polyvirt:disk")
        .with("target", &disk.target)
        .with("name", &disk.name)
        .with("sizeGiB", disk.size_gib)
        .with("pool", &disk.pool)
        .with("volume", &disk.volume)
}

fn nic(element: &Element) -> NicMark {
    let attr = |name: &str| element.get(name).unwrap_or_default();
    NicMark {
        mac: attr("mac"),
        name: attr("name"),
    }
}

fn nic_element(nic: &NicMark) -> Element {
    Element::new("polyvirt:nic")
        .with("mac", &nic.mac)
        .with("name", &nic.name)
}

fn growth(element: &Element) -> (String, String) {
    (element.get("disk").unwrap_or_default(), element.text())
}

fn growth_element((disk, said): (&String, &String)) -> Element {
    Element::new("polyvirt:growth")
        .with("disk", disk)
        .saying(said)
}

fn moving(element: &Element) -> Option<Moving> {
    if let Some(host) = element.get("from") {
        return Some(Moving::From { host });
    }
    let copied = element.all("polyvirt:copied").map(|pool| Copied {
        from: pool.get("from").unwrap_or_default(),
        to: pool.get("to").unwrap_or_default(),
    });
    Some(Moving::To {
        host: element.get("to")?,
        was: power(&element.get("was").unwrap_or_default()),
        copied: copied.collect(),
    })
}

fn moving_element(moving: &Moving) -> Element {
    let element = Element::new("polyvirt:move");
    match moving {
        Moving::From { host } => element.with("from", host),
        Moving::To { host, was, copied } => element
            .with("to", host)
            .with("was", power_word(*was))
            .holding_all(copied.iter().map(|pool| {
                Element::new("polyvirt:copied")
                    .with("from", &pool.from)
                    .with("to", &pool.to)
            })),
    }
}

fn power(word: &str) -> PowerState {
    match word {
        "off" => PowerState::Off,
        "suspended" => PowerState::Suspended,
        _ => PowerState::On,
    }
}

const fn power_word(power: PowerState) -> &'static str {
    match power {
        PowerState::Off => "off",
        PowerState::Suspended => "suspended",
        PowerState::On | PowerState::Unknown => "on",
    }
}

fn stage(word: &str) -> Stage {
    match word {
        "creating" => Stage::Creating,
        "deleting" => Stage::Deleting,
        _ => Stage::Whole,
    }
}

const fn word(stage: Stage) -> &'static str {
    match stage {
        Stage::Whole => "whole",
        Stage::Creating => "creating",
        Stage::Deleting => "deleting",
    }
}

#[cfg(test)]
mod tests;
