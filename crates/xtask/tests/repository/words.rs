//! The vocabulary check lets old words stay, and no new ones in.

use std::path::Path;
use std::process::Command;

use crate::{processes, root};

/// Runs `hack/words.sh` on a folder. Returns whether it passed, and what it printed.
fn words(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(root().join("hack/words.sh"));
    let output = command.args(arguments).env("WORDS_ROOT", folder).output();
    let output = output.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.success(), text)
}

#[test]
fn more_words_fail_and_fewer_lower_the_baseline() {
    let _one = processes();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
    let baseline = || std::fs::read_to_string(path("hack/words.baseline")).unwrap();
    std::fs::create_dir(path("hack")).unwrap();
    write(
        "page.md",
        "It was told to somebody else, retold and for\never.",
    );
    assert!(words(folder.path(), &["--reset"]).0);
    assert_eq!(baseline(), "2 page.md\n");
    assert_eq!(
        words(folder.path(), &[]),
        (true, "words: 2, baseline 2\n".into())
    );

    write("new.rs", "// Nobody knows.");
    let (passed, text) = words(folder.path(), &[]);
    assert!(!passed && text.contains("new.rs: 1 words"), "{text}");
    assert!(
        !words(folder.path(), &["--update"]).0,
        "the baseline is never raised"
    );
    assert_eq!(baseline(), "2 page.md\n");

    write("new.rs", "// No user knows.");
    write("page.md", "It was told to the caller.");
    assert!(words(folder.path(), &["--update"]).0);
    assert_eq!(baseline(), "1 page.md\n");
    let page = path("page.md");
    let (_, shown) = words(folder.path(), &["--show", page.to_str().unwrap()]);
    assert!(shown.contains("\"told\": use: reported"), "{shown}");
}

#[test]
fn a_file_that_is_moved_keeps_its_words() {
    let _one = processes();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("hack")).unwrap();
    std::fs::write(path("old.md"), "Told, told.").unwrap();
    assert!(words(folder.path(), &["--reset"]).0);
    std::fs::rename(path("old.md"), path("new.md")).unwrap();
    assert!(words(folder.path(), &[]).0);
    assert!(words(folder.path(), &["--update"]).0);
    let baseline = std::fs::read_to_string(path("hack/words.baseline")).unwrap();
    assert_eq!(baseline, "2 new.md\n");
    std::fs::write(path("more.md"), "Told.").unwrap();
    assert!(!words(folder.path(), &[]).0);
}
