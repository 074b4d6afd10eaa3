//! Tells the API server to ask us.
//!
//! In a cluster the chart makes the configurations, and only the authority is put into them. A manager outside the cluster
//! makes them itself, and removes them when it stops.

mod configuration;
mod inject;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::error::AdmissionError;
pub use configuration::{ClientConfig, Configuration, FailurePolicy};
pub(crate) use inject::inject;

const FIELD_MANAGER: &str = "polyvirt-webhook";

/// Makes the namespace of the Secret. In a cluster it is there.
pub(crate) async fn namespace(client: &Client, name: &str) -> Result<(), AdmissionError> {
    let wanted = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    Api::<Namespace>::all(client.clone())
        .patch(name, &params(), &Patch::Apply(wanted))
        .await?;
    Ok(())
}

/// Makes both configurations, or brings them up to date.
pub(crate) async fn apply(
    client: &Client,
    configuration: &Configuration,
) -> Result<(), AdmissionError> {
    let name = &configuration.name;
    Api::<ValidatingWebhookConfiguration>::all(client.clone())
        .patch(name, &params(), &Patch::Apply(configuration.validating()))
        .await?;
    Api::<MutatingWebhookConfiguration>::all(client.clone())
        .patch(name, &params(), &Patch::Apply(configuration.mutating()))
        .await?;
    Ok(())
}

/// Removes both configurations, so that nobody is asked who no longer answers.
pub(crate) async fn remove(client: &Client, name: &str) -> Result<(), AdmissionError> {
    let params = DeleteParams::default();
    let validating = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    absent(validating.delete(name, &params).await.map(drop))?;
    let mutating = Api::<MutatingWebhookConfiguration>::all(client.clone());
    absent(mutating.delete(name, &params).await.map(drop))
}

fn absent(deleted: Result<(), kube::Error>) -> Result<(), AdmissionError> {
    match deleted {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => Ok(other?),
    }
}

/// The account of this program, if it is a program's. One that it shares with people is looked at like theirs.
pub(crate) async fn own_account(client: &Client) -> Result<Option<String>, AdmissionError> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let asked = serde_json::from_value::<SelfSubjectReview>(Value::Object(serde_json::Map::new()));
    let asked = asked.unwrap_or_default();
    let told = api.create(&PostParams::default(), &asked).await?;
    let user = told.status.and_then(|status| status.user_info);
    let name = user.and_then(|user| user.username);
    Ok(name.filter(|name| name.starts_with("system:serviceaccount:")))
}

fn params() -> PatchParams {
    PatchParams::apply(FIELD_MANAGER).force()
}
