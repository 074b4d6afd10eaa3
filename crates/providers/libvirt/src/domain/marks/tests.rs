//! What is written is read again, and all else of a domain stays.

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
        frozen_by: Some(String::new()),
        tags: vec!["a b".to_owned(), "c&d".to_owned()],
        request: Some("r1".into()),
        image: "img-1".to_owned(),
        pool: "default".to_owned(),
        files: "small".to_owned(),
        bases: vec!["x.root.qcow2".to_owned()],
        fresh: "17.5".to_owned(),
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
        moving: Some(Moving::To {
            host: "hv-b".to_owned(),
            was: PowerState::Suspended,
            copied: vec![Copied {
                from: "default".to_owned(),
                to: "other".to_owned(),
            }],
        }),
        growths: BTreeMap::from([("data".to_owned(), "grown: ext4 <x>".to_owned())]),
    }
}

#[test]
fn a_vm_that_comes_is_told_from_one_that_leaves() {
    let comes = Marks {
        moving: Some(Moving::From {
            host: "hv-a".to_owned(),
        }),
        ..sample()
    };
    let read = Marks::read(&parse(&comes.element().to_string()).expect("sound").root);
    assert_eq!(read, comes);
    assert!(read.is_coming() && !sample().is_coming());
    assert_eq!(sample().leaves_as(), Some(PowerState::Suspended));
    assert_eq!(read.leaves_as(), None);
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
