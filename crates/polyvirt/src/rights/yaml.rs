//! Rules as text: one that people read, so it is not left to a serializer.

use std::fmt::Write as _;

use super::Names;
use super::rules::Rule;

/// What names depend on that the table cannot know.
pub struct Given<'a> {
    /// The name of the release.
    pub release: &'a str,
    /// The Secrets with certificates that somebody else keeps, separated by commas.
    pub certificates: &'a str,
}

/// The rules of a role, each after a comment that says who asks for it.
pub fn rules(rules: &[Rule], given: &Given<'_>) -> String {
    rules.iter().map(|rule| one(rule, given)).collect()
}

fn one(rule: &Rule, given: &Given<'_>) -> String {
    let words = |list: &[&str]| list.join(", ");
    let rooms: Vec<_> = rule.rooms.iter().copied().collect();
    let verbs: Vec<_> = rule.verbs.iter().map(|verb| verb.word()).collect();
    let group = if rule.group.is_empty() {
        "\"\""
    } else {
        rule.group
    };
    let mut text = String::new();
    let _ = writeln!(text, "# {}", words(&rooms));
    let _ = writeln!(text, "- apiGroups: [{group}]");
    let _ = writeln!(text, "  resources: [{}]", words(&rule.resources));
    if let Some(names) = names(rule.names, given) {
        let _ = writeln!(text, "  resourceNames: [{names}]");
    }
    let _ = writeln!(text, "  verbs: [{}]", words(&verbs));
    text
}

fn names(names: Names, given: &Given<'_>) -> Option<String> {
    match names {
        Names::All => None,
        Names::These(names) => Some(names.join(", ")),
        Names::Release => Some(given.release.to_owned()),
        Names::Certificates => Some(given.certificates.to_owned()),
    }
}

/// The text, so far to the right.
pub fn indented(text: &str, columns: usize) -> String {
    let lines = text.lines().map(|line| format!("{:columns$}{line}\n", ""));
    lines.collect()
}
