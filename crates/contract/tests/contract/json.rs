//! The documents inside strings: exact on the way out, forgiving about form and strict about meaning on the way in.

use polyvirt_contract::model::*;
use polyvirt_contract::wire::json::*;
use polyvirt_contract::{ErrorKind, ProviderError};

use crate::fixtures;

#[track_caller]
fn invalid_at<T: std::fmt::Debug>(result: Result<T, ProviderError>, field: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert_eq!(error.field.as_deref(), Some(field), "{error}");
    assert!(error.message.starts_with(char::is_uppercase), "{error}");
}

#[test]
fn a_plain_class_has_every_key_and_nulls() {
    let class = ClassSpec {
        cpu: 2,
        memory_mib: 4096,
        ..ClassSpec::default()
    };
    assert_eq!(
        write_class(&class).unwrap(),
        concat!(
            r#"{"CPU":2,"MemoryMiB":4096,"Firmware":"BIOS","DiskDefaults":null,"#,
            r#""GuestToolsPolicy":"","ExtraConfig":null,"PerformanceProfile":null,"#,
            r#""SecurityProfile":null,"ResourceLimits":null}"#
        )
    );
}

#[test]
fn a_full_class_has_the_keys_of_its_parts_in_order() {
    let text = write_class(&fixtures::class()).unwrap();
    for part in [
        r#""DiskDefaults":{"Type":"thin","SizeGiB":40}"#,
        r#""ExtraConfig":{"a":"b","svga.autodetect":"TRUE"}"#,
        concat!(
            r#""PerformanceProfile":{"LatencySensitivity":"high","CPUHotAddEnabled":true,"#,
            r#""MemoryHotAddEnabled":true,"VirtualizationBasedSecurity":true,"#,
            r#""NestedVirtualization":true,"HyperThreadingPolicy":"prefer"}"#
        ),
        concat!(
            r#""SecurityProfile":{"SecureBoot":true,"TPMEnabled":true,"TPMVersion":"2.0","#,
            r#""VTDEnabled":true,"EncryptionEnabled":true,"KeyProvider":"standard","#,
            r#""RequireEncryption":true}"#
        ),
        concat!(
            r#""ResourceLimits":{"CPULimit":4000,"CPUReservation":1000,"MemoryLimitMiB":8192,"#,
            r#""MemoryReservationMiB":2048,"CPUShares":500}"#
        ),
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn a_class_in_the_casing_of_its_object_means_the_same() {
    let text = r#"{
        "cpu": 4, "memory": "8Gi", "firmware": "UEFI", "guestToolsPolicy": "install",
        "diskDefaults": {"type": "thin", "size": "40Gi", "iops": 500},
        "extraConfig": {"svga.autodetect": "TRUE", "a": "b"},
        "performanceProfile": {"latencySensitivity": "high", "cpuHotAddEnabled": true,
            "memoryHotAddEnabled": true, "virtualizationBasedSecurity": true,
            "nestedVirtualization": true, "hyperThreadingPolicy": "prefer"},
        "securityProfile": {"secureBoot": true, "tpmEnabled": true, "tpmVersion": "2.0",
            "vtdEnabled": true, "encryptionPolicy": {"enabled": true,
            "keyProvider": "standard", "requireEncryption": true}},
        "resourceLimits": {"cpuLimit": 4000, "cpuReservation": 1000, "memoryLimit": "8Gi",
            "memoryReservation": "2048Mi", "cpuShares": 500}
    }"#;
    assert_eq!(read_class(text).unwrap(), Some(fixtures::class()));
}

#[test]
fn our_own_class_object_is_read_back() {
    let text = write_class_object(&fixtures::class()).unwrap();
    assert!(
        text.starts_with(r#"{"cpu":4,"memory":"8192Mi","firmware":"UEFI""#),
        "{text}"
    );
    assert_eq!(read_class(&text).unwrap(), Some(fixtures::class()));
    let bare = write_class_object(&ClassSpec::default()).unwrap();
    assert_eq!(bare, r#"{"cpu":0,"memory":"0Mi","firmware":"BIOS"}"#);
}

#[test]
fn sizes_may_be_numbers_of_bytes_and_are_rounded_up() {
    let memory = |text: &str| read_class(text).unwrap().unwrap().memory_mib;
    assert_eq!(memory(r#"{"memory": 4294967296}"#), 4096);
    assert_eq!(memory(r#"{"memory": "4G"}"#), 3815);
    assert_eq!(memory(r#"{"MemoryMiB": 512, "memory": "4Gi"}"#), 512);
}

#[test]
fn keys_are_found_in_any_case_unknown_ones_are_skipped_null_is_absent() {
    let text = r#"{"cPu": 3, "MEMORYMIB": 5, "Firmware": null, "DiskDefaults": null,
        "ExtraConfig": null, "FromTheFuture": {"a": [1]}}"#;
    let class = read_class(text).unwrap().unwrap();
    assert_eq!(
        class,
        ClassSpec {
            cpu: 3,
            memory_mib: 5,
            ..ClassSpec::default()
        }
    );
}

#[test]
fn an_absent_class_is_none() {
    assert_eq!(read_class("").unwrap(), None);
    assert_eq!(read_class("null").unwrap(), None);
}

#[test]
fn all_words_for_firmware() {
    let read = |word: &str| {
        let text = serde_json::json!({ "Firmware": word }).to_string();
        read_class(&text).map(|c| c.unwrap())
    };
    for word in ["", "BIOS", "bios"] {
        assert_eq!(read(word).unwrap().firmware, Firmware::Bios, "{word}");
    }
    for word in ["UEFI", "EFI", "uefi", "efi", "Efi"] {
        let class = read(word).unwrap();
        assert_eq!(
            (class.firmware, class.security),
            (Firmware::Uefi, None),
            "{word}"
        );
    }
    for word in ["efi-secure", "UEFI-Secure", "uefi-secure"] {
        let class = read(word).unwrap();
        assert_eq!(class.firmware, Firmware::Uefi, "{word}");
        assert!(class.security.unwrap().secure_boot, "{word}");
    }
    invalid_at(read("openfirmware"), "class.firmware");
}

#[test]
fn secure_firmware_keeps_the_rest_of_the_profile() {
    let text = r#"{"firmware": "UEFI-Secure", "securityProfile": {"tpmEnabled": true}}"#;
    let security = read_class(text).unwrap().unwrap().security.unwrap();
    assert!(security.secure_boot && security.tpm);
}

#[test]
fn ill_typed_values_of_a_class_are_named() {
    for (text, field) in [
        (r#"{"CPU": "4"}"#, "class.cpu"),
        (r#"{"CPU": -1}"#, "class.cpu"),
        (r#"{"CPU": 1.5}"#, "class.cpu"),
        (r#"{"CPU": 4294967296}"#, "class.cpu"),
        (r#"{"memory": "much"}"#, "class.memory"),
        (r#"{"memory": true}"#, "class.memory"),
        (r#"{"Firmware": 1}"#, "class.firmware"),
        (r#"{"DiskDefaults": []}"#, "class.diskDefaults"),
        (
            r#"{"DiskDefaults": {"SizeGiB": "x"}}"#,
            "class.diskDefaults.sizeGiB",
        ),
        (r#"{"ExtraConfig": {"k": 1}}"#, "class.extraConfig.k"),
        (r#"{"ExtraConfig": "x"}"#, "class.extraConfig"),
        (
            r#"{"SecurityProfile": {"SecureBoot": "yes"}}"#,
            "class.securityProfile.secureBoot",
        ),
        (
            r#"{"ResourceLimits": {"CPULimit": 1e30}}"#,
            "class.resourceLimits.cpuLimit",
        ),
        ("[]", "class"),
        ("{", "class"),
        ("\"x\"", "class"),
    ] {
        invalid_at(read_class(text), field);
    }
}

#[test]
fn images() {
    let image = fixtures::image();
    let text = write_image(&image).unwrap();
    assert_eq!(
        text,
        concat!(
            r#"{"TemplateName":"ubuntu-24","Path":"/pool/ubuntu.qcow2","#,
            r#""URL":"https://images.example/ubuntu.qcow2?a=1&b=<2>","Format":"qcow2","#,
            r#""Checksum":"abc123","ChecksumType":"sha256"}"#
        )
    );
    assert_eq!(read_image(&text).unwrap(), Some(image.clone()));
    // Go escapes these three characters.
    let go = text
        .replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e");
    assert_eq!(read_image(&go).unwrap(), Some(image));
    invalid_at(read_image(r#"{"URL": 1}"#), "image.url");
}

#[test]
fn networks() {
    let plain = NicSpec {
        name: "lan".into(),
        ..NicSpec::default()
    };
    assert_eq!(
        write_networks(&[plain]).unwrap(),
        concat!(
            r#"[{"Name":"lan","Portgroup":"","NetworkName":"","Bridge":"","VLAN":0,"Model":"","#,
            r#""MacAddress":"","IPPolicy":"","StaticIP":"","Prefix":0,"Gateway":"","DNS":"","#,
            r#""PCISlotNumber":null}]"#
        )
    );
    assert_eq!(write_networks(&[]).unwrap(), "null");
    let full = write_networks(&[fixtures::nic()]).unwrap();
    assert!(
        full.contains(r#""DNS":"1.1.1.1,9.9.9.9","PCISlotNumber":192,"MTU":9000"#),
        "{full}"
    );
    assert_eq!(read_networks(&full).unwrap(), [fixtures::nic()]);
}

#[test]
fn networks_of_others() {
    for absent in ["", "null", "[]"] {
        assert_eq!(read_networks(absent).unwrap(), []);
    }
    let text = r#"[{"name": "a", "Portgroup": "PG", "ipAddress": "10.0.0.1", "prefix": 8,
        "DNS": " 1.1.1.1, ,9.9.9.9"}]"#;
    let nics = read_networks(text).unwrap();
    assert_eq!(nics[0].network, "PG");
    let address = nics[0].address.as_ref().unwrap();
    assert_eq!((address.prefix, address.dns.len()), (8, 2));
    invalid_at(
        read_networks(r#"[{}, {"VLAN": 70000}]"#),
        "spec.networks[1].vlan",
    );
    invalid_at(read_networks("[null]"), "spec.networks[0]");
    invalid_at(read_networks("{}"), "spec.networks");
}

#[test]
fn disks() {
    let plain = DiskSpec {
        name: "data".into(),
        size_gib: 10,
        ..DiskSpec::default()
    };
    let text = write_disks(&[plain]).unwrap();
    assert_eq!(text, r#"[{"SizeGiB":10,"Type":"thin","Name":"data"}]"#);
    assert_eq!(write_disks(&[]).unwrap(), "null");
    let full = write_disks(&[fixtures::disk()]).unwrap();
    assert_eq!(
        full,
        concat!(
            r#"[{"SizeGiB":100,"Type":"eagerzeroedthick","Name":"data","ExpandPolicy":"Online","#,
            r#""StorageClass":"fast","SCSI":{"controller":1,"sharedBus":"virtualSharing","#,
            r#""controllerType":"pvscsi"}}]"#
        )
    );
    assert_eq!(read_disks(&full).unwrap(), [fixtures::disk()]);
    invalid_at(read_disks(r#"[{"Type": "tape"}]"#), "spec.disks[0].type");
    invalid_at(
        read_disks(r#"[{"ExpandPolicy": "Now"}]"#),
        "spec.disks[0].expandPolicy",
    );
    invalid_at(read_disks(r#"[{"SizeGiB": -1}]"#), "spec.disks[0].sizeGiB");
}

#[test]
fn placements() {
    let plain = Placement {
        cluster: "c".into(),
        ..Placement::default()
    };
    let text = write_placement(Some(&plain)).unwrap();
    assert_eq!(
        text,
        r#"{"Datastore":"","StoragePod":"","Cluster":"c","Folder":"","Host":""}"#
    );
    assert_eq!(read_placement(&text).unwrap(), Some(plain));
    assert_eq!(write_placement(None).unwrap(), "");
    assert_eq!(read_placement("").unwrap(), None);
    let full = write_placement(Some(&fixtures::placement())).unwrap();
    assert!(
        full.ends_with(r#""Host":"esx-3","ResourcePool":"gold"}"#),
        "{full}"
    );
    invalid_at(read_placement(r#"{"Host": 1}"#), "spec.placement.host");
}

#[test]
fn the_bare_name_of_a_policy_places_nothing() {
    assert_eq!(read_placement(r#"{"name":"spread"}"#).unwrap(), None);
}

#[test]
fn a_plain_desired_vm_has_every_key() {
    let text = write_desired(&CreateVm {
        name: "a".into(),
        ..CreateVm::default()
    })
    .unwrap();
    assert!(
        text.starts_with(r#"{"Name":"a","Class":{"CPU":0,"#),
        "{text}"
    );
    let tail = r#""Networks":null,"Disks":null,"UserData":null,"MetaData":null,"Placement":null,"Tags":null}"#;
    assert!(text.ends_with(tail), "{text}");
}

#[test]
fn a_desired_vm_of_a_foreign_manager() {
    let text = r#"{"Name":"a","Class":{"CPU":2,"MemoryMiB":1024,"Firmware":"EFI"},
        "Image":{"TemplateName":"t"},"Networks":null,"Disks":[{"SizeGiB":1,"Type":"","Name":"d"}],
        "UserData":{"CloudInitData":"x: y","Type":"cloud-init"},
        "MetaData":{"MetaDataYAML":"z: 1"},"Placement":null,"Tags":["t"]}"#;
    let vm = read_desired(text).unwrap();
    assert_eq!(vm.user_data, Some(UserData::CloudInit("x: y".into())));
    assert_eq!((&vm.meta_data[..], vm.tags.len()), (&b"z: 1"[..], 1));
    assert_eq!(vm.class.firmware, Firmware::Uefi);
    assert_eq!(vm.disks[0].name, "d");
    invalid_at(read_desired(""), "spec");
    invalid_at(read_desired(r#"{"Class":{"CPU":"x"}}"#), "spec.class.cpu");
    invalid_at(
        read_desired(r#"{"UserData":{"Type":"perl"}}"#),
        "spec.userData.type",
    );
    invalid_at(read_desired(r#"{"Tags":[1]}"#), "spec.tags[0]");
}

#[test]
fn images_to_prepare_in_the_casing_of_their_object() {
    for (name, origin) in fixtures::origins() {
        let image = PrepareImage {
            origin,
            checksum: "abc".to_owned(),
            checksum_type: "md5".to_owned(),
            pull: Pull::Always,
            ..fixtures::prepare()
        };
        let read = read_prepare(&write_prepare(&image).unwrap()).unwrap();
        assert_eq!(read.origin, image.origin, "{name}");
        assert_eq!(
            (read.checksum.as_str(), read.checksum_type.as_str()),
            ("abc", "md5")
        );
        assert_eq!(read.pull, Pull::Always, "{name}");
    }
    let text = r#"{"source":{"libvirt":null,"vsphere":{"templateName":"t","ovaURL":null}},
        "prepare":{"onMissing":"Import"}}"#;
    let read = read_prepare(text).unwrap();
    let expected = ImageOrigin::Vsphere {
        template_name: "t".into(),
        ova_url: String::new(),
        content_library: None,
    };
    assert_eq!(read.origin, expected);
}

#[test]
fn images_to_prepare_in_the_shape_of_create() {
    let read = read_prepare(r#"{"Path":"","URL":"http://x/y","Format":"raw"}"#).unwrap();
    assert!(matches!(read.origin, ImageOrigin::Libvirt { ref url, .. } if url == "http://x/y"));
    let read = read_prepare(r#"{"TemplateName":"t","Checksum":"c"}"#).unwrap();
    assert!(
        matches!(read.origin, ImageOrigin::Vsphere { ref template_name, .. } if template_name == "t")
    );
    assert_eq!(read.checksum, "c");
}

#[test]
fn an_image_from_nowhere_is_refused() {
    for text in ["", "null", "{}", r#"{"source":{}}"#, r#"{"source":null}"#] {
        invalid_at(read_prepare(text), "image.source");
    }
    invalid_at(
        read_prepare(r#"{"source":{"proxmox":{"templateID":"x"}}}"#),
        "image.source.proxmox.templateID",
    );
}
