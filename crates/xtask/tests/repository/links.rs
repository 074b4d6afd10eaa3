//! Every relative link of the documentation leads to a file that exists, and to a heading of it.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::root;

const OUTSIDE: [&str; 3] = ["http://", "https://", "mailto:"];

/// All Markdown files of the documentation, relative to the repository.
fn pages() -> Vec<PathBuf> {
    let mut found = vec![];
    for name in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        found.push(PathBuf::from(name));
    }
    for folder in ["docs", "hack", "crates", "charts"] {
        collect(Path::new(folder), &mut found);
    }
    found.sort();
    found
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = folder.join(entry.file_name());
        // Links are not followed: each page counts once.
        if entry.file_type().unwrap().is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|end| end == "md") {
            into.push(path);
        }
    }
}

/// The text without code, in which nothing is a link or a heading.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            kept.push_str(line);
        }
        kept.push('\n');
    }
    kept
}

/// The text with each `code` span emptied.
fn without_spans(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .filter(|(at, _)| at % 2 == 0)
        .map(|(_, part)| part)
        .collect()
}

/// The targets of `[text](target)`.
fn targets(text: &str) -> Vec<String> {
    let plain = without_spans(&prose(text));
    let rests = plain.match_indices("](").map(|(at, _)| &plain[at + 2..]);
    let ends = rests.filter_map(|rest| rest.split_once(')'));
    ends.map(|(target, _)| target.trim().to_owned()).collect()
}

/// The name that GitHub gives to a heading: lower case, without punctuation, with hyphens for spaces.
fn slug(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    let lower = kept.flat_map(char::to_lowercase);
    lower.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The text of a heading as it is shown: `[text](target)` is its text.
fn shown(heading: &str) -> String {
    let mut out = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        out.push_str(before);
        rest = after.split_once(')').map_or("", |(_, tail)| tail);
    }
    out + rest
}

fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let text = prose(text);
    for line in text.lines() {
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        if level == 0 || !heading.starts_with(' ') {
            continue;
        }
        let base = slug(shown(heading).trim());
        let repeated = (1..).map(|n| format!("{base}-{n}"));
        let name = std::iter::once(base.clone())
            .chain(repeated)
            .find(|name| !found.contains(name));
        found.extend(name);
    }
    found
}

/// `docs/howto/../concepts/x.md` as `docs/concepts/x.md`.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// Where a link of a page leads: the file, and the heading if one is named. `None` for addresses outside the repository.
fn destination(page: &Path, target: &str) -> Option<(PathBuf, Option<String>)> {
    if OUTSIDE.iter().any(|begin| target.starts_with(begin)) {
        return None;
    }
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor.to_owned())),
        None => (target, None),
    };
    let path = match file {
        "" => page.to_owned(),
        file => plain(&page.parent().unwrap().join(file)),
    };
    Some((path, anchor))
}

/// What is wrong with a link, if something is.
fn fault(page: &Path, target: &str) -> Option<String> {
    let (path, anchor) = destination(page, target)?;
    let place = format!("{}: ({target})", page.display());
    if !root().join(&path).exists() {
        return Some(format!("{place} leads to no file"));
    }
    let anchor = anchor?;
    let text = std::fs::read_to_string(root().join(&path)).unwrap_or_default();
    (!anchors(&text).contains(&anchor)).then(|| format!("{place} leads to no heading"))
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut faults = vec![];
    let mut checked = 0;
    for page in pages() {
        let text = std::fs::read_to_string(root().join(&page)).unwrap();
        let all = targets(&text);
        checked += all.len();
        faults.extend(all.iter().filter_map(|target| fault(&page, target)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(checked > 100, "only {checked} links found");
}

#[test]
fn the_index_names_every_page() {
    let index = PathBuf::from("docs/README.md");
    let text = std::fs::read_to_string(root().join(&index)).unwrap();
    let named = targets(&text)
        .into_iter()
        .filter_map(|target| destination(&index, &target))
        .map(|(path, _)| path);
    let named: BTreeSet<_> = named.collect();
    let all = pages().into_iter().filter(|page| page.starts_with("docs"));
    let missing: Vec<_> = all.filter(|p| *p != index && !named.contains(p)).collect();
    assert!(missing.is_empty(), "not in docs/README.md: {missing:?}");
}

#[test]
fn headings_are_named_as_github_names_them() {
    let text = "# A, b: `c_d`\n## Same\n## Same\n```\n# no heading\n```\n## [Link](x.md) now\n";
    let expected = ["a-b-c_d", "link-now", "same", "same-1"];
    assert_eq!(anchors(text), expected.map(str::to_owned).into());
}
