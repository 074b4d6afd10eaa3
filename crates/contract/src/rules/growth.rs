//! Disks only grow.

use crate::{ProviderError, Result};

/// The sizes of a VM's disks, in GiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskSizes<'a> {
    /// The first disk.
    pub root: u32,
    /// The others by name, in the order of the manifest.
    pub disks: Vec<(&'a str, u32)>,
}

/// Refuses a disk that is to become smaller, and names its field.
pub fn only_grows(has: &DiskSizes<'_>, wants: &DiskSizes<'_>) -> Result<()> {
    not_smaller("class.diskDefaults.size", has.root, wants.root)?;
    for (place, (name, size)) in wants.disks.iter().enumerate() {
        if let Some((_, old)) = has.disks.iter().find(|(known, _)| known == name) {
            not_smaller(&format!("spec.disks[{place}].sizeGiB"), *old, *size)?;
        }
    }
    Ok(())
}

fn not_smaller(field: &str, has: u32, wants: u32) -> Result<()> {
    if wants >= has {
        return Ok(());
    }
    let message =
        format!("A disk cannot shrink from {has} GiB to {wants} GiB; ask for at least {has} GiB");
    Err(ProviderError::invalid(field, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_shrinks_is_named() {
        let sizes = |root, disks: &[(&'static str, u32)]| DiskSizes {
            root,
            disks: disks.to_vec(),
        };
        let has = sizes(10, &[("a", 5), ("b", 5)]);
        let field = |wants| only_grows(&has, &wants).expect_err("shrinks").field;
        assert_eq!(only_grows(&has, &sizes(10, &[("b", 6), ("c", 1)])), Ok(()));
        let root = field(sizes(9, &[]));
        assert_eq!(root.as_deref(), Some("class.diskDefaults.size"));
        let data = field(sizes(10, &[("new", 1), ("b", 4)]));
        assert_eq!(data.as_deref(), Some("spec.disks[1].sizeGiB"));
    }
}
