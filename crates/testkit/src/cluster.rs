use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout};

use crate::{ControlPlane, Error};

const FIELD_MANAGER: &str = "polyvirt-testkit";
const SERVED_TIMEOUT: Duration = Duration::from_secs(30);
const SERVED_POLL: Duration = Duration::from_millis(50);

/// The one ephemeral control plane of this process, started by whoever asks first.
///
/// It ends with the process. Tests that share it keep apart by [`namespace`], and those that kill
/// or restart things start their own.
pub async fn shared() -> Result<&'static ControlPlane, Error> {
    static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
    SHARED
        .get_or_try_init(|| ControlPlane::builder().ephemeral().start())
        .await
}

/// Makes a namespace that nobody else has, and returns its name: the prefix and something random.
pub async fn namespace(client: &Client, prefix: &str) -> Result<String, Error> {
    let metadata = ObjectMeta {
        generate_name: Some(format!("{prefix}-")),
        ..Default::default()
    };
    let wanted = Namespace {
        metadata,
        ..Default::default()
    };
    let made = Api::all(client.clone())
        .create(&PostParams::default(), &wanted)
        .await?;
    Ok(made.name_any())
}

/// Applies resource definitions, and returns when objects of all of them can be read and written.
pub async fn install_crds(
    client: &Client,
    definitions: &[CustomResourceDefinition],
) -> Result<(), Error> {
    apply_crds(client, definitions).await?;
    for definition in definitions {
        await_served(client, definition).await?;
    }
    Ok(())
}

/// Applies resource definitions, and returns when the API server has accepted all of them. Needs no right but to them.
pub async fn apply_crds(
    client: &Client,
    definitions: &[CustomResourceDefinition],
) -> Result<(), Error> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let params = PatchParams::apply(FIELD_MANAGER).force();
    for definition in definitions {
        api.patch(&definition.name_any(), &params, &Patch::Apply(definition))
            .await?;
    }
    for definition in definitions {
        await_established(&api, &definition.name_any()).await?;
    }
    Ok(())
}

async fn await_established(api: &Api<CustomResourceDefinition>, name: &str) -> Result<(), Error> {
    let established = await_condition(api.clone(), name, conditions::is_crd_established());
    match timeout(SERVED_TIMEOUT, established).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(not_served(name, error.to_string())),
        Err(_) => Err(not_served(name, refusals(&api.get(name).await?))),
    }
}

/// The conditions that are not met, as the server words them.
fn refusals(definition: &CustomResourceDefinition) -> String {
    let conditions = definition
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let unmet = conditions.filter(|condition| condition.status != "True");
    let words = unmet.map(|c| format!("{}: {}", c.type_, c.message.as_deref().unwrap_or("unmet")));
    words.collect::<Vec<_>>().join("; ")
}

/// The handler learns of an established definition a moment after the condition says so.
async fn await_served(client: &Client, definition: &CustomResourceDefinition) -> Result<(), Error> {
    let deadline = Instant::now() + SERVED_TIMEOUT;
    for version in definition
        .spec
        .versions
        .iter()
        .filter(|version| version.served)
    {
        while let Err(error) = list_one(client, definition, &version.name).await {
            if Instant::now() > deadline {
                return Err(not_served(&definition.name_any(), error.to_string()));
            }
            sleep(SERVED_POLL).await;
        }
    }
    Ok(())
}

async fn list_one(
    client: &Client,
    definition: &CustomResourceDefinition,
    version: &str,
) -> Result<(), kube::Error> {
    let spec = &definition.spec;
    let path = format!("/apis/{}/{version}/{}", spec.group, spec.names.plural);
    let request = Request::new(path).list(&ListParams::default().limit(1));
    client
        .request_text(request.map_err(kube::Error::BuildRequest)?)
        .await
        .map(drop)
}

fn not_served(name: &str, reason: String) -> Error {
    Error::CrdNotServed {
        name: name.to_owned(),
        waited: SERVED_TIMEOUT,
        reason,
    }
}
