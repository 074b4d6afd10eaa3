use proptest::prelude::*;

use super::*;

fn round(text: &str) -> String {
    parse(text).expect(text).to_string()
}

#[test]
fn what_is_read_is_written_again_byte_for_byte() {
    for text in [
        "<a/>",
        "<a  b = \"1\"\n c='x &lt; y' />",
        "<?xml version='1.0'?>\n<!-- top -->\n<a>\n  <b/>\n  text &amp; more<!-- in -->\n</a >\n",
        "<a><![CDATA[<b>&]]></a>",
        "<a xmlns:p='urn:x'><p:b p:c='1'></p:b></a>",
    ] {
        assert_eq!(round(text), text);
    }
}

#[test]
fn what_is_no_xml_is_refused() {
    for text in [
        "",
        "<a",
        "<a>",
        "<a></b>",
        "<a b></a>",
        "<a b=1/>",
        "<a b='1' b='2'/>",
        "<a/><b/>",
        "<!DOCTYPE a [<!ENTITY x 'y'>]><a/>",
        "<a b='1'c='2'/>",
        "x",
        "<a>&",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
    let deep = "<a>".repeat(100) + &"</a>".repeat(100);
    assert!(parse(&deep).is_err());
}

#[test]
fn values_are_escaped_and_read_back() {
    let element = Element::new("a").with("b", "<'&\"\n>").saying("x < y & z");
    let read = parse(&element.to_string()).expect("sound").root;
    assert_eq!(read.get("b").as_deref(), Some("<'&\"\n>"));
    assert_eq!(read.text(), "x < y & z");
    assert_eq!(unescaped("&#x41;&#66;&unknown;&"), "AB&unknown;&");
}

#[test]
fn an_edit_touches_only_what_it_names() {
    let text = "<d type='kvm'>\n  <!-- mine -->\n  <vcpu placement='static'>1</vcpu>\n  <x:y xmlns:x='u'/>\n  <devices>\n    <disk dev='a'/>\n    <disk dev='b'/>\n  </devices>\n</d>";
    let mut document = parse(text).expect("sound");
    document.root.at_mut("vcpu").expect("there").set_text(2);
    assert_eq!(document.to_string(), text.replace(">1<", ">2<"));
    let devices = document.root.at_mut("devices").expect("there");
    devices.remove(|disk| disk.get("dev").as_deref() == Some("a"));
    let expected = text
        .replace(">1<", ">2<")
        .replace("\n    <disk dev='a'/>", "");
    assert_eq!(document.to_string(), expected);
}

fn element(depth: u32) -> BoxedStrategy<Element> {
    let name = "[a-z][a-z0-9]{0,5}";
    let attributes = prop::collection::btree_map("[a-z]{1,4}", ".{0,8}", 0..3);
    let leaf = (name, attributes, prop::option::of("[^\\x00-\\x1f]{1,8}"));
    let built = leaf.prop_map(|(name, attributes, text)| {
        let element = attributes
            .iter()
            .fold(Element::new(&name), |e, (key, value)| e.with(key, value));
        match text.filter(|text| !text.trim().is_empty()) {
            Some(text) => element.saying(text),
            None => element,
        }
    });
    if depth == 0 {
        return built.boxed();
    }
    (built, prop::collection::vec(element(depth - 1), 0..4))
        .prop_map(|(parent, children)| parent.holding_all(children))
        .boxed()
}

proptest! {
    #[test]
    fn trees_survive_text(tree in element(3)) {
        let text = tree.to_string();
        let read = parse(&text).expect("sound");
        prop_assert_eq!(read.to_string(), text);
    }

    #[test]
    fn one_attribute_changes_one_place(tree in element(2), value in "[a-z]{9}") {
        let before = tree.clone().with("marked", "0").to_string();
        let mut document = parse(&before).expect("sound");
        document.root.set("marked", &value);
        let after = before.replacen("marked='0'", &format!("marked='{value}'"), 1);
        prop_assert_eq!(document.to_string(), after);
    }

    #[test]
    fn what_is_added_and_removed_leaves_the_rest(tree in element(2)) {
        let mut edited = parse(&tree.to_string()).expect("sound").root;
        edited.push(Element::new("added-now").with("x", 1));
        edited.remove(|e| e.name == "added-now");
        let mut expected = parse(&tree.to_string()).expect("sound").root;
        expected.must_close();
        prop_assert_eq!(edited.to_string(), expected.to_string());
    }

    #[test]
    fn no_text_makes_it_fall(text in "[<>/a=' &!?-]{0,40}") {
        let _ = parse(&text);
    }
}
