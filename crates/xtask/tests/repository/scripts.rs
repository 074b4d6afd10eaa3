//! The commands that guides of other projects name work here: scripts, make targets, folders.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::{processes, read, root};

/// A script of VirtRigaud's guide, its arguments, and the make commands that it stands for.
const WRAPPERS: &[(&str, &[&str], &str)] = &[
    ("test-lint-locally.sh", &[], "lint"),
    ("test-ci-locally.sh", &[], "test"),
    ("test-helm-locally.sh", &[], "test-chart"),
    ("test-helm-locally.sh", &["--cluster"], "test-chart e2e"),
    ("test-release-locally.sh", &[], "test-chart docker-build"),
    (
        "test-release-locally.sh",
        &["v0.2.0-test"],
        "test-chart docker-build TAG=v0.2.0-test",
    ),
    ("test-workflows-locally.sh", &["setup"], "tools"),
    ("test-workflows-locally.sh", &["lint"], "lint"),
    (
        "test-workflows-locally.sh",
        &["release", "v1"],
        "test-chart docker-build TAG=v1",
    ),
    ("test-workflows-locally.sh", &["all"], "test\ntest-chart"),
];

/// Targets that the guides of VirtRigaud and NovaCron name.
const TARGETS: &[&str] = &[
    "build",
    "docker-build",
    "docker-push",
    "test",
    "test-integration",
    "test-e2e",
    "generate",
    "manifests",
    "install",
    "run",
    "deploy",
];

/// Folders and files that the guides of VirtRigaud, NovaCron and the Viti Stack apply or name.
const PATHS: &[&str] = &[
    "config/crd",
    "config/crd/bases",
    "config/manager",
    "config/network-policy",
    "config/prometheus",
    "config/rbac",
    "config/samples",
    "docs/examples/complete-example.yaml",
    "docs/examples/multi-provider-example.yaml",
    "docs/examples/nfs-storageclass.yaml",
    "docs/examples/provider-vsphere.yaml",
    "docs/examples/proxmox-complete-example.yaml",
    "docs/examples/vm-ubuntu-small.yaml",
    "docs/examples/vmclass-small.yaml",
    "docs/examples/vmimage-ubuntu.yaml",
    "docs/examples/vmnetwork-app.yaml",
    "hack/vitistack-crds/vitistack.io_kubevirtconfigs.yaml",
    "CONTRIBUTING.md",
    "LICENSE",
];

fn targets() -> BTreeSet<String> {
    let makefile = read("Makefile");
    let names = makefile.lines().filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// What the script passes to make: a make that only prints its arguments stands in for the real one.
fn passed_to_make(folder: &Path, script: &str, arguments: &[&str]) -> String {
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(root().join("hack").join(script));
    let output = command.args(arguments).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn each_script_runs_the_make_targets_that_it_names() {
    let _one = processes();
    let folder = tempfile::tempdir().unwrap();
    let make = folder.path().join("make");
    std::fs::write(&make, "#!/bin/sh\necho \"$@\"\n").unwrap();
    std::fs::set_permissions(&make, PermissionsExt::from_mode(0o755)).unwrap();
    let known = targets();
    for (script, arguments, expected) in WRAPPERS {
        let passed = passed_to_make(folder.path(), script, arguments);
        assert_eq!(&passed, expected, "{script} {arguments:?}");
        for target in passed.split_whitespace().filter(|w| !w.contains('=')) {
            assert!(known.contains(target), "{script}: no make target {target}");
        }
    }
}

#[test]
fn the_make_targets_that_guides_name_exist() {
    let known = targets();
    let missing: Vec<_> = TARGETS.iter().filter(|t| !known.contains(**t)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_paths_that_guides_name_exist() {
    let missing = PATHS.iter().filter(|path| !root().join(path).exists());
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "{missing:?}");
}
