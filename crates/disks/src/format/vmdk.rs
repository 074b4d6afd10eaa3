//! VMDK in one file: a sparse header with the description inside, numbers little-endian.

use super::{Format, FormatError, array};

const MAGIC: &[u8] = b"KDMV";
const SECTOR: u64 = 512;

// Places in the header.
const VERSION: usize = 4;
const CAPACITY: usize = 12;
const GRAIN: usize = 20;
const DESCRIPTION_OFFSET: usize = 28;
const DESCRIPTION_SECTORS: usize = 36;

/// No parent, in the description.
const NO_PARENT: &str = "ffffffff";

pub(super) fn is(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

pub(super) fn virtual_bytes(head: &[u8], file_bytes: u64) -> Result<u64, FormatError> {
    let header = Header(head);
    let capacity = header.u64(CAPACITY)?;
    shape(&header, capacity)?;
    let description = description(&header, file_bytes)?;
    check_type(&description)?;
    check_parent(&description)?;
    check_extents(&description, capacity)?;
    Ok(capacity.saturating_mul(SECTOR))
}

fn damaged(what: &'static str) -> FormatError {
    FormatError::Damaged {
        format: Format::Vmdk,
        what,
    }
}

fn unsupported(what: String) -> FormatError {
    FormatError::Unsupported {
        format: Format::Vmdk,
        what,
    }
}

const fn not_alone(what: &'static str) -> FormatError {
    FormatError::NotAlone {
        format: Format::Vmdk,
        what,
    }
}

struct Header<'a>(&'a [u8]);

impl Header<'_> {
    fn u32(&self, at: usize) -> Result<u32, FormatError> {
        array(self.0, at)
            .map(u32::from_le_bytes)
            .ok_or_else(|| damaged("its header is incomplete"))
    }

    fn u64(&self, at: usize) -> Result<u64, FormatError> {
        array(self.0, at)
            .map(u64::from_le_bytes)
            .ok_or_else(|| damaged("its header is incomplete"))
    }
}

/// With a capacity of zero readers take the header for a mere wrapping of the description, and follow that.
fn shape(header: &Header<'_>, capacity: u64) -> Result<(), FormatError> {
    let version = header.u32(VERSION)?;
    if !(1..=3).contains(&version) {
        return Err(unsupported(format!("version {version} of the format")));
    }
    if capacity == 0 {
        return Err(damaged("the disk inside has no size"));
    }
    let grain = header.u64(GRAIN)?;
    if !grain.is_power_of_two() || !(8..=1 << 16).contains(&grain) {
        return Err(damaged("its grains have an impossible size"));
    }
    Ok(())
}

/// The text inside the file, up to its first zero.
fn description(header: &Header<'_>, file_bytes: u64) -> Result<String, FormatError> {
    let offset = header.u64(DESCRIPTION_OFFSET)?.saturating_mul(SECTOR);
    let length = header.u64(DESCRIPTION_SECTORS)?.saturating_mul(SECTOR);
    if offset == 0 || length == 0 || offset.saturating_add(length) > file_bytes {
        return Err(damaged("its description lies outside the file"));
    }
    let text = usize::try_from(offset)
        .ok()
        .zip(usize::try_from(length).ok());
    let text = text.and_then(|(offset, length)| header.0.get(offset..offset.checked_add(length)?));
    let text =
        text.ok_or_else(|| unsupported("a description of an unusual size or place".to_owned()))?;
    let end = text
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(text.len());
    Ok(String::from_utf8_lossy(&text[..end]).into_owned())
}

/// The values of a key; a text that gives two is suspicious, so all are returned.
fn values<'a>(description: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    description.lines().filter_map(move |line| {
        let (found, value) = line.split_once('=')?;
        found
            .trim()
            .eq_ignore_ascii_case(key)
            .then(|| value.trim().trim_matches('"'))
    })
}

fn check_type(description: &str) -> Result<(), FormatError> {
    let mut types = values(description, "createType").peekable();
    if types.peek().is_none() {
        return Err(damaged("its description names no type"));
    }
    for found in types {
        if !["monolithicSparse", "streamOptimized"]
            .iter()
            .any(|known| found.eq_ignore_ascii_case(known))
        {
            return Err(not_alone("files of extents, by its type,"));
        }
    }
    Ok(())
}

fn check_parent(description: &str) -> Result<(), FormatError> {
    let hint = values(description, "parentFileNameHint").next().is_some();
    if hint || values(description, "parentCID").any(|id| !id.eq_ignore_ascii_case(NO_PARENT)) {
        return Err(not_alone("a parent disk"));
    }
    Ok(())
}

/// Exactly one extent, sparse, of the size in the header, and named without a folder: this very file.
fn check_extents(description: &str, capacity: u64) -> Result<(), FormatError> {
    let extents: Vec<&str> = description
        .lines()
        .map(str::trim)
        .filter(|line| is_extent(line))
        .collect();
    let [extent] = extents.as_slice() else {
        return Err(not_alone("several files of extents, or none"));
    };
    let (facts, name) = extent.split_once('"').unwrap_or((extent, ""));
    let name = name.trim_end().trim_end_matches('"');
    if name.contains(['/', '\\', '"']) {
        return Err(not_alone("a file in another folder"));
    }
    match facts.split_whitespace().collect::<Vec<_>>().as_slice() {
        [_, sectors, kind] if kind.eq_ignore_ascii_case("SPARSE") => match sectors.parse::<u64>() {
            Ok(sectors) if capacity == sectors => Ok(()),
            _ => Err(damaged("its description and its header differ in size")),
        },
        _ => Err(not_alone("a file with the data")),
    }
}

fn is_extent(line: &str) -> bool {
    let access = line.split_whitespace().next().unwrap_or_default();
    ["RW", "RDONLY", "NOACCESS"]
        .iter()
        .any(|known| access.eq_ignore_ascii_case(known))
}
