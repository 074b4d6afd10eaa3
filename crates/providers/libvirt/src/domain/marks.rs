//! What we keep in a domain's metadata: whose it is, how whole it is, and what its parts are called.

use polyvirt_contract::RequestId;
use polyvirt_contract::model::{Owner, Stage};

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

/// All that we keep with a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) owner: Option<Owner>,
    pub(crate) stage: Stage,
    /// Which provider makes it, while it is half made; empty if that was not said.
    pub(crate) maker: String,
    pub(crate) tags: Vec<String>,
    /// The last request of a user that was carried out.
    pub(crate) request: Option<RequestId>,
    /// The prepared image that the first disk is made from.
    pub(crate) image: String,
    /// The pool of the first disk and of all that has no pool of its own.
    pub(crate) pool: String,
    /// Volumes of others that disks of this domain are overlays of.
    pub(crate) bases: Vec<String>,
    pub(crate) root_gib: u32,
    pub(crate) disks: Vec<DiskMark>,
    pub(crate) nics: Vec<NicMark>,
}

impl Marks {
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
            tags: texts("polyvirt:tag"),
            request: RequestId::non_empty(attr("request")),
            image: attr("image"),
            pool: attr("pool"),
            bases: texts("polyvirt:base"),
            root_gib: attr("rootGiB").parse().unwrap_or(0),
            disks: element.all("polyvirt:disk").map(disk).collect(),
            nics: element.all("polyvirt:nic").map(nic).collect(),
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
mod tests {
    use super::*;
    use crate::xml::parse;

    fn sample() -> Marks {
        Marks {
            owner: Some(Owner {
                identity: "a-b".into(),
                namespace: "n".to_owned(),
                name: "web 'x' <&>".to_owned(),
            }),
            stage: Stage::Creating,
            maker: "one".to_owned(),
            tags: vec!["a b".to_owned(), "c&d".to_owned()],
            request: Some("r1".into()),
            image: "img-1".to_owned(),
            pool: "default".to_owned(),
            bases: vec!["x.root.qcow2".to_owned()],
            root_gib: 4,
            disks: vec![DiskMark {
                target: "vdb".to_owned(),
                name: "data".to_owned(),
                size_gib: 2,
                pool: "p".to_owned(),
                volume: "v".to_owned(),
            }],
            nics: vec![NicMark {
                mac: "02:00:00:00:00:01".to_owned(),
                name: "eth0".to_owned(),
            }],
        }
    }

    #[test]
    fn another_is_who_has_another_name() {
        for (maker, we_are, another) in [
            ("a", "b", true),
            ("a", "a", false),
            ("", "b", false),
            ("a", "", false),
        ] {
            let marks = Marks {
                maker: maker.to_owned(),
                ..Marks::default()
            };
            assert_eq!(
                marks.is_made_by_another(we_are),
                another,
                "{maker} {we_are}"
            );
        }
    }

    #[test]
    fn marks_survive_a_domain_and_leave_the_rest_of_it() {
        let text = "<domain>\n  <metadata>\n    <other:x xmlns:other='u'>mine</other:x>\n  </metadata>\n</domain>";
        let mut domain = parse(text).expect("sound");
        assert_eq!(Marks::of_domain(&domain.root), None);
        sample().put(&mut domain.root);
        let read = parse(&domain.to_string()).expect("sound").root;
        assert_eq!(Marks::of_domain(&read), Some(sample()));
        assert!(
            domain
                .to_string()
                .contains("<other:x xmlns:other='u'>mine</other:x>")
        );
        let other = Marks::default();
        other.put(&mut domain.root);
        assert_eq!(Marks::of_domain(&domain.root), Some(other));
    }
}
