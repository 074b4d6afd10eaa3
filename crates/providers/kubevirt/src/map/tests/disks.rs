//! Disks, what they are made from and where they are kept.

use polyvirt_api::kubevirt::{BootDevice, Cdrom, KubevirtOptions};
use polyvirt_contract::model::{CreateVm, DiskDefaults, DiskSpec, ImageSource};
use serde_json::{Value, json};

use super::{built, key, request, says, with};
use crate::kinds::{Kind, VmKey};
use crate::map::layout::{Layout, Source};
use crate::map::objects::{Anchor, Marks, Shape};
use crate::map::to_kubevirt::Hot;

#[test]
fn disks_boot_in_the_order_that_was_asked_for() {
    let order = |list: &[BootDevice]| {
        let list = list.to_vec();
        with(move |_, options| {
            options.boot_order = list;
            options.cdrom = Some(Cdrom {
                name: "cdrom-iso".to_owned(),
                claim: "web-iso".to_owned(),
                url: "https://example.com/x.iso".to_owned(),
                size_bytes: 1 << 30,
            });
        })
    };
    let (disk, cdrom, card) = (
        "DOMAIN/devices/disks/0/bootOrder",
        "DOMAIN/devices/disks/1/bootOrder",
        "DOMAIN/devices/interfaces/0/bootOrder",
    );
    for (list, d, c, n) in [
        (&[][..], json!(1), json!(2), Value::Null),
        (
            &[BootDevice::Network, BootDevice::Disk][..],
            json!(2),
            Value::Null,
            json!(1),
        ),
        (
            &[BootDevice::Cdrom, BootDevice::Disk, BootDevice::Network][..],
            json!(2),
            json!(1),
            json!(3),
        ),
    ] {
        says("boot", &order(list), &[(disk, d), (cdrom, c), (card, n)]);
    }
}

#[test]
fn a_disk_that_is_there_keeps_its_claim_and_one_that_comes_is_plugged_in() {
    let (mut request, options) = (request(), KubevirtOptions::default());
    let mut live = built(&request, &options, None, Hot::Stopped);
    live["spec"]["template"]["spec"]["volumes"][0] =
        json!({"name": "root", "persistentVolumeClaim": {"claimName": "restored"}});
    live["spec"]["template"]["spec"]["domain"]["devices"]["disks"][0]["disk"]["bus"] =
        json!("sata");
    request.disks = vec![DiskSpec {
        name: "data".to_owned(),
        size_gib: 3,
        ..DiskSpec::default()
    }];
    let vm = built(&request, &options, Some(&live), Hot::Running);
    let hot = json!({"claimName": "web-data", "hotpluggable": true});
    says(
        "plugged in",
        &vm,
        &[
            (
                "POD/volumes/0/persistentVolumeClaim/claimName",
                json!("restored"),
            ),
            ("DOMAIN/devices/disks/0/disk/bus", json!("sata")),
            ("POD/volumes/1/persistentVolumeClaim", hot),
            ("DOMAIN/devices/disks/1/disk/bus", json!("scsi")),
        ],
    );
    let again = built(&request, &options, Some(&vm), Hot::Stopped);
    assert_eq!(
        again["spec"], vm["spec"],
        "what is so already is left alone"
    );
}

#[test]
fn images_become_sources() {
    let image = |url: &str, path: &str, template: &str| ImageSource {
        url: url.to_owned(),
        path: path.to_owned(),
        template_name: template.to_owned(),
        ..ImageSource::default()
    };
    let there = |namespace: &str| VmKey::new(namespace, "golden");
    for (image, source) in [
        (
            image("https://a/x", "", ""),
            Source::Http {
                url: "https://a/x".to_owned(),
                checksum: String::new(),
            },
        ),
        (
            image("docker://quay.io/x", "", ""),
            Source::Registry {
                url: "docker://quay.io/x".to_owned(),
            },
        ),
        (
            image("s3://b/x", "", ""),
            Source::S3 {
                url: "s3://b/x".to_owned(),
            },
        ),
        (
            image("gs://b/x", "", ""),
            Source::Gcs {
                url: "gs://b/x".to_owned(),
            },
        ),
        (
            image("pvc://images/golden", "", ""),
            Source::Claim(there("images")),
        ),
        (image("pvc:///golden", "", ""), Source::Claim(there("team"))),
        (
            image("snapshot://images/golden", "", ""),
            Source::Snapshot(there("images")),
        ),
        (image("", "golden", ""), Source::Claim(there("team"))),
        (
            image("", "", "images/golden"),
            Source::Pointer(there("images")),
        ),
    ] {
        assert_eq!(
            Source::of_image(&image, "team").expect("understood"),
            source,
            "{image:?}"
        );
    }
}

#[test]
fn claims_and_volumes_are_owned_by_the_vm() {
    let mut request = request();
    request.class.disk_defaults = Some(DiskDefaults {
        disk_type: String::new(),
        size_gib: 20,
    });
    let key = key();
    let none = std::collections::BTreeMap::new();
    let anchor = Anchor {
        key: &key,
        uid: "u-1",
        marks: Marks {
            owner: request.owner.as_ref(),
            labels: &none,
        },
    };
    let disk = |request: &CreateVm| {
        let layout = Layout::of(request, &KubevirtOptions::default(), &key).expect("a layout");
        anchor.disk(&layout.root, &Shape::default())
    };
    let (kind, claim) = disk(&request);
    assert_eq!(kind, Kind::Claim);
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "20Gi");
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteOnce"]));
    assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], "u-1");
    assert_eq!(claim["metadata"]["annotations"]["polyvirt.io/vm"], "web");
    request.image = ImageSource {
        url: "https://a/x".to_owned(),
        checksum: "ab".to_owned(),
        checksum_type: "sha512".to_owned(),
        ..ImageSource::default()
    };
    let (kind, volume) = disk(&request);
    assert_eq!(kind, Kind::DataVolume);
    assert_eq!(volume["spec"]["source"]["http"]["checksum"], "sha512:ab");
    request.image = ImageSource {
        template_name: "golden".to_owned(),
        ..ImageSource::default()
    };
    let reference = disk(&request).1["spec"]["sourceRef"].clone();
    assert_eq!(
        reference,
        json!({"kind": "DataSource", "namespace": "team", "name": "golden"})
    );
}
