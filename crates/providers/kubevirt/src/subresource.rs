//! What KubeVirt does beside its objects: requests to its own API server.

use std::time::Duration;

use hyper::http::{Method, Request};
use kube::client::Body;
use polyvirt_contract::Result;
use serde_json::json;

use crate::errors;
use crate::kinds::VmKey;
use crate::vm::Core;

/// The path of a subresource; `plural` says whether of the VirtualMachine or of its instance.
pub(crate) fn path(plural: &str, key: &VmKey, what: &str) -> String {
    let VmKey { namespace, name } = key;
    format!("/apis/subresources.kubevirt.io/v1/namespaces/{namespace}/{plural}/{name}/{what}")
}

/// Asks for the machine's end within the time. A cluster without the subresource, one that keeps it from us, and a machine that
/// has ended are left to `runStrategy`.
pub(crate) async fn stop(core: &Core, key: &VmKey, grace: Duration) -> Result<()> {
    let body = json!({"gracePeriod": grace.as_secs()}).to_string();
    let request = Request::builder()
        .method(Method::PUT)
        .uri(path("virtualmachines", key, "stop"))
        .header("content-type", "application/json")
        .body(Body::from(body.into_bytes()))
        .map_err(|error| errors::internal(error.to_string()))?;
    let sent = core.cluster.client().send(request);
    let response = core.cluster.ask("Stopping the VM", sent).await?;
    match response.status().as_u16() {
        200..300 | 403 | 404 | 409 | 503 => Ok(()),
        other => {
            let status = kube::core::Status::failure("KubeVirt refused to stop it", "");
            Err(errors::answered(
                "Stopping the VM",
                &status.with_code(other),
            ))
        }
    }
}
