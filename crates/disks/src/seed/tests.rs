use std::io::{Cursor, Read as _};

use proptest::prelude::*;

use super::*;

fn seed(user: &[u8], meta: &[u8], network: Option<&[u8]>) -> Seed {
    Seed {
        user_data: Bytes::copy_from_slice(user),
        meta_data: Bytes::copy_from_slice(meta),
        network_config: network.map(Bytes::copy_from_slice),
    }
}

fn read_fat(image: &[u8], name: &str) -> Option<Vec<u8>> {
    let mut disk = image.to_vec();
    let system = fatfs::FileSystem::new(Cursor::new(&mut disk), fatfs::FsOptions::new()).unwrap();
    let mut content = Vec::new();
    let root = system.root_dir();
    root.open_file(name)
        .ok()?
        .read_to_end(&mut content)
        .unwrap();
    Some(content)
}

/// Reads the Joliet directory by the numbers in its volume descriptor, not by what the writer knows.
fn read_iso(image: &[u8], name: &str) -> Option<Vec<u8>> {
    let number = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap()) as usize;
    let volume = 17 * 2048;
    assert_eq!(&image[volume..volume + 6], b"\x02CD001");
    assert_eq!(number(volume + 80) * 2048, image.len());
    let mut at = number(volume + 156 + 2) * 2048;
    let wanted: Vec<u8> = name.encode_utf16().flat_map(u16::to_be_bytes).collect();
    while image[at] > 0 {
        let found = &image[at + 33..at + 33 + usize::from(image[at + 32])];
        if found == wanted {
            let start = number(at + 2) * 2048;
            return Some(image[start..start + number(at + 10)].to_vec());
        }
        at += usize::from(image[at]);
    }
    None
}

#[test]
fn both_disks_hold_the_documents() {
    let seed = seed(
        b"#cloud-config\n",
        b"instance-id: i\n",
        Some(b"version: 2\n"),
    );
    let (fat, iso) = (seed.to_fat().unwrap(), seed.to_iso().unwrap());
    for (name, content) in [
        ("user-data", b"#cloud-config\n".as_slice()),
        ("meta-data", b"instance-id: i\n"),
        ("network-config", b"version: 2\n"),
    ] {
        assert_eq!(read_fat(&fat, name).unwrap(), content, "{name}");
        assert_eq!(read_iso(&iso, name).unwrap(), content, "{name}");
    }
    assert_eq!(fat.len(), 1 << 20);
    assert_eq!(iso.len(), 28 * 2048);
}

#[test]
fn labels_are_those_that_cloud_init_looks_for() {
    let seed = seed(b"", b"", None);
    let mut fat = seed.to_fat().unwrap();
    let system = fatfs::FileSystem::new(Cursor::new(&mut fat), fatfs::FsOptions::new()).unwrap();
    assert_eq!(system.volume_label(), "CIDATA");
    assert_eq!(
        system.read_volume_label_from_root_dir().unwrap().unwrap(),
        "CIDATA"
    );
    let iso = seed.to_iso().unwrap();
    assert_eq!(&iso[16 * 2048 + 40..16 * 2048 + 48], b"cidata  ");
}

#[test]
fn without_network_configuration_there_is_no_such_file() {
    let seed = seed(b"", b"instance-id: i\n", None);
    assert_eq!(read_fat(&seed.to_fat().unwrap(), "network-config"), None);
    assert_eq!(read_iso(&seed.to_iso().unwrap(), "network-config"), None);
    assert_eq!(read_fat(&seed.to_fat().unwrap(), "user-data").unwrap(), b"");
    assert_eq!(read_iso(&seed.to_iso().unwrap(), "user-data").unwrap(), b"");
}

#[test]
fn large_user_data_fits_at_every_size_of_the_file_system() {
    for mib in [0, 1, 15, 17, 40] {
        for odd in [0, 4095] {
            let content = vec![7; (mib << 20) + odd];
            let seed = seed(&content, b"m", None);
            let fat = seed.to_fat().unwrap();
            assert!(
                read_fat(&fat, "user-data").unwrap() == content,
                "{mib} MiB + {odd}"
            );
            assert!(fat.len() < content.len() + (3 << 20), "{mib} MiB + {odd}");
        }
    }
}

#[test]
fn a_seed_beyond_the_bound_is_refused() {
    let error = seed(&vec![0; MAX_BYTES], b"m", None).to_fat().unwrap_err();
    assert!(matches!(error, SeedError::TooLarge { bytes } if bytes == MAX_BYTES + 1));
}

#[test]
fn the_debug_text_keeps_secrets() {
    let text = format!("{:?}", seed(b"hunter2", b"", Some(b"hunter2")));
    assert!(!text.contains("hunter2") && text.contains('7'), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_content_comes_back_and_equal_content_makes_equal_bytes(
        user in proptest::collection::vec(any::<u8>(), 0..20_000),
        meta in proptest::collection::vec(any::<u8>(), 0..5_000),
        network in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..3_000)),
    ) {
        let seed = seed(&user, &meta, network.as_deref());
        let (fat, iso) = (seed.to_fat().unwrap(), seed.to_iso().unwrap());
        prop_assert_eq!(&fat, &seed.to_fat().unwrap());
        prop_assert_eq!(&iso, &seed.to_iso().unwrap());
        for (name, content) in [("user-data", Some(&user)), ("meta-data", Some(&meta)), ("network-config", network.as_ref())] {
            prop_assert_eq!(read_fat(&fat, name), content.cloned());
            prop_assert_eq!(read_iso(&iso, name), content.cloned());
        }
    }
}
