//! The page about the defects of the field names a proof for each, and the proof exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The defects that the page must speak about.
fn known() -> BTreeSet<String> {
    let numbered = |letter: char, last: u32| (1..=last).map(move |n| format!("{letter}{n}"));
    numbered('V', 19)
        .chain(numbered('P', 9))
        .chain(numbered('I', 6))
        .chain(numbered('S', 8))
        .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The cells of each row that begins with the number of a defect.
fn rows(page: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        line.split('|')
            .map(|cell| cell.trim().to_owned())
            .collect::<Vec<_>>()
    };
    let lines = page.lines().filter(|line| line.starts_with("| "));
    let rows = lines.map(|line| cells(line.trim_matches(['|', ' '])));
    rows.filter(|row| known().contains(&row[0])).collect()
}

/// `file::test`, in backquotes.
fn proofs(cell: &str) -> Vec<(String, String)> {
    let quoted = cell.split('`').skip(1).step_by(2);
    quoted
        .filter_map(|word| word.split_once("::"))
        .map(|(f, t)| (f.to_owned(), t.to_owned()))
        .collect()
}

fn is_test(file: &str, name: &str) -> bool {
    let Ok(source) = fs::read_to_string(root().join(file)) else {
        return false;
    };
    let Some(at) = source.find(&format!("fn {name}(")) else {
        return false;
    };
    let before: Vec<&str> = source[..at].lines().rev().take(6).collect();
    before
        .iter()
        .any(|line| line.contains("#[test]") || line.contains("tokio::test"))
        || source[at.saturating_sub(300)..at].contains("proptest!")
}

#[test]
fn every_defect_is_on_the_page_and_every_proof_exists() {
    let page = fs::read_to_string(root().join("docs/reference/defects.md")).expect("the page");
    let rows = rows(&page);
    let told: BTreeSet<_> = rows.iter().map(|row| row[0].clone()).collect();
    assert_eq!(told, known());
    for row in &rows {
        let proof = row.last().cloned().unwrap_or_default();
        let named = proofs(&proof);
        assert!(!named.is_empty(), "{} has no proof", row[0]);
        for (file, test) in named {
            assert!(
                is_test(&file, &test),
                "{}: there is no test {file}::{test}",
                row[0]
            );
        }
    }
}
