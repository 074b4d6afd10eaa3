//! One event as one JSON object: `timestamp`, `level` in small letters, the fields of the event, `message` and `target`.

use std::fmt;

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes events as JSON objects.
pub struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let about = event.metadata();
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ");
        let level = about.level().as_str().to_ascii_lowercase();
        write!(writer, r#"{{"timestamp":"{now}","level":"{level}""#)?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        for (name, value) in fields.0 {
            write!(writer, ",{}:{value}", Value::from(name))?;
        }
        writeln!(writer, r#","target":{}}}"#, Value::from(about.target()))
    }
}

/// The fields of an event, in the order in which they were written.
#[derive(Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.push((field.name(), value.into()));
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("free").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_an_object_with_a_small_level() {
        let page = Page::default();
        let writer = page.clone();
        let subscriber = tracing_subscriber::fmt()
            .event_format(JsonLine)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(controller = "Machine", tries = 3, error = %"a \"b\"\nc", "cannot {}", "go on");
        });
        let text = String::from_utf8(page.0.lock().expect("free").clone()).expect("text");
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: Value = serde_json::from_str(&text).expect("JSON");
        for (key, value) in [
            ("level", Value::from("warn")),
            ("controller", Value::from("Machine")),
            ("tries", Value::from(3)),
            ("error", Value::from("a \"b\"\nc")),
            ("message", Value::from("cannot go on")),
        ] {
            assert_eq!(line[key], value, "{key}");
        }
        let time = line["timestamp"].as_str().expect("a time");
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
    }
}
