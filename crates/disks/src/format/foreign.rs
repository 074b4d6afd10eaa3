//! Files that are often taken for disk images, and are none that can be imported.

use super::FormatError;

struct Kind {
    at: usize,
    magic: &'static [u8],
    what: &'static str,
    remedy: &'static str,
}

const UNPACK: &str = "Unpack it, and give the address of the unpacked image";
const CONVERT: &str = "Convert it with qemu-img convert -O qcow2";

const KINDS: &[Kind] = &[
    kind(0, b"\x1f\x8b", "compressed with gzip", UNPACK),
    kind(0, b"\xfd7zXZ\0", "compressed with xz", UNPACK),
    kind(0, b"\x28\xb5\x2f\xfd", "compressed with zstd", UNPACK),
    kind(0, b"BZh", "compressed with bzip2", UNPACK),
    kind(0, b"PK\x03\x04", "a zip archive", UNPACK),
    kind(0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
    kind(
        257,
        b"ustar",
        "an archive (tar, or an OVA)",
        "Take the disk out of it, and give its address",
    ),
    kind(
        0,
        b"# Disk DescriptorFile",
        "the description of a VMDK whose data lies in other files",
        "Export it as one file, of type streamOptimized",
    ),
    kind(0, b"COWD", "a VMDK of the old ESX kind", CONVERT),
    kind(0, b"vhdxfile", "a VHDX", CONVERT),
    kind(0, b"conectix", "a VHD", CONVERT),
    kind(0x40, b"\x7f\x10\xda\xbe", "a VDI", CONVERT),
    kind(0, b"QED\0", "a QED image", CONVERT),
    kind(
        0,
        b"<!DOCTYPE",
        "a web page",
        "Check the address: the server may ask for a login",
    ),
    kind(
        0,
        b"<!doctype",
        "a web page",
        "Check the address: the server may ask for a login",
    ),
    kind(
        0,
        b"<html",
        "a web page",
        "Check the address: the server may ask for a login",
    ),
    kind(
        0,
        b"<?xml",
        "an XML document",
        "Check the address: it may be the answer of a server that refuses",
    ),
];

const fn kind(at: usize, magic: &'static [u8], what: &'static str, remedy: &'static str) -> Kind {
    Kind {
        at,
        magic,
        what,
        remedy,
    }
}

pub(super) fn recognise(head: &[u8]) -> Option<FormatError> {
    let found = KINDS.iter().find(|kind| {
        head.get(kind.at..)
            .is_some_and(|rest| rest.starts_with(kind.magic))
    })?;
    Some(FormatError::Foreign {
        what: found.what,
        remedy: found.remedy,
    })
}
