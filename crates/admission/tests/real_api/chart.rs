//! Configurations that a chart has made, and a manager that may do no more than its roles say.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use kube::{Api, Client};
use polyvirt_admission::{
    Caches, ClientConfig, Configuration, FailurePolicy, Metrics, Owners, Place, Registration,
    Webhooks,
};
use polyvirt_engine::catalogue::StandIn;
use polyvirt_pki::{Keeper, Lifetimes, Source};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::world::{World, plane, until};

const SERVICE: &str = "polyvirt-webhook";

/// The configurations as a chart makes them.
fn charted(world: &World) -> Configuration {
    Configuration {
        name: world.namespace.clone(),
        client: ClientConfig::Service {
            namespace: world.namespace.clone(),
            name: SERVICE.to_owned(),
            port: 443,
        },
        authority: Vec::new(),
        failure_policy: FailurePolicy::Fail,
        namespaces: vec![world.namespace.clone()],
        own_namespace: "polyvirt-system".to_owned(),
        own_account: None,
    }
}

/// The manager with the roles of config/webhook alone.
async fn manager(world: &World) -> Client {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/webhook/rbac.yaml");
    let text = std::fs::read_to_string(path).expect("the roles");
    let text = text
        .replace("polyvirt-system", &world.namespace)
        .replace("[polyvirt]", &format!("[{}]", world.namespace));
    let objects: Vec<DynamicObject> = serde_saphyr::from_multiple(&text).expect("YAML");
    for object in objects {
        let types = object.types.clone().expect("a kind");
        let kind = GroupVersionKind::try_from(&types).expect("a kind");
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(world.client.clone(), namespace, &resource),
            None => Api::all_with(world.client.clone(), &resource),
        };
        let made = api.create(&PostParams::default(), &object).await;
        made.expect("made");
    }
    let account = format!("system:serviceaccount:{}:polyvirt-manager", world.namespace);
    let groups = ["system:serviceaccounts", "system:authenticated"];
    plane()
        .await
        .client_as(&account, &groups)
        .expect("a client")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authority_is_put_into_what_the_chart_made_and_nothing_else_is_touched() {
    let world = World::empty("chart").await;
    let manager = manager(&world).await;
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(world.client.clone());
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(world.client.clone());
    let chart = PatchParams::apply("helm");
    let wanted = charted(&world);
    let before = validating
        .patch(&wanted.name, &chart, &Patch::Apply(wanted.validating()))
        .await;
    let before = before.expect("made");
    let mut foreign = wanted.mutating();
    foreign["metadata"]["annotations"] = json!({"cert-manager.io/inject-ca-from": "a/b"});
    mutating
        .patch(&wanted.name, &chart, &Patch::Apply(foreign))
        .await
        .expect("made");

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let place = Place {
        namespace: world.namespace.clone(),
        service: SERVICE.to_owned(),
        configuration: wanted.name.clone(),
        registration: Registration::Injected,
        look_every: Duration::from_millis(100),
    };
    let nothing = StandIn::start(&world.client, std::slice::from_ref(&world.namespace));
    let facts = Caches::new(
        nothing.catalogue().clone(),
        None,
        Arc::new(|_| Ok(())),
        Owners::new(manager.clone()),
    );
    let stop = CancellationToken::new();
    let keeper = Keeper::new(manager.clone(), &world.namespace, Lifetimes::default());
    let own = Source::Own(Arc::new(keeper));
    let webhooks = Webhooks::prepare(manager, place, own, Arc::new(facts), Metrics::default());
    let webhooks = webhooks.await.expect("prepared");
    let served = tokio::spawn(webhooks.serve(listener, stop.clone()));

    let after = until("both webhooks trust", || async {
        let found = validating.get(&wanted.name).await.expect("there");
        let all = found
            .webhooks
            .iter()
            .flatten()
            .all(|hook| hook.client_config.ca_bundle.is_some());
        all.then_some(found)
    })
    .await;
    let without = |config: &ValidatingWebhookConfiguration| {
        let mut hooks = config.webhooks.clone().expect("webhooks");
        for hook in &mut hooks {
            hook.client_config.ca_bundle = None;
        }
        hooks
    };
    assert_eq!(without(&before), without(&after));
    // The chart is applied again at each upgrade: nobody fights over the field.
    validating
        .patch(&wanted.name, &chart, &Patch::Apply(wanted.validating()))
        .await
        .expect("no conflict");
    let kept = validating
        .get(&wanted.name)
        .await
        .expect("there")
        .webhooks
        .expect("webhooks");
    assert!(
        kept.iter()
            .all(|hook| hook.client_config.ca_bundle.is_some())
    );
    let left = mutating
        .get(&wanted.name)
        .await
        .expect("there")
        .webhooks
        .expect("webhooks");
    assert!(
        left.iter()
            .all(|hook| hook.client_config.ca_bundle.is_none())
    );

    stop.cancel();
    served.await.expect("ended").expect("served");
    validating
        .get(&wanted.name)
        .await
        .expect("what the chart made stays");
    validating
        .delete(&wanted.name, &DeleteParams::default())
        .await
        .expect("cleaned up");
    mutating
        .delete(&wanted.name, &DeleteParams::default())
        .await
        .expect("cleaned up");
}
