//! Images that lie, images from the web, and pools without room.

use polyvirt_contract::model::{CreateVm, ImageSource, Placement};
use polyvirt_contract::{ErrorKind, Provider as _};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::lab::{Lab, guest_image};

/// A web server of one file; its address.
pub async fn serve(bytes: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let _ = stream.read(&mut request).await;
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                bytes.len()
            );
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&bytes).await;
        }
    });
    format!("http://{address}/image")
}

async fn refused(lab: &Lab, desired: CreateVm) -> polyvirt_contract::ProviderError {
    let id = desired.owner.clone().expect("owned").identity;
    let answer = lab
        .provider
        .create(desired)
        .await
        .map(|created| created.task);
    let error = lab.ended(answer).await.expect_err("refused");
    assert_eq!(lab.provider.find(&id).await, Ok(None), "half a VM is left");
    error
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_are_checked_before_they_are_used() {
    let lab = Lab::new().await;
    let guest = std::fs::read(guest_image()).expect("readable");
    let checksum = polyvirt_provider_kit::uuid::hex(&Sha256::digest(&guest));
    let from = |url: String, checksum: &str| ImageSource {
        url,
        checksum: checksum.to_owned(),
        checksum_type: "sha256".to_owned(),
        format: "qcow2".to_owned(),
        ..ImageSource::default()
    };
    let url = serve(guest.clone()).await;
    let with = |image: ImageSource, number: u32| CreateVm {
        image,
        ..lab.desired(&format!("vm-{number}"), number)
    };
    // One that is what it should be goes through the stream and comes out the same.
    let vm = lab.create(&with(from(url.clone(), &checksum), 1)).await;
    let volumes = lab.host.volumes("default");
    let image = volumes
        .iter()
        .find(|name| name.starts_with("img-") && name.contains(".qcow2"));
    let sent =
        std::fs::read(lab.host.path("pool").join(image.expect("an image"))).expect("readable");
    assert!(sent == guest, "{} bytes became {}", guest.len(), sent.len());
    lab.delete(&vm).await;

    let error = refused(&lab, with(from(url, &"0".repeat(64)), 2)).await;
    assert_eq!(
        (error.kind, error.field.as_deref()),
        (ErrorKind::Invalid, Some("spec.source.checksum"))
    );
    let garbage = serve(b"not a disk at all".to_vec()).await;
    let error = refused(&lab, with(from(garbage, ""), 3)).await;
    assert_eq!(error.kind, ErrorKind::Invalid, "{error:?}");

    // A volume of a pool that is damaged, one that names another file, and a file of the host that is in no pool.
    let images = lab.host.path("images");
    let mut broken = guest.clone();
    broken[40..48].fill(0xff);
    std::fs::write(images.join("broken.qcow2"), &broken).expect("written");
    let made = std::process::Command::new("qemu-img")
        .args([
            "create",
            "-q",
            "-f",
            "qcow2",
            "-F",
            "raw",
            "-b",
            "/etc/shadow",
        ])
        .arg(images.join("thief.qcow2"))
        .status();
    assert!(made.expect("qemu-img is installed").success());
    lab.host.virsh(&["pool-refresh", "images"]);
    let at = |path: String| ImageSource {
        path,
        ..ImageSource::default()
    };
    for (number, name) in [(4, "broken.qcow2"), (5, "thief.qcow2")] {
        let path = images.join(name).display().to_string();
        let error = refused(&lab, with(at(path), number)).await;
        assert!(
            matches!(error.kind, ErrorKind::Invalid | ErrorKind::NotFound),
            "{name}: {error:?}"
        );
    }
    let error = refused(&lab, with(at("/etc/shadow".to_owned()), 6)).await;
    assert_eq!(error.kind, ErrorKind::NotFound, "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_pool_is_told_as_such() {
    let lab = Lab::new().await;
    // The folder is a file system of 24 MiB in the daemon's name space.
    lab.host.pool("small", &lab.host.path("small"));
    let in_small = |number: u32| CreateVm {
        placement: Some(Placement {
            datastore: "small".to_owned(),
            ..Placement::default()
        }),
        ..lab.desired(&format!("vm-{number}"), number)
    };
    let first = lab
        .provider
        .create(in_small(1))
        .await
        .map(|created| created.task);
    let first = lab.ended(first).await;
    let mut fat = in_small(2);
    fat.disks = vec![polyvirt_contract::model::DiskSpec {
        name: "data".to_owned(),
        size_gib: 1,
        disk_type: polyvirt_contract::model::DiskType::Thick,
        ..Default::default()
    }];
    let error = match first {
        Err(error) => error,
        Ok(()) => refused(&lab, fat).await,
    };
    assert_eq!(error.kind, ErrorKind::Exhausted, "{error:?}");
    let wrong = CreateVm {
        placement: Some(Placement {
            datastore: "nowhere".to_owned(),
            ..Placement::default()
        }),
        ..lab.desired("vm-3", 3)
    };
    let error = lab.provider.create(wrong).await.expect_err("no such pool");
    assert_eq!(
        (error.kind, error.field.as_deref()),
        (ErrorKind::Invalid, Some("spec.placement.datastore"))
    );
}
