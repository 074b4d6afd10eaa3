//! Field paths in messages: each one that the code names exists in the schema of some kind, and "Set PATH to WORD" names a value
//! that the field takes.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use polyvirt_api::crds;
use serde_json::{Value, json};

/// The crates whose texts people read.
const CRATES: [&str; 6] = [
    "plan",
    "engine",
    "admission",
    "dialects",
    "runtimes",
    "placement",
];

fn schemas() -> Vec<Value> {
    let all = crds().into_iter();
    all.map(|crd| {
        let schema = "/spec/versions/0/schema/openAPIV3Schema";
        json!(crd).pointer(schema).expect("a schema").clone()
    })
    .collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && !is_test(&path) {
            found.push(path);
        }
    }
}

fn is_test(path: &Path) -> bool {
    path.components().any(|c| c.as_os_str() == "tests") || path.ends_with("tests.rs")
}

/// The text literals of a file, without its tests and comments.
fn literals(text: &str) -> Vec<String> {
    let code = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    let lines = code.lines().filter(|l| !l.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n").replace("\\\"", "'");
    code.split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The paths in a text, each with the text before and after it.
fn paths(text: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(at) = text[rest..].find("spec.") {
        let begin = rest + at;
        let end = begin + length(&text[begin..]);
        rest = end.max(begin + 1);
        let alone = !text[..begin].ends_with(|c: char| c.is_alphanumeric() || c == '.' || c == '_');
        let path = text[begin..end].trim_end_matches('.');
        if alone && path.len() > "spec.".len() && !path.contains('{') {
            let after = text[begin + path.len()..].to_owned();
            found.push((path.to_owned(), text[..begin].to_owned(), after));
        }
    }
    found
}

/// How long the path is that the text begins with.
fn length(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ if depth > 0 || c.is_ascii_alphanumeric() || c == '.' => {}
            _ => return at,
        }
    }
    text.len()
}

/// The schema at a path; an object that takes any member says nothing against one.
fn at(schema: &Value, path: &str) -> Option<Value> {
    let mut here = schema.clone();
    for segment in path.split('.') {
        let name = segment.split('[').next().unwrap_or_default();
        while here.get("properties").is_none() && here.get("items").is_some() {
            here = here["items"].clone();
        }
        let Some(properties) = here.get("properties") else {
            let open = here["type"] == "object" || here.get("additionalProperties").is_some();
            return open.then(|| json!({}));
        };
        here = properties.get(name)?.clone();
    }
    Some(here)
}

fn takes(schema: &Value, word: &str) -> bool {
    let words = schema
        .get("enum")
        .or_else(|| schema.pointer("/allOf/0/enum"));
    let listed = words.and_then(Value::as_array);
    let listed = listed.is_some_and(|list| list.iter().any(|w| w == word));
    listed || (schema["type"] == "boolean" && ["true", "false"].contains(&word))
}

/// The word of "Set PATH to WORD".
fn advised<'a>(before: &str, after: &'a str) -> Option<&'a str> {
    let set = before.to_ascii_lowercase().ends_with("set ");
    let rest = after.strip_prefix(" to ").filter(|_| set)?;
    let word = rest.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
    let is_value =
        word.starts_with(|c: char| c.is_ascii_uppercase()) || ["true", "false"].contains(&word);
    is_value.then_some(word)
}

#[test]
fn every_path_in_a_message_is_in_a_schema() {
    let schemas = schemas();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for name in CRATES {
        let mut files = Vec::new();
        sources(&crates.join(name).join("src"), &mut files);
        for file in files {
            let text = fs::read_to_string(&file).expect("a source file");
            for (path, before, after) in literals(&text).iter().flat_map(|l| paths(l)) {
                seen += 1;
                let found: Vec<_> = schemas.iter().filter_map(|s| at(s, &path)).collect();
                let word = advised(&before, &after);
                let fits = word.is_none_or(|word| found.iter().any(|s| takes(s, word)));
                if found.is_empty() || !fits {
                    wrong.push(format!("{}: {path}{after}", file.display()));
                }
            }
        }
    }
    assert!(seen > 300, "The sources were not read: {seen} paths");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn advice_to_set_an_object_to_a_word_is_found() {
    let schemas = schemas();
    let text = "Set spec.driftPolicy to Correct to bring it back";
    let (path, before, after) = paths(text).remove(0);
    assert_eq!(path, "spec.driftPolicy");
    let word = advised(&before, &after).expect("advice");
    let found = schemas.iter().filter_map(|s| at(s, &path));
    assert!(!found.into_iter().any(|s| takes(&s, word)));
}
