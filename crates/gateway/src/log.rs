//! What the serial console has shown: a provider repeats it to whoever attaches, so we attach and leave when it falls silent.

use std::time::Duration;

use futures::StreamExt;
use polyvirt_contract::model::{ConsoleKind, ConsoleSession, VmRef};
use polyvirt_contract::{Provider, ProviderError};
use tokio::time::{Instant, timeout, timeout_at};

const SILENCE: Duration = Duration::from_millis(400);
const LONGEST: Duration = Duration::from_secs(3);
const MOST: usize = 1024 * 1024;

/// The last lines.
pub async fn read(
    provider: &dyn Provider,
    vm: &VmRef,
    lines: usize,
) -> Result<Vec<u8>, ProviderError> {
    let session = provider.console(vm, ConsoleKind::Serial).await?;
    Ok(last_lines(&collect(session).await?, lines).to_vec())
}

async fn collect(mut session: ConsoleSession) -> Result<Vec<u8>, ProviderError> {
    let end = Instant::now() + LONGEST;
    let mut shown = Vec::new();
    loop {
        let next = timeout(SILENCE, session.output.next());
        match timeout_at(end, next).await {
            Ok(Ok(Some(bytes))) => shown.extend_from_slice(&bytes?),
            _ => return Ok(shown),
        }
        if shown.len() > 2 * MOST {
            shown.drain(..shown.len() - MOST);
        }
    }
}

fn last_lines(text: &[u8], lines: usize) -> &[u8] {
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let breaks = body.iter().enumerate().rev().filter(|(_, b)| **b == b'\n');
    let begin = match lines {
        0 => text.len(),
        lines => breaks
            .skip(lines - 1)
            .map(|(at, _)| at + 1)
            .next()
            .unwrap_or(0),
    };
    &text[begin..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_whole() {
        for (text, lines, last) in [
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb\nc", 1, "c"),
            ("a\nb", 9, "a\nb"),
            ("a\n", 0, ""),
            ("", 3, ""),
        ] {
            assert_eq!(
                last_lines(text.as_bytes(), lines),
                last.as_bytes(),
                "{text:?}"
            );
        }
    }
}
