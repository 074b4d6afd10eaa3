use proptest::prelude::*;

use super::*;

const GIB: u64 = 1 << 30;

/// A header as qemu-img writes it: version 3, clusters of 64 KiB, 1 GiB.
fn qcow2() -> Vec<u8> {
    let mut head = vec![0; 4 << 16];
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"QFI\xfb\0\0\0\x03");
    put(20, &16_u32.to_be_bytes());
    put(24, &GIB.to_be_bytes());
    put(36, &2_u32.to_be_bytes());
    put(40, &0x3_0000_u64.to_be_bytes());
    put(48, &0x1_0000_u64.to_be_bytes());
    put(56, &1_u32.to_be_bytes());
    put(96, &4_u32.to_be_bytes());
    put(100, &112_u32.to_be_bytes());
    head
}

const DESCRIPTION: &str = "# Disk DescriptorFile\nversion=1\nCID=1234abcd\nparentCID=ffffffff\n\
    createType=\"streamOptimized\"\n\n# Extent description\nRW 2097152 SPARSE \"disk.vmdk\"\n\n# The Disk Data Base\nddb.adapterType = \"ide\"\n";

fn vmdk(description: &str) -> Vec<u8> {
    let mut head = vec![0; 64 << 10];
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"KDMV");
    put(4, &3_u32.to_le_bytes());
    put(12, &(GIB / 512).to_le_bytes());
    put(20, &128_u64.to_le_bytes());
    put(28, &1_u64.to_le_bytes());
    put(36, &20_u64.to_le_bytes());
    put(512, description.as_bytes());
    head
}

fn probed(head: &[u8]) -> Result<Image, FormatError> {
    probe(head, head.len() as u64)
}

fn patched(mut head: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    head[at..at + bytes.len()].copy_from_slice(bytes);
    head
}

#[test]
fn good_images_are_known_with_their_size() {
    assert_eq!(
        probed(&qcow2()).unwrap(),
        Image {
            format: Format::Qcow2,
            virtual_bytes: GIB
        }
    );
    assert_eq!(
        probed(&vmdk(DESCRIPTION)).unwrap(),
        Image {
            format: Format::Vmdk,
            virtual_bytes: GIB
        }
    );
    let sparse = DESCRIPTION.replace("streamOptimized", "monolithicSparse");
    assert_eq!(probed(&vmdk(&sparse)).unwrap().format, Format::Vmdk);
    assert_eq!(
        probed(&[0; 4096]).unwrap(),
        Image {
            format: Format::Raw,
            virtual_bytes: 4096
        }
    );
    let version_2 = patched(qcow2(), 4, &2_u32.to_be_bytes());
    assert_eq!(probed(&version_2).unwrap().format, Format::Qcow2);
}

#[test]
fn an_image_that_needs_other_files_is_refused() {
    for head in [
        patched(qcow2(), 8, &0x200_u64.to_be_bytes()),
        patched(qcow2(), 16, &9_u32.to_be_bytes()),
        patched(qcow2(), 72, &4_u64.to_be_bytes()),
        vmdk(&DESCRIPTION.replace("disk.vmdk", "/etc/shadow")),
        vmdk(&DESCRIPTION.replace("disk.vmdk", "..\\disk.vmdk")),
        vmdk(&DESCRIPTION.replace("SPARSE \"disk.vmdk\"", "FLAT \"shadow\" 0")),
        vmdk(&DESCRIPTION.replace("streamOptimized", "monolithicFlat")),
        vmdk(&DESCRIPTION.replace("streamOptimized", "twoGbMaxExtentSparse")),
        vmdk(&DESCRIPTION.replace("RW 2", "RW 1 FLAT \"a\" 0\nRW 2")),
        vmdk(&DESCRIPTION.replace("RW 2", "# RW 2")),
        vmdk(&DESCRIPTION.replace("parentCID=ffffffff", "parentCID=00000001")),
        vmdk(&DESCRIPTION.replace("CID=1234abcd", "parentFileNameHint=\"base.vmdk\"")),
        vmdk(&DESCRIPTION.replace("version=1", "createType=\"monolithicFlat\"")),
    ] {
        let error = probed(&head).unwrap_err();
        assert!(matches!(error, FormatError::NotAlone { .. }), "{error}");
        assert!(error.to_string().contains("outside itself"), "{error}");
    }
    let description_only = probed(DESCRIPTION.as_bytes()).unwrap_err();
    assert!(
        description_only.to_string().contains("streamOptimized"),
        "{description_only}"
    );
}

#[test]
fn encrypted_images_are_refused() {
    for method in [1_u32, 2] {
        let error = probed(&patched(qcow2(), 32, &method.to_be_bytes())).unwrap_err();
        assert!(
            matches!(error, FormatError::Encrypted(Format::Qcow2)),
            "{error}"
        );
    }
}

#[test]
fn what_contradicts_itself_is_damaged() {
    for head in [
        qcow2()[..60].to_vec(),
        qcow2()[..100].to_vec(),
        qcow2()[..0x3_0000].to_vec(),
        patched(qcow2(), 20, &8_u32.to_be_bytes()),
        patched(qcow2(), 20, &64_u32.to_be_bytes()),
        patched(qcow2(), 24, &0_u64.to_be_bytes()),
        patched(qcow2(), 36, &0_u32.to_be_bytes()),
        patched(qcow2(), 36, &u32::MAX.to_be_bytes()),
        patched(qcow2(), 40, &u64::MAX.to_be_bytes()),
        patched(qcow2(), 48, &0_u64.to_be_bytes()),
        patched(qcow2(), 72, &2_u64.to_be_bytes()),
        patched(qcow2(), 100, &u32::MAX.to_be_bytes()),
        vmdk(DESCRIPTION)[..40].to_vec(),
        vmdk(DESCRIPTION)[..600].to_vec(),
        vmdk(""),
        patched(vmdk(DESCRIPTION), 12, &0_u64.to_le_bytes()),
        patched(vmdk(DESCRIPTION), 12, &1_u64.to_le_bytes()),
        patched(vmdk(DESCRIPTION), 20, &0_u64.to_le_bytes()),
        patched(vmdk(DESCRIPTION), 28, &u64::MAX.to_le_bytes()),
        patched(vmdk(DESCRIPTION), 36, &0_u64.to_le_bytes()),
    ] {
        let error = probed(&head).unwrap_err();
        assert!(matches!(error, FormatError::Damaged { .. }), "{error}");
    }
}

#[test]
fn unknown_versions_and_features_are_refused() {
    for head in [
        patched(qcow2(), 4, &4_u32.to_be_bytes()),
        patched(qcow2(), 72, &(1_u64 << 40).to_be_bytes()),
        patched(vmdk(DESCRIPTION), 4, &9_u32.to_le_bytes()),
    ] {
        let error = probed(&head).unwrap_err();
        assert!(matches!(error, FormatError::Unsupported { .. }), "{error}");
    }
}

#[test]
fn a_disk_beyond_the_bound_is_refused() {
    let huge = (MAX_VIRTUAL_BYTES / 512 + 1).to_string();
    let head = vmdk(&DESCRIPTION.replace("2097152", &huge));
    let head = patched(head, 12, &(MAX_VIRTUAL_BYTES / 512 + 1).to_le_bytes());
    assert!(matches!(
        probed(&head).unwrap_err(),
        FormatError::TooLarge { .. }
    ));
    let raw = probe(&[0; 512], MAX_VIRTUAL_BYTES + 1).unwrap_err();
    assert!(matches!(raw, FormatError::TooLarge { .. }), "{raw}");
}

#[test]
fn what_is_no_disk_image_is_named() {
    let mut tar = vec![0; 512];
    tar[257..262].copy_from_slice(b"ustar");
    for (head, word) in [
        (b"\x1f\x8b\x08\0".to_vec(), "gzip"),
        (b"\xfd7zXZ\0\0".to_vec(), "xz"),
        (b"\x28\xb5\x2f\xfd".to_vec(), "zstd"),
        (b"PK\x03\x04".to_vec(), "zip"),
        (tar, "OVA"),
        (b"<!DOCTYPE html>".to_vec(), "web page"),
        (b"vhdxfile".to_vec(), "VHDX"),
    ] {
        let error = probed(&head).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
    assert!(matches!(probed(b"").unwrap_err(), FormatError::Empty));
}

#[test]
fn the_declared_format_must_be_the_real_one() {
    let image = probed(&qcow2()).unwrap();
    assert_eq!(image.expect("").unwrap(), image);
    assert_eq!(image.expect("QCOW2").unwrap(), image);
    let error = image.expect("raw").unwrap_err();
    assert_eq!(
        error.to_string(),
        "The image was said to be raw and is qcow2. Correct the format, or the address"
    );
}

#[test]
fn files_are_looked_at_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.vmdk");
    std::fs::write(&path, vmdk(DESCRIPTION)).unwrap();
    assert_eq!(probe_file(&path).unwrap().virtual_bytes, GIB);
    let missing = probe_file(&folder.path().join("none")).unwrap_err();
    assert!(matches!(missing, FormatError::Read(_)));
}

/// A good header with a few bytes changed: what a hostile image looks like.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let good = prop_oneof![Just(qcow2()), Just(vmdk(DESCRIPTION))];
    let changes = proptest::collection::vec((0_usize..1200, any::<u8>()), 1..12);
    (good, changes, 0_usize..70_000).prop_map(|(mut head, changes, length)| {
        for (at, byte) in changes {
            head[at] = byte;
        }
        head.truncate(length);
        head
    })
}

proptest! {
    #[test]
    fn random_bytes_never_panic(head in proptest::collection::vec(any::<u8>(), 0..4096), length in any::<u64>()) {
        let _ = probe(&head, length);
    }

    #[test]
    fn what_is_accepted_has_a_sane_size(head in mutated(), length in prop_oneof![any::<u64>(), 0_u64..300_000]) {
        if let Ok(image) = probe(&head, length) {
            prop_assert!(image.virtual_bytes > 0 && image.virtual_bytes <= MAX_VIRTUAL_BYTES);
        }
    }
}
