//! Lines that tell how far the work is: plain ones, and on a terminal the one under way as well.

use std::io::{self, IsTerminal, Write};
use std::time::Instant;

/// Where progress is shown.
pub struct Progress {
    terminal: bool,
}

/// What a step came to, for people.
pub struct Done {
    /// One word.
    pub word: &'static str,
    /// More of it; may be empty.
    pub detail: String,
}

impl Done {
    /// How the step ended, in a word and a detail.
    pub fn new(word: &'static str, detail: impl Into<String>) -> Self {
        Self {
            word,
            detail: detail.into(),
        }
    }
}

impl Progress {
    /// On standard output.
    pub fn new() -> Self {
        Self {
            terminal: io::stdout().is_terminal(),
        }
    }

    /// Shows a step: its name at once on a terminal, then how it ended and how long it took.
    pub async fn step<T>(
        &self,
        name: &str,
        work: impl Future<Output = anyhow::Result<(T, Done)>>,
    ) -> anyhow::Result<T> {
        let begin = Instant::now();
        self.under_way(name, "…");
        let result = work.await;
        self.erase();
        let (value, done) = result?;
        self.line(&step_line(name, &done, begin));
        Ok(value)
    }

    /// Replaces the line of the step under way; nothing without a terminal.
    pub fn under_way(&self, name: &str, state: &str) {
        if self.terminal {
            write_out(&format!("\r\x1b[K  {name:<WIDTH$} {state}"));
        }
    }

    /// What a terminal shows in the line under way, as a line of its own where there is none.
    pub fn note(&self, text: &str) {
        if !self.terminal {
            write_out(&format!("    {text}\n"));
        }
    }

    /// Removes the line of the step under way.
    pub fn erase(&self) {
        if self.terminal {
            write_out("\r\x1b[K");
        }
    }

    /// A line of its own.
    #[allow(clippy::unused_self, reason = "all that is shown goes through here")]
    pub fn line(&self, text: &str) {
        write_out(&format!("{text}\n"));
    }
}

const WIDTH: usize = 22;

fn step_line(name: &str, done: &Done, begin: Instant) -> String {
    let seconds = begin.elapsed().as_secs_f64();
    let line = format!(
        "  {name:<WIDTH$} {:<9} {seconds:>6.1} s   {}",
        done.word, done.detail
    );
    line.trim_end().to_owned()
}

/// Whoever read has had enough if it cannot be written.
fn write_out(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let line = |name, done| step_line(name, &done, Instant::now());
        let one = line("etcd", Done::new("started", "here"));
        let two = line("kube-apiserver", Done::new("ready", "there"));
        assert_eq!(one.find("here"), two.find("there"));
        assert!(line("x", Done::new("ok", "")).ends_with(" s"));
    }
}
