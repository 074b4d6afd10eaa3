//! The seed as a FAT disk.

use std::io::{self, Cursor, Write as _};

use fatfs::{FileSystem, FormatVolumeOptions, FsOptions, format_volume};

use super::File;

const LABEL: [u8; 11] = *b"CIDATA     ";
const MIB: usize = 1 << 20;
const CLUSTER: usize = 4096;

/// The file system in whole MiB: QEMU and others want sizes that are round in some unit of theirs.
pub(super) fn image(files: &[File<'_>]) -> io::Result<Vec<u8>> {
    let mut disk = vec![0; size(files)];
    let cluster = u32::try_from(CLUSTER).map_err(io::Error::other)?;
    let options = FormatVolumeOptions::new()
        .volume_label(LABEL)
        .bytes_per_cluster(cluster);
    format_volume(Cursor::new(&mut disk), options)?;
    let system = FileSystem::new(Cursor::new(&mut disk), FsOptions::new())?;
    for file in files {
        let mut target = system.root_dir().create_file(file.name)?;
        target.write_all(file.content)?;
        target.flush()?;
    }
    system.unmount()?;
    Ok(disk)
}

/// The content in whole clusters, and room for the boot sector, two tables of up to two bytes a cluster and the directory.
fn size(files: &[File<'_>]) -> usize {
    let clusters: usize = files
        .iter()
        .map(|file| file.content.len().div_ceil(CLUSTER) + 1)
        .sum();
    let tables = clusters * 4;
    (clusters * CLUSTER + tables + MIB / 8).next_multiple_of(MIB)
}
