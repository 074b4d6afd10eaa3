//! The terminal, byte by byte.

use std::io::{IsTerminal, Read};
use std::os::fd::AsFd;

use anyhow::Context;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

/// Ctrl-].
pub const ESCAPE: u8 = 0x1D;

/// Hands every key on as it is; dropping it puts the terminal back as it was.
pub struct RawMode(Option<Termios>);

impl RawMode {
    /// Nothing if standard input is no terminal.
    pub fn enter() -> anyhow::Result<Self> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            return Ok(Self(None));
        }
        let before = tcgetattr(stdin.as_fd()).context("The terminal cannot be asked")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin.as_fd(), OptionalActions::Flush, &raw)
            .context("The terminal cannot be set up")?;
        Ok(Self(Some(before)))
    }

    /// Whether there is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(std::io::stdin().as_fd(), OptionalActions::Flush, before);
        }
    }
}

/// What is typed, until standard input ends. A thread of its own: a read that never returns must not keep the program.
pub fn typed() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(64);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        let mut stdin = std::io::stdin().lock();
        while let Ok(count) = stdin.read(&mut buffer) {
            if count == 0 || sender.blocking_send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// What comes before the escape key, and whether it was pressed.
pub fn before_escape(bytes: &[u8]) -> (&[u8], bool) {
    match bytes.iter().position(|&byte| byte == ESCAPE) {
        Some(at) => (&bytes[..at], true),
        None => (bytes, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_escape_key_is_found_among_others() {
        assert_eq!(before_escape(b"ls\r"), (&b"ls\r"[..], false));
        assert_eq!(before_escape(b"ls\x1dmore"), (&b"ls"[..], true));
        assert_eq!(before_escape(b"\x1d"), (&b""[..], true));
    }
}
