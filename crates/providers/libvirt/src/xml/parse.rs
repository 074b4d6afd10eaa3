//! From text to tree. Only what libvirt writes is understood: no DTD, no entities of one's own.

use super::{Attribute, Document, Element, Node};

/// Elements inside elements: more is an attack or a mistake.
const DEEPEST: usize = 64;

/// Why a text is no XML that can be worked with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The XML cannot be read at byte {at}: {what}")]
pub(crate) struct XmlError {
    at: usize,
    what: &'static str,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

type Parsed<T> = Result<T, XmlError>;

/// Reads a document.
pub(crate) fn parse(text: &str) -> Parsed<Document> {
    let mut parser = Parser { text, at: 0 };
    let before = parser.misc()?;
    let root = parser.element(0)?;
    let after = parser.misc()?;
    if parser.at < text.len() {
        return Err(parser.wrong("something follows the end"));
    }
    Ok(Document {
        before,
        root,
        after,
    })
}

impl<'a> Parser<'a> {
    const fn wrong(&self, what: &'static str) -> XmlError {
        XmlError { at: self.at, what }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn starts(&self, with: &str) -> bool {
        self.rest().starts_with(with)
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let taken = &self.rest()[..bytes];
        self.at += bytes;
        taken
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        self.take(rest.find(|letter| !fits(letter)).unwrap_or(rest.len()))
    }

    fn take_through(&mut self, end: &str) -> Parsed<&'a str> {
        let found = self.rest().find(end);
        let length = found.ok_or_else(|| self.wrong("an end is missing"))?;
        Ok(self.take(length + end.len()))
    }

    fn expect(&mut self, what: &str, missing: &'static str) -> Parsed<()> {
        if !self.starts(what) {
            return Err(self.wrong(missing));
        }
        self.at += what.len();
        Ok(())
    }

    fn space(&mut self) -> &'a str {
        self.take_while(char::is_whitespace)
    }

    fn name(&mut self) -> Parsed<&'a str> {
        let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        let name = self.take_while(fits);
        if name.is_empty() {
            return Err(self.wrong("a name is missing"));
        }
        Ok(name)
    }

    /// Comments, instructions and CDATA, as they are; `None` if something else comes.
    fn special(&mut self) -> Parsed<Option<&'a str>> {
        for (begin, end) in [("<!--", "-->"), ("<?", "?>"), ("<![CDATA[", "]]>")] {
            if self.starts(begin) {
                return self.take_through(end).map(Some);
            }
        }
        if self.starts("<!") {
            return Err(self.wrong("declarations are not understood"));
        }
        Ok(None)
    }

    /// What may lie around the one element.
    fn misc(&mut self) -> Parsed<String> {
        let begin = self.at;
        loop {
            self.space();
            if self.special()?.is_none() {
                return Ok(self.text[begin..self.at].to_owned());
            }
        }
    }

    fn attribute(&mut self, lead: &str) -> Parsed<Attribute> {
        let name = self.name()?.to_owned();
        let begin = self.at;
        self.space();
        self.expect("=", "an attribute has no value")?;
        self.space();
        let quote = self.rest().chars().next();
        let quote = quote
            .filter(|letter| matches!(letter, '\'' | '"'))
            .ok_or_else(|| self.wrong("a value has no quotes"))?;
        self.at += 1;
        let link = self.text[begin..self.at].to_owned();
        let raw = self.take_while(|letter| letter != quote && letter != '<');
        let raw = raw.to_owned();
        self.expect(&quote.to_string(), "a value does not end")?;
        Ok(Attribute {
            lead: lead.to_owned(),
            name,
            link,
            raw,
            quote,
        })
    }

    fn element(&mut self, depth: usize) -> Parsed<Element> {
        if depth > DEEPEST {
            return Err(self.wrong("elements are nested too deeply"));
        }
        self.expect("<", "an element is missing")?;
        let name = self.name()?.to_owned();
        let mut attributes: Vec<Attribute> = Vec::new();
        loop {
            let space = self.space();
            if self.starts("/>") || self.starts(">") {
                return self.inside(name, attributes, space, depth);
            }
            if space.is_empty() {
                return Err(self.wrong("a space is missing"));
            }
            let attribute = self.attribute(space)?;
            if attributes.iter().any(|a| a.name == attribute.name) {
                return Err(self.wrong("an attribute is there twice"));
            }
            attributes.push(attribute);
        }
    }

    fn inside(
        &mut self,
        name: String,
        attributes: Vec<Attribute>,
        tail: &str,
        depth: usize,
    ) -> Parsed<Element> {
        let mut element = Element {
            name,
            attributes,
            tail: tail.to_owned(),
            close: None,
            children: Vec::new(),
        };
        if self.starts("/>") {
            self.at += 2;
            return Ok(element);
        }
        self.at += 1;
        while !self.starts("</") {
            let node = self.node(depth)?;
            element.children.push(node);
        }
        element.close = Some(self.closing(&element.name)?);
        Ok(element)
    }

    fn node(&mut self, depth: usize) -> Parsed<Node> {
        if let Some(raw) = self.special()? {
            return Ok(Node::Raw(raw.to_owned()));
        }
        if self.starts("<") {
            return self.element(depth + 1).map(Node::Element);
        }
        let text = self.take_while(|letter| letter != '<');
        if text.is_empty() {
            return Err(self.wrong("an element does not end"));
        }
        Ok(Node::Raw(text.to_owned()))
    }

    fn closing(&mut self, name: &str) -> Parsed<String> {
        let begin = self.at;
        self.at += 2;
        if self.name()? != name {
            return Err(self.wrong("another element ends"));
        }
        self.space();
        self.expect(">", "a closing tag does not end")?;
        Ok(self.text[begin..self.at].to_owned())
    }
}
