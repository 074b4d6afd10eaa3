//! What to try next.

use std::path::{Path, PathBuf};

const SNAPSHOT: &str = "config/samples/qemu-snapshot.yaml";
const SNAPSHOT_OF: &str = "demo";

/// What to try next.
pub fn hints(kubeconfig: &Path, vm: Option<&str>) -> String {
    let mut lines = vec![
        String::new(),
        "Try:".to_owned(),
        format!("  export KUBECONFIG={}", kubeconfig.display()),
    ];
    lines.extend(path_hint());
    lines.push(hint("kubectl get virt", "what there is"));
    lines.extend(vm.into_iter().flat_map(for_vm));
    lines.extend([
        hint("polyvirt status", "the health of everything"),
        hint("polyvirt down", "stop everything; nothing is lost"),
    ]);
    lines.join("\n")
}

/// What to do with a VM.
fn for_vm(vm: &str) -> Vec<String> {
    let mut lines = [
        (
            "kubectl describe vm",
            "",
            "its state, conditions and events",
        ),
        ("polyvirt vm events", "", "what happened to it"),
        (
            "polyvirt vm console",
            "",
            "its serial console, Ctrl-] leaves it",
        ),
        ("polyvirt vm exec", " -- uname -a", "a command in the guest"),
        (
            "polyvirt vm stop",
            " --wait",
            "shut it down; start starts it",
        ),
        (
            "kubectl delete vm",
            "",
            "remove it; polyvirt up makes it again",
        ),
    ]
    .map(|(verb, rest, meaning)| hint(&format!("{verb} {vm}{rest}"), meaning))
    .to_vec();
    // Only where the user stands in the source, and for the VM that it names.
    if vm == SNAPSHOT_OF && Path::new(SNAPSHOT).is_file() {
        let snapshot = hint(
            &format!("kubectl apply -f {SNAPSHOT}"),
            "keep its disks as they are",
        );
        lines.insert(lines.len() - 1, snapshot);
    }
    lines
}

/// How to call this program and kubectl by their names, where the shell does not find them yet.
fn path_hint() -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::current_exe().ok();
    let own = own.and_then(|program| Some(program.parent()?.to_owned()));
    let programs = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let folders = [("polyvirt", own), ("kubectl", programs)];
    let missing = folders.into_iter().filter_map(|(name, folder)| {
        let found = std::env::split_paths(&path).any(|p| p.join(name).is_file());
        folder.filter(|folder| !found && folder.join(name).is_file())
    });
    let missing: Vec<_> = missing.map(|f| f.display().to_string()).collect();
    (!missing.is_empty()).then(|| format!("  export PATH=$PATH:{}", missing.join(":")))
}

fn hint(command: &str, meaning: &str) -> String {
    format!("  {command:<52} {meaning}")
}
