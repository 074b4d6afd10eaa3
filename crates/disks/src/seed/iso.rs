//! The seed as a CD: ISO 9660 for the rules, Joliet for the names.
//!
//! ```text
//!  sector 0      16        17       18          19 .. 22          23          24         25 ..
//!         empty  primary   Joliet   end of      path tables,      directory,  directory, the files, each
//!                volume    volume   volumes     2 of each volume  8.3 names   Joliet     from a new sector
//! ```
//!
//! Both directories name the same files. Readers without Joliet see `USERDATA.;1` and the like; cloud-init's guests all
//! know Joliet.

use super::File;

const SECTOR: usize = 2048;
const FIRST_VOLUME: u32 = 16;
const PATH_TABLES: [u32; 2] = [19, 21];
const DIRECTORIES: [u32; 2] = [23, 24];
const FIRST_FILE: u32 = 25;
const LABEL: &str = "cidata";
/// 1 January 1980, as FAT has it: years since 1900, month, day, hour, minute, second, zone.
const DATE: [u8; 7] = [80, 1, 1, 0, 0, 0, 0];
/// The same in digits, and the zone.
const LONG_DATE: [u8; 17] = *b"1980010100000000\0";

/// How names and texts are spelled in one of the two volumes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Volume {
    Primary,
    Joliet,
}

/// A file and where its content begins.
struct Placed<'a> {
    file: &'a File<'a>,
    sector: u32,
}

pub(super) fn image(files: &[File<'_>]) -> Vec<u8> {
    let (placed, sectors) = place(files);
    let mut image = Sectors(Vec::with_capacity(sectors as usize * SECTOR));
    image.put(FIRST_VOLUME, &volume(Volume::Primary, sectors));
    image.put(FIRST_VOLUME + 1, &volume(Volume::Joliet, sectors));
    image.put(FIRST_VOLUME + 2, b"\xffCD001\x01");
    for (tables, root) in PATH_TABLES.into_iter().zip(DIRECTORIES) {
        image.put(tables, &path_table(root.to_le_bytes(), 1_u16.to_le_bytes()));
        image.put(
            tables + 1,
            &path_table(root.to_be_bytes(), 1_u16.to_be_bytes()),
        );
    }
    image.put(DIRECTORIES[0], &directory(Volume::Primary, &placed));
    image.put(DIRECTORIES[1], &directory(Volume::Joliet, &placed));
    for Placed { file, sector } in &placed {
        image.put(*sector, file.content);
    }
    image.extend_to(sectors);
    image.0
}

/// Gives each file its sectors; also tells the sectors of the whole image.
fn place<'a>(files: &'a [File<'a>]) -> (Vec<Placed<'a>>, u32) {
    let mut next = FIRST_FILE;
    let mut placed = Vec::new();
    for file in files {
        placed.push(Placed { file, sector: next });
        next += length(file.content.len().div_ceil(SECTOR)).max(1);
    }
    (placed, next)
}

/// Sizes are far below 4 GiB: a seed is bounded before it comes here.
fn length(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[derive(Default)]
struct Sectors(Vec<u8>);

impl Sectors {
    fn put(&mut self, sector: u32, content: &[u8]) {
        self.extend_to(sector);
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(SECTOR), 0);
    }

    fn extend_to(&mut self, sector: u32) {
        let wanted = sector as usize * SECTOR;
        if self.0.len() < wanted {
            self.0.resize(wanted, 0);
        }
    }
}

impl Volume {
    const fn index(self) -> usize {
        match self {
            Self::Primary => 0,
            Self::Joliet => 1,
        }
    }

    /// A text of the volume in a field of fixed size, padded with spaces.
    fn text(self, text: &str, size: usize) -> Vec<u8> {
        let mut bytes = self.encode(text);
        let space = self.encode(" ");
        while bytes.len() + space.len() <= size {
            bytes.extend_from_slice(&space);
        }
        bytes.resize(size, 0);
        bytes
    }

    fn encode(self, text: &str) -> Vec<u8> {
        match self {
            Self::Primary => text.as_bytes().to_vec(),
            Self::Joliet => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        }
    }

    /// Level 1 knows eight capital letters and digits; our names stay distinct in them.
    fn file_name(self, name: &str) -> Vec<u8> {
        match self {
            Self::Primary => {
                let short: String = name
                    .chars()
                    .filter(char::is_ascii_alphanumeric)
                    .take(8)
                    .collect();
                format!("{}.;1", short.to_ascii_uppercase()).into_bytes()
            }
            Self::Joliet => self.encode(name),
        }
    }

    /// What tells Joliet from any other second volume: UCS-2, level 3.
    const fn escape(self) -> &'static [u8] {
        match self {
            Self::Primary => b"",
            Self::Joliet => b"%/E",
        }
    }
}

/// A number in both byte orders, as ISO 9660 writes most of them.
fn both32(value: u32) -> Vec<u8> {
    [value.to_le_bytes(), value.to_be_bytes()].concat()
}

fn both16(value: u16) -> Vec<u8> {
    [value.to_le_bytes(), value.to_be_bytes()].concat()
}

fn padded(bytes: &[u8], size: usize) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(size, 0);
    padded
}

/// The descriptor of a volume, field by field.
fn volume(volume: Volume, sectors: u32) -> Vec<u8> {
    let kind: &[u8] = if volume == Volume::Primary {
        b"\x01"
    } else {
        b"\x02"
    };
    let [tables, root] = [PATH_TABLES, DIRECTORIES].map(|places| places[volume.index()]);
    let table = path_table([0; 4], [0; 2]);
    [
        kind.to_vec(),
        b"CD001\x01\x00".to_vec(),
        volume.text("", 32),
        volume.text(LABEL, 32),
        vec![0; 8],
        both32(sectors),
        padded(volume.escape(), 32),
        both16(1),
        both16(1),
        both16(2048),
        both32(length(table.len())),
        tables.to_le_bytes().to_vec(),
        vec![0; 4],
        (tables + 1).to_be_bytes().to_vec(),
        vec![0; 4],
        record(root, length(SECTOR), Kind::Directory, b"\0"),
        volume.text("", 128 * 4),
        volume.text("", 37),
        volume.text("", 37),
        volume.text("", 37),
        LONG_DATE.to_vec(),
        LONG_DATE.to_vec(),
        b"0000000000000000\0".to_vec(),
        b"0000000000000000\0".to_vec(),
        vec![1],
    ]
    .concat()
}

/// One entry, the root, which is its own parent; the numbers come in the byte order of the table.
fn path_table(root: [u8; 4], parent: [u8; 2]) -> Vec<u8> {
    [&[1, 0], root.as_slice(), parent.as_slice(), &[0, 0]].concat()
}

#[derive(Clone, Copy)]
enum Kind {
    File = 0,
    Directory = 2,
}

fn directory(volume: Volume, files: &[Placed<'_>]) -> Vec<u8> {
    let here = DIRECTORIES[volume.index()];
    let mut records = record(here, length(SECTOR), Kind::Directory, b"\0");
    records.extend(record(here, length(SECTOR), Kind::Directory, b"\x01"));
    for Placed { file, sector } in files {
        let name = volume.file_name(file.name);
        records.extend(record(
            *sector,
            length(file.content.len()),
            Kind::File,
            &name,
        ));
    }
    records
}

/// An entry of a directory; its length is even.
fn record(sector: u32, bytes: u32, kind: Kind, name: &[u8]) -> Vec<u8> {
    let size = (33 + name.len()).next_multiple_of(2);
    let fields = [
        vec![u8::try_from(size).unwrap_or(u8::MAX), 0],
        both32(sector),
        both32(bytes),
        DATE.to_vec(),
        vec![kind as u8, 0, 0],
        both16(1),
        vec![u8::try_from(name.len()).unwrap_or(u8::MAX)],
        name.to_vec(),
    ];
    padded(&fields.concat(), size)
}
