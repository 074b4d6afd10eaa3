//! Tells the API server that we exist.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::discovery::{FIRST_GROUP, FIRST_VERSION, GROUP, VERSION};
use crate::server::{GatewayError, Order, Place, Reach};

/// Above the 1000 of CustomResourceDefinitions, below everything that is built in.
const FIRST_PRIORITY: i32 = 1100;

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
    // Ours comes after everybody else's where names are the same.
    apply(client, place, authority, (GROUP, VERSION), 1000).await?;
    match (place.order, &place.reach) {
        (Order::NovacronFirst, _) => {
            apply(
                client,
                place,
                authority,
                (FIRST_GROUP, FIRST_VERSION),
                FIRST_PRIORITY,
            )
            .await
        }
        (Order::ByName, Reach::Host(_)) => remove_first(client).await,
        // The chart has made it, and removes it.
        (Order::ByName, Reach::Pods) => Ok(()),
    }
}

/// An earlier run may have put the other group first.
async fn remove_first(client: &Client) -> Result<(), GatewayError> {
    let name = format!("{FIRST_VERSION}.{FIRST_GROUP}");
    let api = Api::<APIService>::all(client.clone());
    match api.delete(&name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

async fn apply(
    client: &Client,
    place: &Place,
    authority: Option<&ByteString>,
    (group, version): (&str, &str),
    priority: i32,
) -> Result<(), GatewayError> {
    let name = format!("{version}.{group}");
    let wanted = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": priority,
            // Below that of CustomResourceDefinitions (100): theirs is the preferred version.
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
