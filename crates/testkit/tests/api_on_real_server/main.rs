//! Our resource definitions on a real API server: accepted, cheap enough, and as strict as meant.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod examples;

use std::fs;
use std::path::PathBuf;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{PatchParams, PostParams};
use kube::core::Request;
use polyvirt_testkit::{install_crds, namespace, shared};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

#[derive(Deserialize)]
struct Cases {
    base: Value,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    change: Value,
    status: Option<Value>,
    rejected: Option<String>,
}

/// One kind in one namespace.
struct Kind {
    client: Client,
    path: String,
    /// What tells the objects of this test from those of others, where no namespace does.
    mark: Option<String>,
}

#[tokio::test]
async fn every_definition_is_structural_and_established() {
    let client = server().await;
    let api = kube::Api::<CustomResourceDefinition>::all(client);
    for crd in polyvirt_api::crds() {
        let name = crd.metadata.name.unwrap();
        let status = api.get_status(&name).await.unwrap().status.unwrap();
        let conditions = status.conditions.unwrap();
        let holds = |type_| {
            conditions
                .iter()
                .any(|c| c.type_ == type_ && c.status == "True")
        };
        assert!(
            holds("Established") && holds("NamesAccepted"),
            "{name}: {conditions:?}"
        );
        assert!(!holds("NonStructuralSchema"), "{name}: {conditions:?}");
    }
}

#[tokio::test]
async fn every_case_is_judged_as_written() {
    let client = server().await;
    let space = namespace(&client, "cases").await.unwrap();
    let mut faults = Vec::new();
    for crd in polyvirt_api::crds() {
        let kind = Kind::new(&client, &crd, &space);
        let file: Cases = serde_saphyr::from_str(&read("cases", &crd)).unwrap();
        for (number, case) in file.cases.iter().enumerate() {
            let outcome = kind.judge(&file.base, case, number).await;
            faults.extend(fault(&crd, case, outcome));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test]
async fn every_field_is_stored_as_given() {
    let client = server().await;
    let space = namespace(&client, "fixtures").await.unwrap();
    for crd in polyvirt_api::crds() {
        let kind = Kind::new(&client, &crd, &space);
        let documents: Vec<Value> = serde_saphyr::from_multiple(&read("fixtures", &crd)).unwrap();
        for document in documents {
            let stored = kind.store(&document).await;
            for part in ["spec", "status"] {
                let lost = lost(&document[part], &stored[part], part);
                assert!(lost.is_empty(), "{}: {lost:#?}", kind.path);
            }
        }
    }
}

#[tokio::test]
async fn no_printer_column_of_a_full_object_is_empty() {
    let client = server().await;
    let space = namespace(&client, "columns").await.unwrap();
    for crd in polyvirt_api::crds() {
        let kind = Kind::new(&client, &crd, &space);
        let documents: Vec<Value> = serde_saphyr::from_multiple(&read("fixtures", &crd)).unwrap();
        // Class and image have a name in a document of their own; the others are in the first.
        for document in &documents {
            kind.store(document).await;
        }
        let table = kind.table().await;
        let columns = table["columnDefinitions"].as_array().unwrap();
        for (at, column) in columns.iter().enumerate() {
            let rows = table["rows"].as_array().unwrap();
            let filled = rows.iter().any(|row| is_filled(&row["cells"][at]));
            assert!(filled, "{} {column}", kind.path);
        }
    }
}

impl Kind {
    fn new(client: &Client, crd: &CustomResourceDefinition, namespace: &str) -> Self {
        let version = &crd.spec.versions[0].name;
        let (group, plural) = (&crd.spec.group, &crd.spec.names.plural);
        let of_the_cluster = crd.spec.scope == "Cluster";
        let place = if of_the_cluster {
            String::new()
        } else {
            format!("/namespaces/{namespace}")
        };
        Self {
            client: client.clone(),
            path: format!("/apis/{group}/{version}{place}/{plural}"),
            mark: of_the_cluster.then(|| namespace.to_owned()),
        }
    }

    /// Tries the case, leaving nothing behind that another case could stumble over.
    async fn judge(&self, base: &Value, case: &Case, number: usize) -> kube::Result<Value> {
        let mut object = base.clone();
        let Some(status) = &case.status else {
            json_patch::merge(&mut object, &case.change);
            return self.create(&object, DryRun::Yes).await;
        };
        let name = format!("case-{number}");
        object["metadata"]["name"] = name.clone().into();
        self.create(&object, DryRun::No).await?;
        let status = json!({ "status": status });
        self.patch(&format!("{name}/status"), &status, DryRun::No)
            .await?;
        self.patch(&name, &case.change, DryRun::Yes).await
    }

    /// Creates the object with its status and returns what the server keeps of it.
    async fn store(&self, document: &Value) -> Value {
        let mut document = document.clone();
        if let Some(mark) = &self.mark {
            let name = document["metadata"]["name"].as_str().unwrap();
            document["metadata"]["name"] = format!("{name}-{mark}").into();
        }
        let created = self.create(&document, DryRun::No).await.unwrap();
        let Some(status) = document.get("status") else {
            return created;
        };
        let name = document["metadata"]["name"].as_str().unwrap();
        let status = json!({ "status": status });
        self.patch(&format!("{name}/status"), &status, DryRun::No)
            .await
            .unwrap()
    }

    async fn create(&self, object: &Value, dry_run: DryRun) -> kube::Result<Value> {
        let params = PostParams {
            dry_run: dry_run == DryRun::Yes,
            ..PostParams::default()
        };
        let body = serde_json::to_vec(object).unwrap();
        let mut request = Request::new(&self.path).create(&params, body).unwrap();
        let uri = format!("{}&fieldValidation=Strict", request.uri());
        *request.uri_mut() = uri.parse().unwrap();
        self.client.request(request).await
    }

    async fn patch(&self, name: &str, change: &Value, dry_run: DryRun) -> kube::Result<Value> {
        let params = PatchParams {
            dry_run: dry_run == DryRun::Yes,
            ..PatchParams::default()
        };
        let patch = kube::api::Patch::Merge(change);
        let mut request = Request::new(&self.path)
            .patch(name, &params, &patch)
            .unwrap();
        let uri = format!("{}&fieldValidation=Strict", request.uri());
        *request.uri_mut() = uri.parse().unwrap();
        self.client.request(request).await
    }

    async fn table(&self) -> Value {
        let mut request = Request::new(&self.path)
            .list(&kube::api::ListParams::default())
            .unwrap();
        let accept = "application/json;as=Table;g=meta.k8s.io;v=v1";
        request
            .headers_mut()
            .insert("accept", accept.parse().unwrap());
        self.client.request(request).await.unwrap()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum DryRun {
    Yes,
    No,
}

fn fault(
    crd: &CustomResourceDefinition,
    case: &Case,
    outcome: kube::Result<Value>,
) -> Option<String> {
    let said = match (&case.rejected, outcome) {
        (None, Ok(_)) => return None,
        (None, Err(error)) => format!("is refused: {error}"),
        (Some(_), Ok(_)) => "is accepted".to_owned(),
        (Some(text), Err(kube::Error::Api(status))) if status.message.contains(text) => {
            return None;
        }
        (Some(_), Err(error)) => format!("is refused with other words: {error}"),
    };
    Some(format!("{}, {}: {said}", crd.spec.names.kind, case.name))
}

/// What of `given` is not in `stored`, by path.
fn lost(given: &Value, stored: &Value, path: &str) -> Vec<String> {
    match (given, stored) {
        (Value::Object(given), Value::Object(stored)) => {
            let pairs = given
                .iter()
                .map(|(key, value)| (key, value, stored.get(key)));
            pairs
                .flat_map(|(key, value, kept)| {
                    lost(
                        value,
                        kept.unwrap_or(&Value::Null),
                        &format!("{path}.{key}"),
                    )
                })
                .collect()
        }
        (Value::Array(given), Value::Array(stored)) if given.len() == stored.len() => {
            let pairs = given.iter().zip(stored);
            pairs
                .flat_map(|(value, kept)| lost(value, kept, &format!("{path}[]")))
                .collect()
        }
        _ if given == stored => Vec::new(),
        _ => vec![format!("{path}: gave {given}, got {stored}")],
    }
}

fn is_filled(cell: &Value) -> bool {
    !cell.is_null() && cell != "" && cell != "<unknown>"
}

async fn server() -> Client {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let client = shared().await.unwrap().client().unwrap();
    let install = || async { install_crds(&client, &polyvirt_api::crds()).await.unwrap() };
    INSTALLED.get_or_init(install).await;
    client
}

fn read(folder: &str, crd: &CustomResourceDefinition) -> String {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../api/tests");
    // Two groups have VirtualMachines.
    let name = match crd.spec.group.as_str() {
        "novacron.io" => format!("{}.novacron.io.yaml", crd.spec.names.plural),
        _ => format!("{}.yaml", crd.spec.names.plural),
    };
    let path = tests.join(folder).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
