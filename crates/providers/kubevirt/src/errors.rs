//! From what an API server says to what the contract knows.

use kube::core::Status;
use kube::runtime::watcher;
use polyvirt_contract::{ErrorKind, ProviderError};

use crate::kinds::{Kind, VmKey};

/// A text of the server is cut here: it may quote whole objects.
const LONGEST: usize = 1024;

/// A defect, or a failure that nobody foresaw.
pub(crate) fn internal(message: impl Into<String>) -> ProviderError {
    ProviderError::new(ErrorKind::Internal, message)
}

/// The VM's present state forbids it.
pub(crate) fn precondition(message: impl Into<String>) -> ProviderError {
    ProviderError::new(ErrorKind::Precondition, message)
}

/// A disk that does not come. KubeVirt makes its pod over and over where pods are given no token of an account.
pub(crate) fn not_plugged(vm: &VmKey, disk: &str, said: &str) -> ProviderError {
    let message = format!(
        "The disk {disk} is not plugged into the VM {vm} yet; KubeVirt says of it: {said}. It is tried again; see the events of the \
         pods hp-volume-* in the namespace {}, and whether automountServiceAccountToken of its default ServiceAccount is false, \
         with which KubeVirt cannot plug in disks",
        vm.namespace,
    );
    ProviderError::new(ErrorKind::Timeout, message)
}

/// No answer in time.
pub(crate) fn late(doing: &str) -> ProviderError {
    let message = format!("{doing}: the cluster did not answer in time");
    ProviderError::new(ErrorKind::Timeout, message)
}

/// What an API server answered, or that it did not; `doing` says to what, as in "Reading the VM".
pub(crate) fn api(doing: &str, error: &kube::Error) -> ProviderError {
    match error {
        kube::Error::Api(status) => answered(doing, status),
        kube::Error::SerdeError(error) => {
            internal(format!("{doing}: the answer cannot be read: {error}"))
        }
        kube::Error::BuildRequest(error) => {
            internal(format!("{doing}: no such request can be made: {error}"))
        }
        other => {
            let message = format!("{doing}: the cluster cannot be reached: {}", told(other));
            ProviderError::new(ErrorKind::Unavailable, message)
        }
    }
}

/// Why a watch ended.
pub(crate) fn watch(error: &watcher::Error) -> ProviderError {
    use watcher::Error::{
        InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed,
    };
    let doing = "Watching the cluster";
    match error {
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => {
            api(doing, error)
        }
        WatchError(status) if status.code == 410 => {
            let message = "The watch fell behind; open a new one";
            ProviderError::new(ErrorKind::Unavailable, message)
        }
        WatchError(status) => answered(doing, status),
        NoResourceVersion => internal(format!("{doing}: an object has no version")),
    }
}

/// The innermost reason: the outer ones only say that something failed.
fn told(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    short(&deepest.to_string())
}

fn short(text: &str) -> String {
    let end = text.floor_char_boundary(LONGEST);
    text[..end].to_owned()
}

/// What a refusal means. Webhooks answer with any code; that one has spoken is in the text.
pub(crate) fn answered(doing: &str, status: &Status) -> ProviderError {
    let (kind, text) = (kind(status), short(&status.message));
    let message = match kind {
        ErrorKind::PermissionDenied => {
            format!("{doing}: {text}. Grant that to the account of the kubeconfig")
        }
        _ => format!("{doing}: {text}"),
    };
    let error = ProviderError::new(kind, message);
    match status.code {
        429 if kind == ErrorKind::Exhausted => error.of_haste(),
        _ if kind == ErrorKind::Exhausted => error.of_quota(),
        _ => error,
    }
}

/// The account may not see a kind that VMs can do without, and so cannot have what is done with it.
pub(crate) fn kept_from_us(kind: Kind) -> ProviderError {
    let [group, plural] = kind.rule();
    let message = format!(
        "The account of the kubeconfig may not list {plural} of {group}; grant it {} of them",
        kind.verbs().join(", "),
    );
    ProviderError::new(ErrorKind::PermissionDenied, message)
}

fn kind(status: &Status) -> ErrorKind {
    let text = status.message.as_str();
    let says = |words: &str| text.contains(words);
    if says("denied the request") || says("denied request") {
        return ErrorKind::Invalid;
    }
    match status.code {
        // So it says that a value which a JSON patch tests for is no longer there.
        422 if says("due to an error in our request") => ErrorKind::Precondition,
        400 | 422 => ErrorKind::Invalid,
        401 => ErrorKind::Unauthenticated,
        403 if says("exceeded quota") => ErrorKind::Exhausted,
        403 if says("being terminated") => ErrorKind::Precondition,
        403 if says("can be resized") => ErrorKind::Invalid,
        403 => ErrorKind::PermissionDenied,
        404 if is_of_the_kind(status) => ErrorKind::Unavailable,
        404 => ErrorKind::NotFound,
        405 | 406 | 415 => ErrorKind::Unsupported,
        408 | 504 => ErrorKind::Timeout,
        409 => ErrorKind::Precondition,
        429 if says("(re)initializing") => ErrorKind::Unavailable,
        429 => ErrorKind::Exhausted,
        410 | 500 | 502 | 503 => ErrorKind::Unavailable,
        _ => ErrorKind::Internal,
    }
}

/// Whether a 404 speaks of the kind and not of one object: then nobody has looked for the object.
pub(crate) fn is_of_the_kind(status: &Status) -> bool {
    let named = status.details.as_ref().is_some_and(|d| !d.name.is_empty());
    status.code == 404 && !named
}

/// Whether the API server says that there is no such object.
pub(crate) fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && !is_of_the_kind(status))
}

/// Whether the cluster does not know the kind.
pub(crate) fn is_unknown_kind(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if is_of_the_kind(status))
}

/// Whether the account may not do it.
pub(crate) fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

#[cfg(test)]
mod tests {
    use kube::core::response::StatusDetails;

    use super::*;

    fn status(code: u16, message: &str) -> Status {
        Status::failure(message, "").with_code(code)
    }

    fn of_object(code: u16) -> Status {
        let details = StatusDetails {
            name: "web".to_owned(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        };
        status(code, "x").with_details(details)
    }

    #[test]
    fn the_kind_decides_the_next_move() {
        let webhook =
            r#"admission webhook "virtualmachine-validator.kubevirt.io" denied the request: no"#;
        for (status, kind) in [
            (status(403, webhook), ErrorKind::Invalid),
            (status(500, webhook), ErrorKind::Invalid),
            (status(422, "spec: wrong"), ErrorKind::Invalid),
            (status(401, "Unauthorized"), ErrorKind::Unauthenticated),
            (
                status(403, "User \"x\" cannot list"),
                ErrorKind::PermissionDenied,
            ),
            (status(403, "exceeded quota: small"), ErrorKind::Exhausted),
            (
                status(404, "could not find the requested resource"),
                ErrorKind::Unavailable,
            ),
            (of_object(404), ErrorKind::NotFound),
            (of_object(409), ErrorKind::Precondition),
            (status(429, "slow down"), ErrorKind::Exhausted),
            (
                status(429, "storage is (re)initializing"),
                ErrorKind::Unavailable,
            ),
            (status(503, "starting"), ErrorKind::Unavailable),
            (status(504, "timeout"), ErrorKind::Timeout),
        ] {
            let error = answered("Doing", &status);
            assert_eq!(error.kind, kind, "{status:?}");
            assert!(error.message.starts_with("Doing: "), "{error}");
        }
    }

    /// A quota and a server that asks for a pause are met on every node.
    #[test]
    fn no_node_is_blamed_for_what_is_so_on_all() {
        let quota =
            "exceeded quota: small, requested: requests.storage=10Gi, used: 5Gi, limited: 12Gi";
        for status in [status(403, quota), status(429, "slow down")] {
            let error = answered("Writing the claim", &status);
            assert_eq!(error.kind, ErrorKind::Exhausted);
            assert!(!error.blames_host(), "{error:?}");
            assert!(error.message.contains(&status.message), "{error}");
        }
    }

    #[test]
    fn a_missing_right_is_told_with_what_to_grant() {
        let text = "virtualmachines.kubevirt.io is forbidden: User \"x\" cannot list resource";
        let error = answered("Listing VirtualMachine", &status(403, text));
        assert_eq!(
            error.message,
            format!("Listing VirtualMachine: {text}. Grant that to the account of the kubeconfig")
        );
        let error = kept_from_us(Kind::Snapshot);
        assert_eq!(error.kind, ErrorKind::PermissionDenied);
        assert_eq!(
            error.message,
            "The account of the kubeconfig may not list virtualmachinesnapshots of snapshot.kubevirt.io; grant it get, list, watch, create, patch, delete of them"
        );
    }

    #[test]
    fn a_webhooks_text_is_told_and_cut() {
        let text = format!("denied the request: {}", "ä".repeat(2000));
        let error = answered("Writing", &status(403, &text));
        assert!(error.message.contains("denied the request"));
        assert!(error.message.len() < LONGEST + 20);
    }
}
