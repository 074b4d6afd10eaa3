//! What images mean on providers.

use polyvirt_api::infra::{
    HttpImageSource, ImagePrepare, LibvirtImageSource, VMImage, VsphereImageSource,
};

use super::*;

fn http(url: &str) -> VMImageSpec {
    let source: HttpImageSource =
        serde_json::from_value(serde_json::json!({"url": url, "checksum": "ab"})).expect("valid");
    VMImageSpec {
        source: VMImageSource {
            http: Some(source),
            ..VMImageSource::default()
        },
        ..VMImageSpec::default()
    }
}

fn importer() -> Capabilities {
    Capabilities {
        image_import: true,
        ..Capabilities::default()
    }
}

#[test]
fn force_asks_the_provider_once_more() {
    let plain = http("http://a/1.qcow2");
    let prepare = ImagePrepare {
        force: true,
        ..ImagePrepare::default()
    };
    let forced = VMImageSpec {
        prepare: Some(prepare),
        ..plain.clone()
    };
    let there = |spec: &VMImageSpec| ImageProviderStatus {
        available: true,
        fingerprint: Some(fingerprint(spec)),
        ..ImageProviderStatus::default()
    };
    let stands = |on| availability(&forced, Some(&on), &importer(), &Wanted::default());
    assert_eq!(stands(there(&plain)), Availability::NeedsPrepare);
    assert_eq!(stands(there(&forced)), Availability::Usable);
}

#[test]
fn an_edited_source_is_prepared_again() {
    let old = http("http://a/1.qcow2");
    let status = ImageProviderStatus {
        available: true,
        fingerprint: Some(fingerprint(&old)),
        ..ImageProviderStatus::default()
    };
    assert_eq!(
        availability(&old, Some(&status), &importer(), &Wanted::default()),
        Availability::Usable
    );
    let new = http("http://a/2.qcow2");
    assert_eq!(
        availability(&new, Some(&status), &importer(), &Wanted::default()),
        Availability::NeedsPrepare
    );
}

#[test]
fn a_template_needs_no_preparation() {
    let source = VsphereImageSource {
        template_name: Some("t".into()),
        ..Default::default()
    };
    let spec = VMImageSpec {
        source: VMImageSource {
            vsphere: Some(source),
            ..VMImageSource::default()
        },
        ..VMImageSpec::default()
    };
    assert_eq!(
        availability(&spec, None, &importer(), &Wanted::default()),
        Availability::Usable
    );
    assert_eq!(source_for_create(&spec.source, None).template_name, "t");
}

#[test]
fn what_is_missing_follows_the_policy() {
    let with = |on_missing| VMImageSpec {
        prepare: Some(ImagePrepare {
            on_missing,
            ..ImagePrepare::default()
        }),
        ..http("http://a/1")
    };
    let stands =
        |on_missing| availability(&with(on_missing), None, &importer(), &Wanted::default());
    assert_eq!(stands(OnMissing::Import), Availability::NeedsPrepare);
    assert_eq!(stands(OnMissing::Wait), Availability::AwaitsOthers);
    assert!(matches!(stands(OnMissing::Fail), Availability::Refused(_)));
}

#[test]
fn a_prepared_copy_is_used_in_place_of_the_url() {
    let spec = http("http://a/1.qcow2");
    let done = ImageProviderStatus {
        available: true,
        path: Some("/pool/a.qcow2".into()),
        ..ImageProviderStatus::default()
    };
    let image = source_for_create(&spec.source, Some(&done));
    assert_eq!(
        (image.path.as_str(), image.url.as_str()),
        ("/pool/a.qcow2", "")
    );
    assert_eq!(
        source_for_create(&spec.source, None).url,
        "http://a/1.qcow2"
    );
}

#[test]
fn the_checksum_is_left_out_when_it_is_not_to_be_checked() {
    let mut spec = http("http://a/1");
    assert_eq!(
        prepare_request("team", "i", &spec).expect("valid").checksum,
        "ab"
    );
    spec.prepare = Some(ImagePrepare {
        validate_checksum: false,
        ..ImagePrepare::default()
    });
    assert_eq!(
        prepare_request("team", "i", &spec).expect("valid").checksum,
        ""
    );
}

#[test]
fn a_path_is_used_as_it_is() {
    let source = LibvirtImageSource {
        path: Some("/a.qcow2".into()),
        ..Default::default()
    };
    let source = VMImageSource {
        libvirt: Some(source),
        ..VMImageSource::default()
    };
    assert!(!is_import(&source));
    assert_eq!(source_for_create(&source, None).path, "/a.qcow2");
}

#[test]
fn an_empty_disk_needs_no_preparation() {
    let spec = VMImageSpec {
        source: VMImageSource {
            blank: Some(polyvirt_api::infra::BlankImageSource {}),
            ..VMImageSource::default()
        },
        ..VMImageSpec::default()
    };
    assert_eq!(
        availability(&spec, None, &importer(), &Wanted::default()),
        Availability::Usable
    );
    let source = source_for_create(&spec.source, None);
    let expected = ImageSource {
        format: BLANK.to_owned(),
        ..ImageSource::default()
    };
    assert_eq!(source, expected);
}

fn for_all() -> VMImageSpec {
    serde_json::from_value(serde_json::json!({
        "source": {
            "libvirt": {"url": "https://a/1.qcow2", "storagePool": "fast"},
            "vsphere": {"templateName": "debian", "ovaURL": "https://a/1.ova"},
            "proxmox": {"templateID": 9000},
        },
        "prepare": {"storage": {"libvirt": {"storagePool": "vms"}, "vsphere": {"datastore": "ssd"}}},
    }))
    .expect("valid")
}

#[test]
fn each_hypervisor_takes_its_own_source() {
    let spec = for_all();
    let on = |kind| source_for_create(&source_on(&spec.source, Some(kind)), None);
    assert_eq!(on(ProviderType::Libvirt).url, "https://a/1.qcow2");
    assert_eq!(on(ProviderType::Qemu).url, "https://a/1.qcow2");
    let vsphere = on(ProviderType::Vsphere);
    assert_eq!(
        (vsphere.template_name.as_str(), vsphere.url.as_str()),
        ("debian", "https://a/1.ova")
    );
    let proxmox = on(ProviderType::Proxmox);
    assert_eq!(
        (proxmox.template_name.as_str(), proxmox.url.as_str()),
        ("9000", "")
    );
}

#[test]
fn a_hypervisor_without_its_own_source_takes_the_one_for_any_or_what_there_is() {
    let mut spec = for_all();
    spec.source.vsphere = None;
    let on = |spec: &VMImageSpec| source_on(&spec.source, Some(ProviderType::Vsphere));
    assert!(on(&spec).libvirt.is_some() && on(&spec).proxmox.is_none());
    spec.source.http = http("https://a/any.qcow2").source.http;
    assert_eq!(on(&spec), http("https://a/any.qcow2").source);
}

#[test]
fn only_what_a_hypervisor_takes_makes_it_import_anew() {
    let mut spec = for_all();
    let print = |spec: &VMImageSpec, kind| fingerprint(&spec_on(spec, Some(kind)));
    let before = [ProviderType::Libvirt, ProviderType::Vsphere].map(|k| print(&spec, k));
    spec.source.vsphere = Some(VsphereImageSource {
        template_name: Some("debian-13".to_owned()),
        ..VsphereImageSource::default()
    });
    assert_eq!(print(&spec, ProviderType::Libvirt), before[0]);
    assert_ne!(print(&spec, ProviderType::Vsphere), before[1]);
    assert!(is_import(&source_on(
        &spec.source,
        Some(ProviderType::Libvirt)
    )));
    assert!(!is_import(&source_on(
        &spec.source,
        Some(ProviderType::Proxmox)
    )));
}

#[test]
fn the_storage_of_a_copy_is_that_of_its_hypervisor() {
    let spec = for_all();
    let hint = |kind| {
        let request = prepare_request("team", "debian", &spec_on(&spec, Some(kind)));
        request.expect("a source").storage_hint
    };
    assert_eq!(hint(ProviderType::Libvirt), "vms");
    assert_eq!(hint(ProviderType::Vsphere), "ssd");
}

#[test]
fn storage_of_a_cluster_is_read_in_the_name_of_the_image() {
    let spec: VMImageSpec = serde_json::from_value(serde_json::json!({
        "source": {"dataVolume": {"name": "golden"}},
    }))
    .expect("valid");
    let request = prepare_request("team", "debian", &spec).expect("a source");
    let expected = polyvirt_contract::model::ImageOrigin::DataVolume {
        namespace: String::new(),
        name: "golden".to_owned(),
        reader: "team".to_owned(),
    };
    assert_eq!(request.origin, expected);
    assert_eq!(reader(&spec.source, "team"), "team");
    assert_eq!(reader(&for_all().source, "team"), "");
}

fn vm(pull: &str, id: Option<&str>) -> polyvirt_api::infra::VirtualMachine {
    serde_json::from_value(serde_json::json!({
        "metadata": {"name": "web", "uid": "uid-1"},
        "spec": {"providerRef": {"name": "p"}, "imagePullPolicy": pull},
        "status": {"id": id},
    }))
    .expect("a VM")
}

#[test]
fn a_vm_that_may_not_fetch_needs_the_image_to_be_there() {
    let mut image = VMImage::new("debian", http("http://a/1"));
    let stands = |image: &VMImage, vm| {
        let status = image.status.as_ref();
        let on = status.and_then(|s| s.provider_status.get("p"));
        readiness("debian", &image.spec, ("p", on), &importer(), wish(&vm))
    };
    let ImageReadiness::Failed(why) = stands(&image, vm("Never", None)) else {
        panic!("it is not there");
    };
    assert!(why.contains("spec.imagePullPolicy is Never"), "{why}");
    let there = ImageProviderStatus {
        available: true,
        fingerprint: Some(fingerprint(&image.spec)),
        ..ImageProviderStatus::default()
    };
    image.status.get_or_insert_default().provider_status = [("p".to_owned(), there)].into();
    assert_eq!(stands(&image, vm("Never", None)), ImageReadiness::Ready);
    let waits = stands(&image, vm("Always", None));
    assert!(matches!(waits, ImageReadiness::Waiting(_)), "{waits:?}");
    let made = stands(&image, vm("Always", Some("vm-1")));
    assert_eq!(made, ImageReadiness::Ready, "it has its disk");
}

/// These are in the status of images out there. If the first changes, so must the version of digests; the second is the form before.
#[test]
fn an_upgrade_prepares_nothing_again() {
    let spec: VMImageSpec = serde_json::from_value(json!({
        "source": {"registry": {"image": "r.example/x:1", "format": "raw"}},
    }))
    .expect("a spec");
    assert_eq!(fingerprint(&spec), "v1:a88e4365aecc0147");
    let text = serde_json::to_string(&spec.source).expect("JSON");
    assert!(is_fingerprint_of(&digest::legacy(&text), &spec));
    let other = http("http://a/1.qcow2");
    assert!(!is_fingerprint_of(&digest::legacy(&text), &other));
    assert!(is_fingerprint_of(&fingerprint(&other), &other));
}
