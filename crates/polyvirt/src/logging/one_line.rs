//! One event, one line: whatever a stranger has put into a name or an error, no line of the log is theirs.

use std::io::{self, Write};

/// Writes what it is given at once as one line, with control characters spelled out.
pub struct OneLine<W>(W);

impl<W> OneLine<W> {
    /// Lines go there.
    pub const fn new(inner: W) -> Self {
        Self(inner)
    }
}

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let (line, end) = match event.strip_suffix(b"\n") {
            Some(line) => (line, &b"\n"[..]),
            None => (event, &b""[..]),
        };
        let mut safe = Vec::with_capacity(event.len());
        for (at, byte) in line.iter().enumerate() {
            match byte {
                0x1b if is_colour(&line[at + 1..]) => safe.push(*byte),
                byte => put(&mut safe, *byte),
            }
        }
        safe.extend_from_slice(end);
        self.0.write_all(&safe)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Whether what follows an escape chooses a colour, which harms nobody; others move the cursor, or worse.
fn is_colour(rest: &[u8]) -> bool {
    let Some(rest) = rest.strip_prefix(b"[") else {
        return false;
    };
    let end = rest.iter().find(|b| !b.is_ascii_digit() && **b != b';');
    end == Some(&b'm')
}

fn put(safe: &mut Vec<u8>, byte: u8) {
    match byte {
        b'\n' => safe.extend_from_slice(b"\\n"),
        b'\r' => safe.extend_from_slice(b"\\r"),
        0x00..=0x08 | 0x0b..=0x1f | 0x7f => {
            safe.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
        _ => safe.push(byte),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("free").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_forged_line_stays_inside_its_own() {
        let page = Page::default();
        let writer = page.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || OneLine::new(writer.clone()))
            .finish();
        let forged = "gone\n2026-11-16T00:00:00Z  INFO all is well\r\u{1b}[2Jx\u{0}";
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(error = %forged, "call failed: {forged}");
        });
        let text = String::from_utf8(page.0.lock().expect("free").clone()).expect("text");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("gone\\n2026"), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\0'), "{text:?}");
    }
}
