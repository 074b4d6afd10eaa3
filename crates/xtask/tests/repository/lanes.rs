//! `hack/test.sh` with a cargo and test programs that are shell scripts: what runs, what is printed, how it ends.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::json;

use crate::{processes, root};

/// A repository of its own, with the real script in it.
struct Repository {
    folder: tempfile::TempDir,
    messages: String,
}

/// Two tests that pass.
const PASSES: &str = "echo 'test result: ok. 2 passed; 0 failed'";
/// One that fails until it is run alone.
const UNSTEADY: &str = r"case $* in *--exact*) echo 'test result: ok.'; exit 0;; esac
echo 'test busy ... FAILED'; printf 'failures:\n\nfailures:\n    busy\n\ntest result: FAILED. 0 passed; 1 failed\n'; exit 101";
/// One that fails each time.
const FAILS: &str = r"printf 'test broken ... FAILED\nfailures:\n    broken\n\ntest result: FAILED. 0 passed; 1 failed\n'; exit 101";
/// A program that dies.
const DIES: &str = "kill -SEGV $$";

impl Repository {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = std::fs::read_to_string(root().join("hack/test.sh")).unwrap();
        let new = Self {
            folder,
            messages: String::new(),
        };
        new.script("hack/test.sh", &script);
        new.file("crates/polyvirt/Cargo.toml", "name = \"polyvirt\"\n");
        new.file("crates/a/Cargo.toml", "[package]\nname = \"a-package\"\n");
        new.file(
            "crates/providers/libvirt/Cargo.toml",
            "name = \"libvirt\"\n",
        );
        new
    }

    fn path(&self, path: &str) -> PathBuf {
        // As the shell sees it, without links.
        self.folder.path().canonicalize().unwrap().join(path)
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn script(&self, path: &str, text: &str) {
        self.file(path, text);
        let open = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.path(path), open).unwrap();
    }

    /// A program of tests. It writes down where it runs, and with how many threads.
    fn program(mut self, package: &str, kind: &str, name: &str, body: &str) -> Self {
        let file = format!("target/debug/deps/{name}-{kind}");
        let notes = self.path("notes");
        let note = format!(
            "echo {name} ${{PWD##*/}} $RUST_TEST_THREADS >>{}",
            notes.display()
        );
        self.script(&file, &format!("#!/bin/bash\n{note}\n{body}\n"));
        let folder = self.path(&format!("crates/{package}"));
        let message = json!({
            "reason": "compiler-artifact",
            "package_id": format!("path+file://{}#0.1.0", folder.display()),
            "manifest_path": folder.join("Cargo.toml"),
            "target": {"kind": [kind], "crate_types": ["bin"], "name": name,
                "src_path": folder.join("tests").join(name).join("main.rs"), "test": true},
            "profile": {"opt_level": "0", "test": true},
            "features": [], "filenames": [], "executable": self.path(&file), "fresh": true,
        });
        writeln!(self.messages, "{message}").unwrap();
        self
    }

    fn run(&self, lanes: &str) -> Output {
        self.file("messages", &self.messages);
        let cargo = format!(
            r#"#!/bin/bash
case "$*" in
  pkgid*) echo "path+file://{0}/crates/a#0.1.0" ;;
  *--no-run*) cat {0}/messages ;;
  *--doc*) echo "   Doc-tests a"; echo "test result: ok. 1 passed" ;;
  *) echo "one after the other" ;;
esac
"#,
            self.path("").display().to_string().trim_end_matches('/')
        );
        self.script("bin/cargo", &cargo);
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.path("bin").display());
        let mut command = Command::new(self.path("hack/test.sh"));
        command.args(["cargo", "test", "--workspace", "--no-fail-fast"]);
        let command = command.env("PATH", path).env("TEST_LANES", lanes);
        command.env("RUST_TEST_THREADS", "6").output().unwrap()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn notes(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn each_program_runs_once_in_the_folder_of_its_package() {
    let _one = processes();
    let repository = Repository::new()
        .program("a", "test", "it", PASSES)
        .program("a", "lib", "a", PASSES)
        .program("polyvirt", "test", "first_vm", "sleep 0.5")
        .program("a", "test", "slow", "sleep 0.2");
    let output = repository.run("2");
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("test result: ok").count(), 3, "{text}");
    assert!(text.contains("   Doc-tests a"), "{text}");
    assert!(
        text.contains("     Running tests/it/main.rs (target/debug/deps/it-test)"),
        "{text}"
    );
    let ran = notes(&repository.path("notes"));
    assert_eq!(ran.len(), 4, "{ran:?}");
    // The program that boots guests has the first lane, and all threads.
    assert!(ran.contains(&"first_vm polyvirt 6".to_owned()), "{ran:?}");
    assert!(ran.contains(&"slow a 4".to_owned()), "{ran:?}");
}

#[test]
fn tests_that_measure_time_run_when_the_lanes_have_ended() {
    let _one = processes();
    let says = "echo \"with: $*\"; echo 'test result: ok. 1 passed; 0 failed'";
    let repository = Repository::new()
        .program("providers/libvirt", "test", "real", says)
        .program("a", "test", "it", "sleep 0.3; echo slow is over");
    let output = repository.run("2");
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    let place = |words: &str| {
        text.find(words)
            .unwrap_or_else(|| panic!("{words}: {text}"))
    };
    assert!(place("with: --skip downtime::") < place("with: downtime::"));
    assert!(place("slow is over") < place("with: downtime::"));
}

#[test]
fn a_test_that_passes_alone_is_reported_and_does_not_fail_the_run() {
    let _one = processes();
    let repository = Repository::new().program("a", "test", "it", UNSTEADY);
    let output = repository.run("2");
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("UNSTEADY: busy of a-package"), "{text}");
    assert!(
        text.contains("to rerun pass `-p a-package --test it`"),
        "{text}"
    );
}

#[test]
fn a_test_that_fails_alone_too_fails_the_run() {
    let _one = processes();
    let repository = Repository::new()
        .program("a", "lib", "a", FAILS)
        .program("a", "test", "it", PASSES);
    let output = repository.run("2");
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("FAILED: broken of a-package"), "{text}");
    assert!(text.contains("test result: ok"), "the others run: {text}");
}

#[test]
fn a_program_that_dies_fails_the_run() {
    let _one = processes();
    let repository = Repository::new().program("a", "test", "it", DIES);
    let output = repository.run("2");
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("FAILED: target/debug/deps/it-test of a-package"),
        "{text}"
    );
}

#[test]
fn nothing_built_is_not_a_success() {
    let _one = processes();
    let output = Repository::new().run("2");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
}

#[test]
fn one_lane_leaves_it_to_cargo() {
    let _one = processes();
    let repository = Repository::new().program("a", "test", "it", PASSES);
    let output = repository.run("1");
    assert_eq!(text(&output), "one after the other\n");
}
