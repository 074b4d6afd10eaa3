//! What comes out of the monitor.

use serde::Deserialize;
use serde_json::Value;

/// Something that happened in QEMU by itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl Event {
    /// A text of the event's data; empty if it has none of that name.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.data
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// A truth of the event's data; false if it has none of that name.
    pub(crate) fn truth(&self, key: &str) -> bool {
        self.data
            .get(key)
            .and_then(Value::as_bool)
            .unwrap_or_default()
    }
}

/// One line of the monitor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    Greeting,
    Answer {
        id: u64,
        result: Result<Value, Refusal>,
    },
    Event(Event),
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) class: String,
    pub(crate) desc: String,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "QMP")]
    greeting: Option<Value>,
    id: Option<u64>,
    // An answer may be `{}` or null: presence counts, not the value.
    #[serde(rename = "return", default, deserialize_with = "present")]
    answer: Option<Value>,
    error: Option<Refusal>,
    event: Option<String>,
    #[serde(default)]
    data: Value,
}

fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl Message {
    /// Reads a line; `None` for one that says nothing we know.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let line: Line = serde_json::from_str(line).ok()?;
        if line.greeting.is_some() {
            return Some(Self::Greeting);
        }
        if let Some(name) = line.event {
            let data = line.data;
            return Some(Self::Event(Event { name, data }));
        }
        let result = match (line.answer, line.error) {
            (_, Some(refusal)) => Err(refusal),
            (Some(value), None) => Ok(value),
            (None, None) => return None,
        };
        Some(Self::Answer {
            id: line.id?,
            result,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_line_is_read() {
        let greeting = r#"{"QMP": {"version": {"qemu": {"major": 10}}, "capabilities": ["oob"]}}"#;
        assert_eq!(Message::parse(greeting), Some(Message::Greeting));
        let empty = r#"{"return": {}, "id": 7}"#;
        let answer = Message::Answer {
            id: 7,
            result: Ok(json!({})),
        };
        assert_eq!(Message::parse(empty), Some(answer));
        let refused = r#"{"id": 8, "error": {"class": "GenericError", "desc": "no"}}"#;
        let refusal = Refusal {
            class: "GenericError".into(),
            desc: "no".into(),
        };
        let answer = Message::Answer {
            id: 8,
            result: Err(refusal),
        };
        assert_eq!(Message::parse(refused), Some(answer));
    }

    #[test]
    fn events_carry_their_data() {
        let line = r#"{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "VSERPORT_CHANGE", "data": {"open": true, "id": "agent"}}"#;
        let Some(Message::Event(event)) = Message::parse(line) else {
            panic!("no event");
        };
        assert_eq!(event.name, "VSERPORT_CHANGE");
        assert!(event.truth("open"));
        assert_eq!(event.text("id"), "agent");
        assert_eq!(event.text("nothing"), "");
    }

    #[test]
    fn what_is_no_message_is_passed_over() {
        for line in ["", "{}", "[1]", "{\"id\": 3}", "{\"return\": 1}", "garbage"] {
            assert_eq!(Message::parse(line), None, "{line}");
        }
    }
}
