//! Images that are fetched once.

use polyvirt_contract::model::{
    Headers, ImageOrigin, ImageSource, PrepareImage, PreparedImage, Pull,
};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{ErrorKind, Provider, ProviderError};
use serde_json::json;

use crate::lab::{Lab, patience};

/// Images in the namespace of the test.
async fn lab() -> Lab {
    let mut lab = Lab::new().await;
    let url = format!("kubevirt://kubeconfig?imagesNamespace={}", lab.namespace);
    lab.provider = lab.another(&url).await;
    lab
}

fn http(url: &str, headers: Headers) -> PrepareImage {
    of(ImageOrigin::Http {
        url: url.to_owned(),
        headers,
    })
}

fn of(origin: ImageOrigin) -> PrepareImage {
    PrepareImage {
        target_name: "debian".to_owned(),
        origin,
        checksum: String::new(),
        checksum_type: String::new(),
        storage_hint: String::new(),
        pull: Pull::default(),
        identity: None,
    }
}

async fn prepared(lab: &Lab, request: PrepareImage) -> Result<PreparedImage, ProviderError> {
    let image = lab.provider.image_prepare(request).await?;
    let begin = std::time::Instant::now();
    while let Some(task) = &image.task {
        match lab.provider.task_status(task).await.expect("known") {
            TaskState::Running { .. } => {}
            TaskState::Failed(error) => return Err(error),
            TaskState::Succeeded => break,
        }
        assert!(begin.elapsed() < patience(), "it never ends");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    Ok(image)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_is_fetched_once_and_disks_are_copies_of_it() {
    let lab = lab().await;
    let url = "https://images.example/debian.qcow2";
    let secret = Headers([("Authorization".to_owned(), "Bearer t0ken".to_owned())].into());
    let image = prepared(&lab, http(url, secret.clone())).await;
    let image = image.expect("fetched");
    let again = lab.provider.image_prepare(http(url, secret)).await;
    let again = again.expect("there");
    assert_eq!(
        (again.path.as_str(), again.task),
        (image.path.as_str(), None)
    );
    let volumes = lab.names("DataVolume").await;
    assert_eq!(volumes.len(), 1, "{volumes:?}");
    let volume = lab.get("DataVolume", &volumes[0]).await;
    assert!(
        !volume.to_string().contains("t0ken"),
        "a secret in {volume}"
    );
    assert_eq!(
        volume["spec"]["source"]["http"]["secretExtraHeaders"],
        json!([volumes[0]])
    );
    assert_eq!(lab.names("Secret").await, volumes);

    let mut wish = lab.wish("web");
    wish.image = ImageSource {
        path: image.path.clone(),
        ..ImageSource::default()
    };
    lab.running(wish).await;
    let disk = lab.get("DataVolume", "web-root").await;
    assert_eq!(
        disk["spec"]["source"]["pvc"],
        json!({"namespace": lab.namespace, "name": volumes[0]})
    );
    lab.provider.image_delete(&image).await.expect("deleted");
    let gone = lab.provider.image_delete(&image).await;
    assert_eq!(gone.expect_err("gone").kind, ErrorKind::NotFound);
    assert_eq!(lab.names("DataVolume").await, ["web-root"]);
    assert!(lab.names("Secret").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_cannot_be_fetched_is_told_and_tried_again() {
    let lab = lab().await;
    let request = || http("https://nowhere.invalid/x.qcow2", Headers::default());
    let error = prepared(&lab, request()).await.expect_err("no such host");
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    assert!(error.message.contains("cannot be fetched"), "{error}");
    let error = prepared(&lab, request()).await.expect_err("taken away");
    assert_eq!(error.kind, ErrorKind::Precondition, "{error}");
    let error = prepared(&lab, request()).await.expect_err("fetched anew");
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cdi_is_not_sent_to_addresses_inside() {
    let lab = lab().await;
    let inside = "http://169.254.169.254/latest/meta-data";
    let registry = of(ImageOrigin::Registry {
        image: "127.0.0.1:5000/a/b:1".to_owned(),
        format: String::new(),
        headers: Headers::default(),
    });
    for request in [http(inside, Headers::default()), registry] {
        let refused = lab.provider.image_prepare(request).await;
        let refused = refused.expect_err("inside");
        assert_eq!(refused.kind, ErrorKind::Invalid, "{refused}");
        assert!(refused.message.contains("imageHosts=any"), "{refused}");
    }
    let wish = |url: &str| {
        let mut wish = lab.wish("web");
        wish.image = ImageSource {
            url: url.to_owned(),
            ..ImageSource::default()
        };
        wish
    };
    for url in [
        inside,
        "docker://localhost/a",
        "s3://169.254.169.254/latest/meta-data",
    ] {
        let refused = lab.provider.create(wish(url)).await;
        let refused = refused.expect_err("inside");
        assert_eq!(refused.kind, ErrorKind::Invalid, "{refused}");
    }
    assert!(lab.names("DataVolume").await.is_empty());
    assert!(lab.names("VirtualMachine").await.is_empty());
    let trusting = lab.another("kubevirt://kubeconfig?imageHosts=any").await;
    trusting.create(wish(inside)).await.expect("allowed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_without_a_volume_is_an_image_of_its_own_namespace() {
    let lab = lab().await;
    let golden = || {
        of(ImageOrigin::DataVolume {
            namespace: String::new(),
            name: "golden".to_owned(),
            reader: lab.namespace.clone(),
        })
    };
    let absent = lab.provider.image_prepare(golden()).await;
    assert_eq!(absent.expect_err("absent").kind, ErrorKind::NotFound);
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "golden"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    lab.put("PersistentVolumeClaim", claim).await;
    let begin = std::time::Instant::now();
    let image = loop {
        match lab.provider.image_prepare(golden()).await {
            Ok(image) => break image,
            Err(error) => assert_eq!(error.kind, ErrorKind::Precondition, "{error}"),
        }
        assert!(begin.elapsed() < patience(), "it is never bound");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!(image.path, format!("{}/golden", lab.namespace));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_of_somebody_else_is_used_and_stays() {
    let lab = lab().await;
    let theirs = || {
        of(ImageOrigin::DataVolume {
            namespace: lab.namespace.clone(),
            name: "golden".to_owned(),
            reader: lab.namespace.clone(),
        })
    };
    let absent = lab.provider.image_prepare(theirs()).await;
    assert_eq!(absent.expect_err("absent").kind, ErrorKind::NotFound);
    let volume = json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
        "metadata": {"name": "golden"},
        "spec": {
            "source": {"http": {"url": "https://images.example/golden.img"}},
            "storage": {"resources": {"requests": {"storage": "1Gi"}}},
        },
    });
    lab.put("DataVolume", volume).await;
    let begin = std::time::Instant::now();
    let image = loop {
        match lab.provider.image_prepare(theirs()).await {
            Ok(image) => break image,
            Err(error) => assert_eq!(error.kind, ErrorKind::Precondition, "{error}"),
        }
        assert!(begin.elapsed() < patience(), "it is never filled");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!(image.path, format!("{}/golden", lab.namespace));
    let kept = lab.provider.image_delete(&image).await;
    assert_eq!(kept.expect_err("not ours").kind, ErrorKind::NotFound);
    assert_eq!(lab.names("DataVolume").await, ["golden"]);
}
