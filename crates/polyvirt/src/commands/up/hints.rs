//! What to try next.

use std::path::Path;

/// What to try next.
pub fn hints(kubeconfig: &Path, vm: Option<&str>) -> String {
    let mut lines = vec![
        String::new(),
        "Try:".to_owned(),
        format!("  export KUBECONFIG={}", kubeconfig.display()),
    ];
    lines.extend(path_hint());
    lines.push(hint("kubectl get virt", "what there is"));
    if let Some(vm) = vm {
        lines.extend([
            hint(
                &format!("kubectl describe vm {vm}"),
                "its state, conditions and events",
            ),
            hint(
                &format!("polyvirt vm console {vm}"),
                "its serial console, Ctrl-] leaves it",
            ),
            hint(
                &format!("polyvirt vm exec {vm} -- uname -a"),
                "a command in the guest",
            ),
            hint(
                &format!("polyvirt vm stop {vm} --wait"),
                "shut it down; start starts it",
            ),
            hint(
                &format!("kubectl delete vm {vm}"),
                "remove it; polyvirt up makes it again",
            ),
        ]);
    }
    lines.extend([
        hint("polyvirt status", "the health of everything"),
        hint("polyvirt down", "stop everything; nothing is lost"),
    ]);
    lines.join("\n")
}

/// How to call this program by its name, where the shell does not find it yet.
fn path_hint() -> Option<String> {
    let folder = std::env::current_exe().ok()?.parent()?.to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|p| p.join("polyvirt").is_file());
    (!found).then(|| format!("  export PATH=$PATH:{}", folder.display()))
}

fn hint(command: &str, meaning: &str) -> String {
    format!("  {command:<38} {meaning}")
}
