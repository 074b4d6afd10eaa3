//! Tells the API server that we exist.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::discovery::{GROUP, VERSION};
use crate::server::{GatewayError, Place, Reach};

const FIELD_MANAGER: &str = "polyvirt-gateway";

/// Makes the namespace and the Service where they are ours to make. In a cluster the chart has made both.
pub async fn service(client: &Client, place: &Place) -> Result<(), GatewayError> {
    let Reach::Host(host) = &place.reach else {
        return Ok(());
    };
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": place.namespace},
    });
    Api::<Namespace>::all(client.clone())
        .patch(&place.namespace, &params, &Patch::Apply(namespace))
        .await?;
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": place.service, "namespace": place.namespace},
        "spec": {
            "type": "ExternalName",
            "externalName": host,
            "ports": [{"name": "https", "port": place.port}],
        },
    });
    Api::<Service>::namespaced(client.clone(), &place.namespace)
        .patch(&place.service, &params, &Patch::Apply(service))
        .await?;
    Ok(())
}

/// Has requests for our group sent to us.
pub async fn api(
    client: &Client,
    place: &Place,
    authority: Option<&ByteString>,
) -> Result<(), GatewayError> {
    let name = format!("{VERSION}.{GROUP}");
    let wanted = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            // Ours comes after everybody else's where names are the same.
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "caBundle": authority,
            "service": {
                "namespace": place.namespace,
                "name": place.service,
                "port": place.port,
            },
        },
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    Api::<APIService>::all(client.clone())
        .patch(&name, &params, &Patch::Apply(wanted))
        .await?;
    Ok(())
}
