//! YAML as the guest's agents read it, with errors that tell where, and never what stands there.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::granit_parser::ErrorKind;
use serde_saphyr::localizer::ExternalMessageSource;
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error, Options};

/// Where a text stops being YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct YamlError {
    place: Option<(u64, u64)>,
    why: String,
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(
                f,
                "Line {line}, column {column} is no valid YAML: {}",
                self.why
            ),
            None => write!(f, "This is no valid YAML: {}", self.why),
        }
    }
}

/// What the whole document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Mapping,
    Sequence,
    Scalar,
    /// Comments and white space only, or `null`.
    Nothing,
}

/// What the whole document is.
pub(super) fn shape(text: &str) -> Result<Shape, YamlError> {
    parse(text)
}

/// The document as a mapping; `None` if it is something else.
pub(super) fn mapping(text: &str) -> Result<Option<Map<String, Value>>, YamlError> {
    if shape(text)? != Shape::Mapping {
        return Ok(None);
    }
    parse(text).map(Some)
}

/// A string in quotes. That of JSON is one of YAML, whatever is in it.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn parse<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, YamlError> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|e| explain(&e))
}

/// What aliases may repeat. Documents of people repeat some keys; one that repeats more is made to use up a machine.
const MOST_REPEATED: usize = 20_000;

/// Lenient wherever the agents are: of two equal keys the last one counts, and any number of comments is fine.
fn options() -> Options {
    serde_saphyr::options! {
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MOST_REPEATED },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        emit_comments: false,
        ignore_binary_tag_for_string: true,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    }
}

fn explain(error: &Error) -> YamlError {
    let place = error
        .location()
        .map(|l| (l.line(), l.column()))
        .filter(|(line, _)| *line > 0);
    YamlError {
        place,
        why: reason(error),
    }
}

/// Only texts of the parser that cannot contain a part of the document.
fn reason(error: &Error) -> String {
    match error.without_snippet() {
        Error::ExternalMessage { source, .. } => match source.as_ref() {
            ExternalMessageSource::Parser(scan) => syntax_error(scan.kind()),
            _ => UNNAMED.to_owned(),
        },
        Error::MultipleDocuments { .. } => {
            "there is a second document after ---. Give one document".to_owned()
        }
        Error::UnknownAnchor { .. } => "this alias (*) has no anchor (&)".to_owned(),
        Error::AliasError { error, .. } => reason(error),
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            "it is nested or repeated beyond any use".to_owned()
        }
        Error::MergeValueNotMapOrSeqOfMaps { .. } => "<< takes a mapping".to_owned(),
        _ => UNNAMED.to_owned(),
    }
}

const UNNAMED: &str = "check quotes, colons and indentation";

fn syntax_error(kind: &ErrorKind) -> String {
    match kind {
        ErrorKind::Custom(_) | ErrorKind::InputDecoding { .. } | ErrorKind::InputIo { .. } => {
            UNNAMED.to_owned()
        }
        ErrorKind::UnexpectedCharacter { .. } => {
            "a value cannot begin with this character. Put it in quotes".to_owned()
        }
        known => known.to_string(),
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Shape::Mapping)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Shape, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Shape::Sequence)
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Nothing)
    }

    fn visit_none<E>(self) -> Result<Shape, E> {
        Ok(Shape::Nothing)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_told_apart() {
        for (text, expected) in [
            ("a: 1", Shape::Mapping),
            ("{}", Shape::Mapping),
            ("{\"a\": [1, 2]}", Shape::Mapping),
            ("- a\n- b", Shape::Sequence),
            ("[]", Shape::Sequence),
            ("", Shape::Nothing),
            ("# only a comment\n", Shape::Nothing),
            ("null", Shape::Nothing),
            ("~", Shape::Nothing),
            ("word", Shape::Scalar),
            ("12", Shape::Scalar),
            ("true", Shape::Scalar),
            ("1.5", Shape::Scalar),
            ("99999999999999999999999999", Shape::Scalar),
            (".inf", Shape::Scalar),
        ] {
            assert_eq!(shape(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_the_agents_accept_is_accepted() {
        for text in [
            "a: 1\na: 2\n",
            "base: &b {x: 1}\nmore:\n  <<: *b\n  y: 2\n",
            "1: one\ntrue: yes\n",
            "write_files:\n- content: !!binary |\n    AAEC/w==\n  path: /x\n",
            "x: !local value\n",
            "big: .inf\nnan: .nan\nhuge: 1e999\n",
            "---\na: 1\n...\n",
            "%YAML 1.1\n---\na: 1\n",
            "a: [\n1,\n2\n]\n",
            "a: 'it''s'\nb: \"x\\ty\"\n",
            "text: |\n  key: [not yaml\n",
        ] {
            assert_eq!(shape(text), Ok(Shape::Mapping), "{text}");
            assert!(mapping(text).unwrap().is_some(), "{text}");
        }
        let comments = "# why\n".repeat(500);
        assert_eq!(
            shape(&format!("a:\n{comments}  - 1\n{comments}b: 2")),
            Ok(Shape::Mapping)
        );
    }

    #[test]
    fn of_two_equal_keys_the_last_counts() {
        let found = mapping("a: 1\na: 2\n").unwrap().unwrap();
        assert_eq!(found.get("a"), Some(&Value::from(2)));
    }

    #[test]
    fn errors_tell_where_and_never_what() {
        for (text, line) in [
            ("a: b: hunter2\n", 1),
            ("a: 1\n\tb: hunter2\n", 2),
            ("a: 1\nb: @hunter2\n", 2),
            ("a: 1\nb: \"hunter2\n", 2),
            ("a: [hunter2\nb: 1\n", 1),
            ("a: 1\n b: hunter2\n", 2),
            ("a: *hunter2\n", 1),
            ("a: 1\n---\nb: hunter2\n", 2),
            ("a: 1\nhunter2\n", 2),
            ("a: {hunter2: 1]\n", 1),
        ] {
            let error = shape(text).expect_err(text);
            let (found, _) = error.place.expect(text);
            assert!(found.abs_diff(line) <= 2, "{text}: {error}");
            let message = error.to_string();
            assert!(
                message.starts_with("Line") && message.len() > 40,
                "{message}"
            );
            assert!(
                !message.contains("hunter2") && !message.contains('@'),
                "{message}"
            );
        }
    }
}
