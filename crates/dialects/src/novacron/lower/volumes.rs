//! Disks beside the first one.

use polyvirt_api::infra::DiskSpec;
use polyvirt_api::kubevirt::DiskOption;
use polyvirt_api::novacron::Volume;

use super::error::LowerError;
use super::size::gibibytes;
use crate::shared::names::{label, shortened};

const MOST: usize = 20;
const LONGEST_NAME: usize = 63;
/// What every provider gives.
const ONE_WRITER: &str = "ReadWriteOnce";

/// A disk, and who may use it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lowered {
    pub disk: DiskSpec,
    pub access_mode: Option<String>,
}

impl Lowered {
    /// Who may use it, where only KubeVirt can say.
    pub fn option(&self) -> Option<(String, DiskOption)> {
        let access_mode = Some(self.access_mode.clone()?);
        let option = DiskOption {
            access_mode,
            ..DiskOption::default()
        };
        Some((self.disk.name.clone(), option))
    }

    /// Whether it is to be shared.
    pub fn is_shared(&self) -> bool {
        self.access_mode.as_deref().is_some_and(|m| m != ONE_WRITER)
    }
}

pub(super) fn resolve(volumes: &[Volume]) -> Result<Vec<Lowered>, LowerError> {
    if volumes.len() > MOST {
        let message = format!("A VM has {MOST} volumes at most");
        return Err(LowerError::invalid("spec.template.spec.volumes", message));
    }
    let mut found: Vec<Lowered> = Vec::new();
    for (index, volume) in volumes.iter().enumerate() {
        let lowered = one(index, volume)?;
        if found
            .iter()
            .any(|known| known.disk.name == lowered.disk.name)
        {
            let message = format!(
                "There are two volumes {:?}. Rename one of them",
                volume.name
            );
            return Err(LowerError::invalid(field(index, "name"), message));
        }
        found.push(lowered);
    }
    Ok(found)
}

fn one(index: usize, volume: &Volume) -> Result<Lowered, LowerError> {
    let name = shortened(&label(&volume.name), LONGEST_NAME);
    if name.is_empty() {
        let message = format!(
            "{:?} is no name: use letters, digits and dashes",
            volume.name
        );
        return Err(LowerError::invalid(field(index, "name"), message));
    }
    Ok(Lowered {
        disk: DiskSpec {
            name,
            size_gib: gibibytes(&field(index, "size"), &volume.size)?,
            storage_class: volume.storage_class.clone().filter(|c| !c.is_empty()),
            ..DiskSpec::default()
        },
        access_mode: access_mode(index, volume)?,
    })
}

fn access_mode(index: usize, volume: &Volume) -> Result<Option<String>, LowerError> {
    let given = volume.access_mode.as_deref().filter(|m| !m.is_empty());
    match given {
        None => Ok(None),
        Some(mode @ (ONE_WRITER | "ReadWriteMany" | "ReadOnlyMany")) => Ok(Some(mode.to_owned())),
        Some(other) => {
            let message = format!(
                "There is no access mode {other:?}. Write ReadWriteOnce, ReadWriteMany or ReadOnlyMany"
            );
            Err(LowerError::invalid(field(index, "accessMode"), message))
        }
    }
}

pub(super) fn field(index: usize, name: &str) -> String {
    format!("spec.template.spec.volumes[{index}].{name}")
}
