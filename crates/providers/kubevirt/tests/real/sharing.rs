//! Whose disks a VM may be a copy of.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams};
use polyvirt_api::kubevirt::{Cdrom, KubevirtOptions};
use polyvirt_contract::model::{CreateVm, ImageOrigin, ImageSource, PrepareImage, Pull, VmRef};
use polyvirt_contract::{ErrorKind, Provider as _, ProviderError};
use serde_json::{Value, json};

use crate::lab::{Lab, with_options};

const CLONE_TO: &str = "polyvirt.io/clone-to";

/// A namespace of somebody else, with a claim `golden` in it.
async fn neighbour(lab: &Lab) -> Lab {
    let mut other = Lab::new().await;
    other.provider = lab.provider.clone();
    other.put("PersistentVolumeClaim", claim("golden")).await;
    other
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

fn at(url: &str) -> ImageSource {
    ImageSource {
        url: url.to_owned(),
        ..ImageSource::default()
    }
}

fn from(lab: &Lab, name: &str, image: ImageSource) -> CreateVm {
    CreateVm {
        image,
        ..lab.wish(name)
    }
}

fn with_medium(lab: &Lab, name: &str, url: &str) -> CreateVm {
    let cdrom = Cdrom {
        name: "cdrom-iso".to_owned(),
        url: url.to_owned(),
        ..Cdrom::default()
    };
    let options = KubevirtOptions {
        cdrom: Some(cdrom),
        ..KubevirtOptions::default()
    };
    with_options(lab.wish(name), &options)
}

async fn refused(lab: &Lab, wish: CreateVm) -> ProviderError {
    let error = lab.provider.create(wish).await.expect_err("not shared");
    assert_eq!(error.kind, ErrorKind::Precondition, "{error}");
    assert!(error.message.contains(CLONE_TO), "{error}");
    error
}

async fn share(other: &Lab, kind: &str, name: &str, with: &str) {
    let change = json!({"metadata": {"annotations": {CLONE_TO: with}}});
    other.change(kind, name, change).await;
}

async fn share_all(other: &Lab, with: Value) {
    let api: Api<Namespace> = Api::all(other.client.clone());
    let change = json!({"metadata": {"annotations": {CLONE_TO: with}}});
    let (params, patch) = (PatchParams::default(), Patch::Merge(change));
    let changed = api.patch(&other.namespace, &params, &patch).await;
    changed.expect("annotated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_of_others_is_copied_when_they_share_it() {
    let lab = Lab::new().await;
    let other = neighbour(&lab).await;
    let place = format!("{}/golden", other.namespace);
    let by_path = ImageSource {
        path: place.clone(),
        ..ImageSource::default()
    };
    let url = format!("pvc://{place}");
    refused(&lab, from(&lab, "web", by_path)).await;
    refused(&lab, with_medium(&lab, "web", &url)).await;
    let error = refused(&lab, from(&lab, "web", at(&url))).await;
    assert!(error.message.contains(&lab.namespace), "{error}");
    let absent = format!("pvc://{}/none", other.namespace);
    let absent = refused(&lab, from(&lab, "web", at(&absent))).await;
    assert_eq!(
        absent.message,
        error.message.replace("golden", "none"),
        "who may not read it cannot find out whether it is there"
    );
    assert!(lab.names("VirtualMachine").await.is_empty());

    share(&other, "PersistentVolumeClaim", "golden", &lab.namespace).await;
    lab.make(from(&lab, "web", at(&url))).await;
    let disk = lab.get("DataVolume", "web-root").await;
    let source = json!({"namespace": other.namespace, "name": "golden"});
    assert_eq!(disk["spec"]["source"]["pvc"], source);
    lab.make(with_medium(&lab, "installed", &url)).await;

    share(&other, "PersistentVolumeClaim", "golden", "somebody-else").await;
    refused(&lab, from(&lab, "late", at(&url))).await;
    share_all(&other, json!("*")).await;
    lab.make(from(&lab, "late", at(&url))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_medium_that_comes_later_is_looked_at_too() {
    let lab = Lab::new().await;
    let other = neighbour(&lab).await;
    let vm = lab.make(lab.wish("web")).await;
    let url = format!("pvc://{}/golden", other.namespace);
    let wish = with_medium(&lab, "web", &url);
    let error = lab.provider.reconfigure(&vm, wish).await;
    let error = error.expect_err("not shared");
    assert!(error.message.contains(CLONE_TO), "{error}");
    assert_eq!(lab.names("DataVolume").await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_image_is_judged_by_its_own_namespace() {
    let lab = Lab::new().await;
    let other = neighbour(&lab).await;
    let image = |reader: &str| PrepareImage {
        target_name: "debian".to_owned(),
        origin: ImageOrigin::DataVolume {
            namespace: other.namespace.clone(),
            name: "golden".to_owned(),
            reader: reader.to_owned(),
        },
        checksum: String::new(),
        checksum_type: String::new(),
        storage_hint: String::new(),
        pull: Pull::default(),
        identity: None,
    };
    for reader in [lab.namespace.as_str(), ""] {
        let refused = lab.provider.image_prepare(image(reader)).await;
        let refused = refused.expect_err("not shared");
        assert_eq!(refused.kind, ErrorKind::Precondition, "{refused}");
        assert_eq!(refused.field.as_deref(), Some("spec.source.dataVolume"));
        assert!(refused.message.contains(CLONE_TO), "{refused}");
    }
    let read_by = |reader: &str| ImageSource {
        path: format!("{}/golden", other.namespace),
        reader: reader.to_owned(),
        ..ImageSource::default()
    };
    refused(&lab, from(&lab, "web", read_by("a-third"))).await;
    lab.make(from(&lab, "web", read_by(&other.namespace))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_source_leads_nowhere_that_is_not_shared() {
    let lab = Lab::new().await;
    let other = neighbour(&lab).await;
    let pointer = |to: &str| {
        json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource", "metadata": {"name": "debian"},
            "spec": {"source": {"pvc": {"namespace": to, "name": "golden"}}},
        })
    };
    let named = |text: String| ImageSource {
        template_name: text,
        ..ImageSource::default()
    };
    lab.put("DataSource", pointer(&other.namespace)).await;
    refused(&lab, from(&lab, "web", named("debian".to_owned()))).await;
    other.put("DataSource", pointer(&other.namespace)).await;
    let theirs = format!("{}/debian", other.namespace);
    refused(&lab, from(&lab, "web", named(theirs.clone()))).await;
    share(&other, "DataSource", "debian", "*").await;
    lab.make(from(&lab, "web", named(theirs))).await;
    let disk = lab.get("DataVolume", "web-root").await;
    let source = json!({"namespace": other.namespace, "name": "golden"});
    assert_eq!(disk["spec"]["source"]["pvc"], source);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_share_one_namespace_do_not_share_disks() {
    let mut lab = Lab::new().await;
    let url = format!("kubevirt://kubeconfig?namespace={}", lab.namespace);
    lab.provider = lab.another(&url).await;
    let of = |tenant: &str, name: &str, image: ImageSource| {
        let mut wish = from(&lab, name, image);
        wish.owner
            .iter_mut()
            .for_each(|owner| tenant.clone_into(&mut owner.namespace));
        wish
    };
    let blank = lab.wish("x").image;
    let _: VmRef = lab.make(of("red", "theirs", blank)).await;
    lab.put("PersistentVolumeClaim", claim("golden")).await;
    refused(&lab, of("blue", "web", at("pvc:///theirs-root"))).await;
    lab.make(of("red", "copy", at("pvc:///theirs-root"))).await;
    lab.make(of("blue", "web", at("pvc:///golden"))).await;
    share(&lab, "PersistentVolumeClaim", "theirs-root", "blue").await;
    lab.make(of("blue", "late", at("pvc:///theirs-root"))).await;
}
