//! What KubeVirt does beside its objects: requests to its own API server.

use std::time::Duration;

use hyper::http::Request;
use kube::core::Status;
use polyvirt_contract::Result;
use serde_json::{Value, json};

use crate::errors;
use crate::kinds::VmKey;
use crate::vm::Core;

/// What KubeVirt answers: that it was done, or why not.
pub(crate) type Answer = std::result::Result<(), Box<Status>>;

/// What is asked of a machine that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Pause,
    Unpause,
}

/// The path of a subresource; `plural` says whether of the VirtualMachine or of its instance.
pub(crate) fn path(plural: &str, key: &VmKey, what: &str) -> String {
    let VmKey { namespace, name } = key;
    format!("/apis/subresources.kubevirt.io/v1/namespaces/{namespace}/{plural}/{name}/{what}")
}

/// Sends a request. An error is of the way there; what KubeVirt says is the answer.
pub(crate) async fn put(core: &Core, path: &str, body: &Value, doing: &str) -> Result<Answer> {
    let request = Request::put(path)
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes())
        .map_err(|error| errors::internal(error.to_string()))?;
    let client = core.cluster.client();
    let answered = async {
        match client.request_text(request).await {
            Err(kube::Error::Api(status)) => Ok(Err(status)),
            answer => answer.map(|_| Ok(())),
        }
    };
    core.cluster.ask(doing, answered).await
}

/// Asks the machine to do something, without which the call has failed.
pub(crate) async fn ask(core: &Core, key: &VmKey, asked: Asked) -> Result<()> {
    let (what, doing) = match asked {
        Asked::Pause => ("pause", "Pausing the VM"),
        Asked::Unpause => ("unpause", "Letting the VM go on"),
    };
    let path = path("virtualmachineinstances", key, what);
    let answer = put(core, &path, &json!({}), doing).await?;
    answer.map_err(|status| errors::answered(doing, &status))
}

/// Asks for the machine's end within the time. A cluster without the subresource, one that keeps it from us, and a machine that
/// has ended are left to `runStrategy`.
pub(crate) async fn stop(core: &Core, key: &VmKey, grace: Duration) -> Result<()> {
    let doing = "Stopping the VM";
    let path = path("virtualmachines", key, "stop");
    let body = json!({"gracePeriod": grace.as_secs()});
    match put(core, &path, &body, doing).await? {
        Err(status) if !matches!(status.code, 403 | 404 | 409 | 503) => {
            Err(errors::answered(doing, &status))
        }
        _ => Ok(()),
    }
}
