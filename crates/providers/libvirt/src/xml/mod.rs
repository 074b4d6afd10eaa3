//! A small tree of XML that loses nothing: what is read and written again is the same, byte for byte, and an edit changes
//! only what it names. A domain belongs to its owner, and most of what it holds is nobody's business here.

mod parse;

use std::fmt::Write as _;

pub(crate) use parse::{XmlError, parse};

/// A document: one element, and what lies around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    before: String,
    pub(crate) root: Element,
    after: String,
}

/// What is inside an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Element(Element),
    /// Text, comments and all else, as it was written.
    Raw(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Attribute {
    /// The white space before it.
    lead: String,
    name: String,
    /// What is between name and value, the opening quote included.
    link: String,
    /// As it was written.
    raw: String,
    quote: char,
}

/// An element with its attributes and what is inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    attributes: Vec<Attribute>,
    /// What is before the end of the opening tag.
    tail: String,
    /// The closing tag as it was written; `None` if the element closes itself.
    close: Option<String>,
    pub(crate) children: Vec<Node>,
}

impl Document {
    fn write(&self, to: &mut String) {
        to.push_str(&self.before);
        self.root.write(to);
        to.push_str(&self.after);
    }
}

impl std::fmt::Display for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}

impl std::fmt::Display for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}

impl Element {
    /// An empty element.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            attributes: Vec::new(),
            tail: String::new(),
            close: None,
            children: Vec::new(),
        }
    }

    /// The same with an attribute.
    pub(crate) fn with(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.set(name, value);
        self
    }

    /// The same with an element inside.
    pub(crate) fn holding(mut self, child: Self) -> Self {
        self.push(child);
        self
    }

    /// The same with an element inside, if there is one.
    pub(crate) fn maybe(self, child: Option<Self>) -> Self {
        match child {
            Some(child) => self.holding(child),
            None => self,
        }
    }

    /// The same with elements inside.
    pub(crate) fn holding_all(self, children: impl IntoIterator<Item = Self>) -> Self {
        children.into_iter().fold(self, Self::holding)
    }

    /// The same with text inside.
    pub(crate) fn saying(mut self, text: impl std::fmt::Display) -> Self {
        self.set_text(text);
        self
    }

    /// An attribute's value.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let found = self.attributes.iter().find(|a| a.name == name)?;
        Some(unescaped(&found.raw))
    }

    /// Sets an attribute: where it is, or behind the others.
    pub(crate) fn set(&mut self, name: &str, value: impl std::fmt::Display) {
        let value = value.to_string();
        let quote = '\'';
        if let Some(found) = self.attributes.iter_mut().find(|a| a.name == name) {
            if unescaped(&found.raw) != value {
                found.raw = escaped(&value);
            }
            return;
        }
        self.attributes.push(Attribute {
            lead: " ".to_owned(),
            name: name.to_owned(),
            link: format!("={quote}"),
            raw: escaped(&value),
            quote,
        });
    }

    /// Takes an attribute away.
    pub(crate) fn unset(&mut self, name: &str) {
        self.attributes.retain(|a| a.name != name);
    }

    /// The text inside, without elements and comments.
    pub(crate) fn text(&self) -> String {
        let raw: String = self
            .children
            .iter()
            .filter_map(|node| match node {
                Node::Raw(raw) if !raw.starts_with('<') => Some(raw.as_str()),
                _ => None,
            })
            .collect();
        unescaped(raw.trim())
    }

    /// Replaces all that is inside by text.
    pub(crate) fn set_text(&mut self, text: impl std::fmt::Display) {
        let text = text.to_string();
        if self.elements().next().is_none() && self.text() == text && self.close.is_some() {
            return;
        }
        self.children = vec![Node::Raw(escaped(&text))];
        self.must_close();
    }

    fn must_close(&mut self) {
        if self.close.is_none() {
            self.close = Some(format!("</{}>", self.name));
        }
    }

    /// The elements inside.
    pub(crate) fn elements(&self) -> impl Iterator<Item = &Self> {
        self.children.iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Raw(_) => None,
        })
    }

    /// The elements of that name inside.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.elements().filter(move |element| element.name == name)
    }

    /// The first element at the end of a path of names: `devices/emulator`.
    pub(crate) fn at(&self, path: &str) -> Option<&Self> {
        path.split('/').try_fold(self, |element, name| {
            element.elements().find(|e| e.name == name)
        })
    }

    /// The same, to be changed.
    pub(crate) fn at_mut(&mut self, path: &str) -> Option<&mut Self> {
        let mut found = self;
        for name in path.split('/') {
            found = found.children.iter_mut().find_map(|node| match node {
                Node::Element(element) if element.name == name => Some(element),
                _ => None,
            })?;
        }
        Some(found)
    }

    /// Changes the element of that name inside, made now if there is none.
    pub(crate) fn edit(&mut self, name: &str, change: impl FnOnce(&mut Self)) {
        if self.at(name).is_none() {
            self.push(Self::new(name));
        }
        if let Some(child) = self.at_mut(name) {
            change(child);
        }
    }

    /// The text at a path; empty if there is none.
    pub(crate) fn text_at(&self, path: &str) -> String {
        self.at(path).map(Self::text).unwrap_or_default()
    }

    /// An attribute of the element at a path; empty if there is none.
    pub(crate) fn attr_at(&self, path: &str, name: &str) -> String {
        self.at(path)
            .and_then(|element| element.get(name))
            .unwrap_or_default()
    }

    /// Appends an element, before the white space that ends the list. Its place.
    pub(crate) fn push(&mut self, child: Self) -> usize {
        self.must_close();
        let blank = |node: &Node| matches!(node, Node::Raw(raw) if raw.trim().is_empty());
        let at_end = self.children.last().is_some_and(blank) && self.children.len() > 1;
        let place = self.children.len() - usize::from(at_end);
        self.children.insert(place, Node::Element(child));
        place
    }

    /// Takes the elements away that are meant, each with the white space before it.
    pub(crate) fn remove(&mut self, mut meant: impl FnMut(&Self) -> bool) {
        let mut kept: Vec<Node> = Vec::with_capacity(self.children.len());
        for node in std::mem::take(&mut self.children) {
            match &node {
                Node::Element(element) if meant(element) => {
                    if matches!(kept.last(), Some(Node::Raw(raw)) if raw.trim().is_empty()) {
                        kept.pop();
                    }
                }
                _ => kept.push(node),
            }
        }
        self.children = kept;
    }

    /// Puts an element in the place of the first of its name, or behind the others.
    pub(crate) fn replace(&mut self, child: Self) {
        let name = child.name.clone();
        self.edit(&name, |place| *place = child);
    }

    fn write(&self, to: &mut String) {
        // Writing to a string cannot fail.
        let _ = write!(to, "<{}", self.name);
        for a in &self.attributes {
            let _ = write!(to, "{}{}{}{}{}", a.lead, a.name, a.link, a.raw, a.quote);
        }
        to.push_str(&self.tail);
        let Some(close) = &self.close else {
            return to.push_str("/>");
        };
        to.push('>');
        for node in &self.children {
            match node {
                Node::Element(element) => element.write(to),
                Node::Raw(raw) => to.push_str(raw),
            }
        }
        to.push_str(close);
    }
}

/// Text that means itself in XML. What XML cannot hold is left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\'' => escaped.push_str("&apos;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            letter if letter.is_control() => {}
            letter => escaped.push(letter),
        }
    }
    escaped
}

fn unescaped(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('&') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(';').unwrap_or(0);
        if let Some(letter) = entity(&rest[..end]) {
            text.push(letter);
            rest = &rest[end + 1..];
        } else {
            text.push('&');
            rest = &rest[1..];
        }
    }
    text.push_str(rest);
    text
}

fn entity(name: &str) -> Option<char> {
    match name.strip_prefix('&')? {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "apos" => Some('\''),
        "quot" => Some('"'),
        number => {
            let digits = number.strip_prefix('#')?;
            let code = match digits.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests;
