//! Spans as OTLP has them in JSON. Pure.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};

use crate::span::{Outcome, Span, Value};

/// The body of one request.
pub fn body(service: &str, version: &str, spans: &[Span]) -> Json {
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            attribute("service.name", &Value::Text(service.to_owned())),
            attribute("service.version", &Value::Text(version.to_owned())),
        ]},
        "scopeSpans": [{
            "scope": {"name": "polyvirt"},
            "spans": spans.iter().map(span).collect::<Vec<_>>(),
        }],
    }]})
}

fn span(span: &Span) -> Json {
    let mut told = json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.id),
        "name": span.name,
        "kind": 1,
        "startTimeUnixNano": nanoseconds(span.begin),
        "endTimeUnixNano": nanoseconds(span.end),
        "attributes": span.attributes.iter().map(|(k, v)| attribute(k, v)).collect::<Vec<_>>(),
    });
    if let Some(parent) = span.parent {
        told["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    if span.outcome == Outcome::Error {
        told["status"] = json!({"code": 2});
    }
    told
}

fn attribute(key: &str, value: &Value) -> Json {
    let value = match value {
        Value::Text(text) => json!({"stringValue": text}),
        // 64 bits do not fit into the numbers of JSON.
        Value::Integer(number) => json!({"intValue": number.to_string()}),
        Value::Number(number) => json!({"doubleValue": number}),
        Value::Flag(flag) => json!({"boolValue": flag}),
    };
    json!({"key": key, "value": value})
}

fn nanoseconds(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_span_has_the_form_of_the_protocol() {
        let begin = UNIX_EPOCH + Duration::from_nanos(1_500);
        let told = span(&Span {
            trace: 0xab,
            id: 0xcd,
            parent: Some(1),
            name: "reconcile",
            begin,
            end: begin + Duration::from_nanos(7),
            attributes: vec![("vm", Value::Text("web".into())), ("n", Value::Integer(3))],
            outcome: Outcome::Error,
        });
        assert_eq!(told["traceId"], "000000000000000000000000000000ab");
        assert_eq!(told["spanId"], "00000000000000cd");
        assert_eq!(told["parentSpanId"], "0000000000000001");
        assert_eq!(told["startTimeUnixNano"], "1500");
        assert_eq!(told["endTimeUnixNano"], "1507");
        assert_eq!(told["attributes"][0]["value"]["stringValue"], "web");
        assert_eq!(told["attributes"][1]["value"]["intValue"], "3");
        assert_eq!(told["status"]["code"], 2);
    }
}
