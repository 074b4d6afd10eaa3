//! Reading without trust: every look-up knows where it stands, so that an error can name the field.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::error::ProviderError;

use super::quantity;

type Result<T> = std::result::Result<T, ProviderError>;

/// A value, and its path in the user's words.
pub(crate) struct Node<'a> {
    value: &'a Value,
    path: String,
}

/// An object whose keys are found in any case.
pub(crate) struct Object<'a> {
    fields: HashMap<String, &'a Value>,
    path: String,
}

fn parse(text: &str, path: &str) -> Result<Value> {
    if text.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(text)
        .map_err(|e| ProviderError::invalid(path, format!("The JSON of {path} is malformed: {e}")))
}

/// Parses an object and reads it; `None` for an empty text and for `null`.
pub(crate) fn parse_object<T>(
    text: &str,
    path: &str,
    read: impl FnOnce(&Object<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let value = parse(text, path)?;
    Node::new(&value, path)
        .object()?
        .as_ref()
        .map(read)
        .transpose()
}

/// Parses an array and reads each element; empty for an empty text and for `null`.
pub(crate) fn parse_list<T>(
    text: &str,
    path: &str,
    read: impl Fn(&Object<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let value = parse(text, path)?;
    Node::new(&value, path)
        .list()?
        .iter()
        .map(|n| read(&n.required_object()?))
        .collect()
}

/// An object as a flat map: texts as they are, everything else in its JSON form.
pub(crate) fn parse_flat(text: &str, path: &str) -> Result<BTreeMap<String, String>> {
    let flat = |value: Value| match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    };
    match parse(text, path)? {
        Value::Null => Ok(BTreeMap::new()),
        Value::Object(map) => Ok(map.into_iter().map(|(k, v)| (k, flat(v))).collect()),
        other => Err(expected("an object", &other, path)),
    }
}

impl<'a> Node<'a> {
    fn new(value: &'a Value, path: impl Into<String>) -> Self {
        Self {
            value,
            path: path.into(),
        }
    }

    /// `None` for `null`.
    pub(crate) fn object(&self) -> Result<Option<Object<'a>>> {
        match self.value {
            Value::Null => Ok(None),
            Value::Object(map) => Ok(Some(Object {
                fields: map
                    .iter()
                    .map(|(k, v)| (k.to_ascii_lowercase(), v))
                    .collect(),
                path: self.path.clone(),
            })),
            other => Err(expected("an object", other, &self.path)),
        }
    }

    pub(crate) fn required_object(&self) -> Result<Object<'a>> {
        self.object()?
            .ok_or_else(|| expected("an object", &Value::Null, &self.path))
    }

    /// Empty for `null`.
    pub(crate) fn list(&self) -> Result<Vec<Node<'a>>> {
        match self.value {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => Ok(items
                .iter()
                .enumerate()
                .map(|(i, v)| Node::new(v, format!("{}[{i}]", self.path)))
                .collect()),
            other => Err(expected("a list", other, &self.path)),
        }
    }

    /// Empty for `null`.
    pub(crate) fn text(&self) -> Result<String> {
        match self.value {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            other => Err(expected("a text", other, &self.path)),
        }
    }

    /// `None` for `null`.
    pub(crate) fn number<T: TryFrom<i128>>(&self) -> Result<Option<T>> {
        let Value::Number(number) = self.value else {
            return match self.value {
                Value::Null => Ok(None),
                other => Err(expected("a whole number", other, &self.path)),
            };
        };
        number
            .as_i128()
            .and_then(|n| T::try_from(n).ok())
            .map(Some)
            .ok_or_else(|| {
                self.invalid(format!(
                    "The value {number} of {} is out of range",
                    self.path
                ))
            })
    }

    fn flag(&self) -> Result<bool> {
        match self.value {
            Value::Null => Ok(false),
            Value::Bool(flag) => Ok(*flag),
            other => Err(expected("true or false", other, &self.path)),
        }
    }

    /// A quantity of bytes in units of `1 << shift`, rounded up; `None` for `null`.
    fn quantity<T: TryFrom<u128>>(&self, shift: u32) -> Result<Option<T>> {
        let text = match self.value {
            Value::Null => return Ok(None),
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            other => return Err(expected("a quantity such as 4Gi", other, &self.path)),
        };
        quantity::bytes(&text)
            .and_then(|bytes| T::try_from(bytes.div_ceil(1 << shift)).ok())
            .map(Some)
            .ok_or_else(|| {
                self.invalid(format!(
                    "The value {text:?} of {} is not a quantity such as 4Gi",
                    self.path
                ))
            })
    }

    pub(crate) fn invalid(&self, message: impl Into<String>) -> ProviderError {
        ProviderError::invalid(self.path.clone(), message)
    }
}

impl<'a> Object<'a> {
    /// The value under a key that is written here as it is in a manifest; `null` if absent.
    pub(crate) fn get(&self, key: &str) -> Node<'a> {
        let value = self.fields.get(&key.to_ascii_lowercase()).copied();
        Node::new(
            value.unwrap_or(&Value::Null),
            format!("{}.{key}", self.path),
        )
    }

    pub(crate) fn text(&self, key: &str) -> Result<String> {
        self.get(key).text()
    }

    /// The first of the keys that holds a text.
    pub(crate) fn first_text(&self, keys: &[&str]) -> Result<String> {
        for key in keys {
            let text = self.text(key)?;
            if !text.is_empty() {
                return Ok(text);
            }
        }
        Ok(String::new())
    }

    pub(crate) fn flag(&self, key: &str) -> Result<bool> {
        self.get(key).flag()
    }

    pub(crate) fn number<T: TryFrom<i128>>(&self, key: &str) -> Result<Option<T>> {
        self.get(key).number()
    }

    pub(crate) fn object(&self, key: &str) -> Result<Option<Object<'a>>> {
        self.get(key).object()
    }

    /// MiB: a number under one key, else a quantity of bytes under the other.
    pub(crate) fn mib<T>(&self, number: &str, quantity: &str) -> Result<Option<T>>
    where
        T: TryFrom<i128> + TryFrom<u128>,
    {
        self.sized(number, quantity, 20)
    }

    /// GiB: a number under one key, else a quantity of bytes under the other.
    pub(crate) fn gib<T>(&self, number: &str, quantity: &str) -> Result<Option<T>>
    where
        T: TryFrom<i128> + TryFrom<u128>,
    {
        self.sized(number, quantity, 30)
    }

    fn sized<T>(&self, number: &str, quantity: &str, shift: u32) -> Result<Option<T>>
    where
        T: TryFrom<i128> + TryFrom<u128>,
    {
        match self.number(number)? {
            Some(value) => Ok(Some(value)),
            None => self.get(quantity).quantity(shift),
        }
    }

    /// Texts by key, in the casing of the writer.
    pub(crate) fn texts_by_key(&self, key: &str) -> Result<BTreeMap<String, String>> {
        let node = self.get(key);
        match node.value {
            Value::Null => Ok(BTreeMap::new()),
            Value::Object(map) => map
                .iter()
                .map(|(k, v)| {
                    Ok((
                        k.clone(),
                        Node::new(v, format!("{}.{k}", node.path)).text()?,
                    ))
                })
                .collect(),
            other => Err(expected("an object", other, &node.path)),
        }
    }

    /// Numbers by keys that are kept as they are.
    pub(crate) fn counts(&self, key: &str) -> Result<BTreeMap<String, u32>> {
        let node = self.get(key);
        let count = |(name, value): (&String, &'a Value)| {
            let number = Node::new(value, format!("{}.{name}", node.path)).number()?;
            Ok((name.clone(), number.unwrap_or(0)))
        };
        match node.value {
            Value::Null => Ok(BTreeMap::new()),
            Value::Object(map) => map.iter().map(count).collect(),
            other => Err(expected("an object", other, &node.path)),
        }
    }

    pub(crate) fn texts(&self, key: &str) -> Result<Vec<String>> {
        self.get(key).list()?.iter().map(Node::text).collect()
    }
}

fn expected(what: &str, found: &Value, path: &str) -> ProviderError {
    let kind = match found {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    ProviderError::invalid(path, format!("Expected {what} at {path}, found {kind}"))
}
