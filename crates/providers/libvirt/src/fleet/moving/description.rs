//! A domain as its new host shall have it. Pure.

use crate::domain::Marks;
use crate::xml::{Element, Node, XmlError, parse};

/// Files that have another place on the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places(Vec<(String, String)>);

impl Places {
    pub(super) fn add(&mut self, from: String, to: String) {
        self.0.push((from, to));
    }

    fn of(&self, path: &str) -> Option<&str> {
        let found = self.0.iter().find(|(from, _)| from == path);
        found.map(|(_, to)| to.as_str())
    }
}

/// The same domain with other marks and its files in other places.
pub(super) fn described(text: &str, places: &Places, marks: &Marks) -> Result<String, XmlError> {
    let mut domain = parse(text)?;
    let root = &mut domain.root;
    each(root.at_mut("devices"), "disk", |disk| rehome(disk, places));
    each(root.at_mut("sysinfo"), "entry", |entry| {
        if let Some(place) = entry.get("file").and_then(|path| places.of(&path)) {
            entry.set("file", place);
        }
    });
    marks.put(root);
    Ok(domain.to_string())
}

fn each(parent: Option<&mut Element>, name: &str, mut change: impl FnMut(&mut Element)) {
    let children = parent.into_iter().flat_map(|parent| &mut parent.children);
    for node in children {
        if let Node::Element(element) = node
            && element.name == name
        {
            change(element);
        }
    }
}

fn rehome(disk: &mut Element, places: &Places) {
    let Some(source) = disk.at_mut("source") else {
        return;
    };
    let path = source.get("file").unwrap_or_default();
    let Some(place) = places.of(&path) else {
        return;
    };
    source.set("file", place);
    // The copy stands alone: what lay below it at the source is in it.
    disk.remove(|child| child.name == "backingStore");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Moving;

    #[test]
    fn files_that_are_copied_have_new_places_and_stand_alone() {
        let text = "<domain><metadata/><sysinfo type='fwcfg'><entry name='x' file='/a/i'/></sysinfo><devices>
  <disk type='file'><source file='/a/r'/><backingStore type='file'><source file='/a/img'/></backingStore><target dev='vda'/></disk>
  <disk type='file'><source file='/s/d'/><backingStore type='file'><source file='/s/img'/></backingStore></disk>
  <disk type='file' device='cdrom'/></devices></domain>";
        let mut places = Places::default();
        places.add("/a/r".to_owned(), "/b/r".to_owned());
        places.add("/a/i".to_owned(), "/b/i".to_owned());
        let marks = Marks {
            moving: Some(Moving::From {
                host: "hv-a".to_owned(),
            }),
            ..Marks::default()
        };
        let made = described(text, &places, &marks).expect("sound");
        assert!(made.contains("file='/b/r'"), "{made}");
        assert!(made.contains("file='/b/i'"), "{made}");
        assert!(!made.contains("/a/"), "{made}");
        assert!(made.contains("/s/img"), "shared files keep theirs: {made}");
        let read = parse(&made).expect("sound");
        assert_eq!(Marks::of_domain(&read.root), Some(marks));
    }
}
