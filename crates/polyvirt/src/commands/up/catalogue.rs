//! The image catalogue that `marketplace://` of novacron.io looks names up in: the chart's own.

use std::collections::BTreeMap;

use anyhow::Context;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use polyvirt_dialects::novacron::CATALOGUE;
use serde::Deserialize;

const CHART_VALUES: &str = include_str!("../../../../../charts/polyvirt/values.yaml");

/// Where a manager that is not in a pod looks for it.
pub const NAMESPACE: &str = "polyvirt-system";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Values {
    image_catalogue: BTreeMap<String, String>,
}

/// Applies it, and returns how many images it names. What the user has added to it stays.
pub async fn apply(client: &Client) -> anyhow::Result<usize> {
    let images = images()?;
    let count = images.len();
    make_namespace(client).await?;
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(CATALOGUE.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(images),
        ..ConfigMap::default()
    };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let params = PatchParams::apply("polyvirt");
    match api.patch(CATALOGUE, &params, &Patch::Apply(&map)).await {
        Ok(_) => Ok(count),
        // Somebody has changed one of ours: theirs is the last word.
        Err(kube::Error::Api(status)) if status.is_conflict() => Ok(count),
        Err(error) => Err(error).context("The image catalogue cannot be applied"),
    }
}

async fn make_namespace(client: &Client) -> anyhow::Result<()> {
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let api: Api<Namespace> = Api::all(client.clone());
    match api.create(&PostParams::default(), &namespace).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(error) => Err(error).context("The namespace of the image catalogue cannot be made"),
    }
}

fn images() -> anyhow::Result<BTreeMap<String, String>> {
    let values: Values =
        serde_saphyr::from_str(CHART_VALUES).context("The chart's values cannot be read")?;
    Ok(values.image_catalogue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_names_the_image_of_the_sample() {
        let images = images().expect("readable");
        assert!(images.contains_key("ubuntu-22.04-lts"), "{images:?}");
    }
}
