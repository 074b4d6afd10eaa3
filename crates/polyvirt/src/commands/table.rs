//! Tables as kubectl prints them: columns below each other, three blanks between.

use std::io::IsTerminal;

use jiff::Timestamp;

const GAP: &str = "   ";

/// What a cell tells at a glance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paint {
    /// Nothing.
    #[default]
    Plain,
    /// All is well.
    Good,
    /// Wait a little.
    Busy,
    /// Somebody should look.
    Bad,
}

/// Whether colours are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// Yes.
    On,
    /// No.
    Off,
}

impl Colours {
    /// On a terminal, unless the user wants none (<https://no-color.org>).
    pub fn of_stdout() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if unwanted || !std::io::stdout().is_terminal() {
            return Self::Off;
        }
        Self::On
    }

    /// The text in the colour of its meaning.
    pub fn paint(self, text: &str, paint: Paint) -> String {
        let code = match paint {
            Paint::Good => 32,
            Paint::Busy => 33,
            Paint::Bad => 31,
            Paint::Plain => 0,
        };
        if self == Self::Off || code == 0 || text.is_empty() {
            return text.to_owned();
        }
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// One field of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    /// A text with a meaning.
    pub fn new(text: impl Into<String>, paint: Paint) -> Self {
        Self {
            text: text.into(),
            paint,
        }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Paint::Plain)
    }
}

/// Rows of cells below a heading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with a heading and no rows.
    pub fn new(heading: &[&str]) -> Self {
        Self {
            rows: vec![heading.iter().map(|&word| word.into()).collect()],
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The whole table, each line with its end.
    pub fn render(&self, colours: Colours) -> String {
        let widths = self.widths();
        let lines = self.rows.iter().map(|row| line(row, &widths, colours));
        lines.collect()
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(Cell::width).max().unwrap_or_default()
        };
        (0..columns).map(width).collect()
    }
}

fn line(row: &[Cell], widths: &[usize], colours: Colours) -> String {
    let padded = row.iter().zip(widths).map(|(cell, width)| {
        let blanks = " ".repeat(width.saturating_sub(cell.width()));
        format!("{}{blanks}", colours.paint(&cell.text, cell.paint))
    });
    let joined = padded.collect::<Vec<_>>().join(GAP);
    format!("{}\n", joined.trim_end())
}

/// How long ago, in at most two units: `45s`, `3m20s`, `5h`, `12d`.
pub fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (2.., _, _) => format!("{days}d"),
        (_, 10.., _) => format!("{hours}h"),
        (_, 1.., _) => joined(hours, "h", minutes % 60, "m"),
        (_, _, 10..) => format!("{minutes}m"),
        (_, _, 2..) => joined(minutes, "m", seconds % 60, "s"),
        _ => format!("{seconds}s"),
    }
}

fn joined(large: i64, unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        return format!("{large}{unit}");
    }
    format!("{large}{unit}{small}{small_unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_clean() {
        let mut table = Table::new(&["NAME", "PHASE"]);
        table.row(vec!["a".into(), Cell::new("Running", Paint::Good)]);
        table.row(vec!["größer".into(), "".into()]);
        assert_eq!(
            table.render(Colours::Off),
            "NAME     PHASE\na        Running\ngrößer\n"
        );
    }

    #[test]
    fn colours_do_not_move_columns() {
        let mut table = Table::new(&["PHASE", "AGE"]);
        table.row(vec![Cell::new("Failed", Paint::Bad), "1s".into()]);
        assert_eq!(
            table.render(Colours::On),
            "PHASE    AGE\n\x1b[31mFailed\x1b[0m   1s\n"
        );
    }

    #[test]
    fn ages_are_short() {
        let begin = Timestamp::UNIX_EPOCH;
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (3599, "59m"),
            (3600, "1h"),
            (3660, "1h1m"),
            (36_000, "10h"),
            (172_800, "2d"),
        ] {
            let now = Timestamp::from_second(seconds).expect("a time");
            assert_eq!(age(begin, now), text);
        }
        let earlier = Timestamp::from_second(-5).expect("a time");
        assert_eq!(age(begin, earlier), "0s", "a clock that was set back");
    }
}
