//! The VMImage of the first VM: made from what the user named, and followed while the provider fetches it.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use polyvirt_api::infra::{ImagePhase, VMImage, VMImageStatus, VirtualMachine};
use serde_json::{Value, json};

use super::image::Copied;
use super::progress::{Done, Progress};

const POLL: Duration = Duration::from_millis(300);
/// Longer than the pause before the first of the retries, so that a short break of the network does no harm.
const FAILED_FOR_GOOD: Duration = Duration::from_secs(15);

/// What is to be done about a VMImage that is there and comes from somewhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
    /// No VM was made from it: it may come from the new place.
    Replace,
    /// A VM was made from it.
    Leave,
}

/// The VMImage of that name, if there is one.
pub async fn find(client: &Client, name: &str) -> anyhow::Result<Option<VMImage>> {
    let api: Api<VMImage> = Api::namespaced(client.clone(), "default");
    api.get_opt(name).await.context("VMImages cannot be read")
}

/// Lets a VMImage that is there come from the place that the user names now. The answer is what the user has to know.
pub async fn follow(
    client: &Client,
    there: &VMImage,
    wanted: &Value,
    vm: &str,
    copied: Copied,
) -> anyhow::Result<Option<String>> {
    let name = there.metadata.name.as_deref().unwrap_or_default();
    let same = is_same(&serde_json::to_value(&there.spec.source)?, wanted);
    if same && copied == Copied::Before {
        return Ok(None);
    }
    let vms: Api<VirtualMachine> = Api::namespaced(client.clone(), "default");
    let vm_there = vms.get_opt(vm).await.context("The VM cannot be read")?;
    if same && vm_there.is_none() {
        return Ok(None);
    }
    if other(vm_there.as_ref()) == Other::Leave {
        return Ok(Some(format!(
            "VM {vm} keeps the disk that it has. To make it from the new image, remove both and run this again: \
             kubectl delete vm/{vm} vmimage/{name}"
        )));
    }
    let api: Api<VMImage> = Api::namespaced(client.clone(), "default");
    let params = PatchParams::default();
    // All of the old source goes: a JSON merge would keep its members.
    let change = json!([{"op": "replace", "path": "/spec/source", "value": wanted}]);
    let patch: json_patch::Patch = serde_json::from_value(change)?;
    let patched = api.patch(name, &params, &Patch::<()>::Json(patch)).await;
    patched.with_context(|| format!("VMImage {name} cannot be changed"))?;
    Ok(None)
}

fn other(vm: Option<&VirtualMachine>) -> Other {
    let made = vm.and_then(|vm| vm.status.as_ref()?.id.clone());
    match made {
        Some(_) => Other::Leave,
        None => Other::Replace,
    }
}

/// Whether all that is wanted is there; the API server adds defaults.
fn is_same(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| there.get(key).is_some_and(|t| is_same(t, value))),
        _ => there == wanted,
    }
}

/// How far an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// VMs can be made from it.
    Ready,
    /// The import failed, and the manager retries it.
    Failed(String),
    /// The import failed, and the manager does not retry it by itself.
    Refused(String),
    /// It is on its way.
    Under(String),
}

/// Returns when VMs can be made from the image. Shows how far it is.
pub async fn until_ready(
    progress: &Progress,
    client: &Client,
    name: &str,
    limit: Duration,
) -> anyhow::Result<((), Done)> {
    let begin = Instant::now();
    let mut failed_since = None;
    let mut told = String::new();
    loop {
        let image = find(client, name).await?.context("The VMImage is gone")?;
        match stage(&image) {
            Stage::Ready => return Ok(((), Done::new("ready", "imported"))),
            Stage::Refused(why) => bail!(
                "Import of VMImage {name} failed: {why}. Run this again with another --image or --image-checksum"
            ),
            Stage::Failed(why) => {
                let since = *failed_since.get_or_insert_with(Instant::now);
                show(
                    progress,
                    &mut told,
                    begin,
                    &format!("{why}; it is tried again"),
                );
                if since.elapsed() > FAILED_FOR_GOOD {
                    bail!(
                        "VMImage {name} cannot be had: {why}. Run this again with another --image or --image-checksum"
                    );
                }
            }
            Stage::Under(text) => {
                // A retry that is under way has not succeeded yet.
                show(progress, &mut told, begin, &text);
            }
        }
        if begin.elapsed() > limit {
            bail!(
                "VMImage {name} is not there after {} s: {told}. It goes on by itself; run this again to see how far it is, or give it more time with --timeout",
                limit.as_secs()
            );
        }
        tokio::time::sleep(POLL).await;
    }
}

fn show(progress: &Progress, told: &mut String, begin: Instant, text: &str) {
    let seconds = begin.elapsed().as_secs();
    progress.under_way("import", &format!("{seconds} s, {text}"));
    if text != told {
        progress.note(&format!("{seconds:>4} s  {text}"));
        text.clone_into(told);
    }
}

fn stage(image: &VMImage) -> Stage {
    let current = |s: &&VMImageStatus| s.observed_generation >= image.metadata.generation;
    let Some(status) = image.status.as_ref().filter(current) else {
        return Stage::Under("waits for the manager".to_owned());
    };
    let message = status.message.clone().unwrap_or_default();
    match status.phase {
        Some(ImagePhase::Ready) => Stage::Ready,
        Some(ImagePhase::Failed) if is_final(status) => Stage::Refused(message),
        Some(ImagePhase::Failed) => Stage::Failed(message),
        _ => Stage::Under(percentage(status).unwrap_or(message)),
    }
}

/// Whether no provider plans another attempt.
fn is_final(status: &VMImageStatus) -> bool {
    let mut all = status.provider_status.values();
    !status.provider_status.is_empty() && all.all(|on| on.next_attempt.is_none())
}

fn percentage(status: &VMImageStatus) -> Option<String> {
    let percent = status.import_progress.as_ref()?.percentage?;
    Some(format!("{percent} %"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(status: &Value) -> VMImage {
        serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMImage",
            "metadata": {"name": "guest", "generation": 2},
            "spec": {"source": {"http": {"url": "http://x.example/y"}}},
            "status": status,
        }))
        .expect("an image")
    }

    #[test]
    fn only_what_is_said_of_the_present_source_counts() {
        let old = image(&json!({"phase": "Ready", "observedGeneration": 1}));
        assert!(matches!(stage(&old), Stage::Under(_)));
        let ready = image(&json!({"phase": "Ready", "observedGeneration": 2}));
        assert_eq!(stage(&ready), Stage::Ready);
        let half = json!({"phase": "Importing", "observedGeneration": 2, "importProgress": {"percentage": 50}});
        assert_eq!(stage(&image(&half)), Stage::Under("50 %".to_owned()));
        let failed = json!({"phase": "Failed", "observedGeneration": 2, "message": "answered 404"});
        let why = Stage::Failed("answered 404".to_owned());
        assert_eq!(stage(&image(&failed)), why);
    }

    #[test]
    fn a_failure_that_is_not_retried_ends_the_wait() {
        let failed = |on: Value| {
            stage(&image(&json!({
                "phase": "Failed", "observedGeneration": 2, "message": "checksum mismatch", "providerStatus": {"local": on},
            })))
        };
        let why = "checksum mismatch".to_owned();
        let refused = failed(json!({"available": false}));
        assert_eq!(refused, Stage::Refused(why.clone()));
        let retried = failed(json!({"available": false, "nextAttempt": "2026-01-01T00:00:00Z"}));
        assert_eq!(retried, Stage::Failed(why));
    }

    #[test]
    fn defaults_of_the_api_server_make_no_other_source() {
        let wanted = json!({"http": {"url": "http://x.example/y"}});
        let there = json!({"http": {"url": "http://x.example/y", "timeout": "30m"}});
        assert!(is_same(&there, &wanted));
        let other = json!({"http": {"url": "http://x.example/z"}});
        assert!(!is_same(&there, &other));
        let file = json!({"libvirt": {"path": "/y"}});
        assert!(!is_same(&there, &file));
    }

    #[test]
    fn a_vm_that_was_made_keeps_its_image() {
        let vm = |status: Value| -> VirtualMachine {
            let object = json!({
                "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine", "metadata": {},
                "spec": {"providerRef": {"name": "p"}}, "status": status,
            });
            serde_json::from_value(object).expect("a VM")
        };
        assert_eq!(other(None), Other::Replace);
        assert_eq!(other(Some(&vm(json!({})))), Other::Replace);
        assert_eq!(other(Some(&vm(json!({"id": "1"})))), Other::Leave);
    }
}
