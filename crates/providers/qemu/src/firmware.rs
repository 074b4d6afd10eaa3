//! UEFI: where it is, and each VM's own variables.

use std::path::PathBuf;

use polyvirt_contract::{ProviderError, Result};

use crate::config::QemuConfig;
use crate::core::Core;
use crate::state::{FirmwareKind, OpenDir, Record};

/// Names that distributions use: the code, and the variables to begin with.
const PLAIN: [(&str, &str); 3] = [
    ("OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd"),
    ("OVMF_CODE.fd", "OVMF_VARS.fd"),
    ("OVMF_CODE.4m.fd", "OVMF_VARS.4m.fd"),
];
const SECURE: [(&str, &str); 3] = [
    ("OVMF_CODE_4M.secboot.fd", "OVMF_VARS_4M.ms.fd"),
    ("OVMF_CODE.secboot.fd", "OVMF_VARS.ms.fd"),
    ("OVMF_CODE.secboot.fd", "OVMF_VARS.secboot.fd"),
];

/// The files of a firmware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) code: PathBuf,
    pub(crate) variables: PathBuf,
}

/// The firmware of this kind; `None` for BIOS, which QEMU brings along.
pub(crate) fn find(config: &QemuConfig, kind: FirmwareKind) -> Result<Option<Files>> {
    let names = match kind {
        FirmwareKind::Bios => return Ok(None),
        FirmwareKind::Uefi => PLAIN,
        FirmwareKind::SecureUefi => SECURE,
    };
    let places = config.firmware_dirs.iter().flat_map(|folder| {
        names.map(|(code, variables)| Files {
            code: folder.join(code),
            variables: folder.join(variables),
        })
    });
    let mut there = places.filter(|files| files.code.is_file() && files.variables.is_file());
    there.next().map(Some).ok_or_else(|| missing(config, kind))
}

fn missing(config: &QemuConfig, kind: FirmwareKind) -> ProviderError {
    let (field, what) = match kind {
        FirmwareKind::SecureUefi => ("class.securityProfile.secureBoot", "for secure boot "),
        _ => ("class.firmware", ""),
    };
    let folders: Vec<_> = config
        .firmware_dirs
        .iter()
        .map(|dir| dir.display().to_string())
        .collect();
    let message = format!(
        "The UEFI firmware {what}is not on the host; install it (on Debian: ovmf). Looked in {}",
        folders.join(", ")
    );
    ProviderError::invalid(field, message)
}

/// Gives the VM its own variables, in a format that snapshots can be taken of.
pub(crate) async fn make_variables(
    core: &Core,
    folder: &OpenDir,
    kind: FirmwareKind,
) -> Result<()> {
    let Some(files) = find(&core.config, kind)? else {
        return Ok(());
    };
    core.img.adopt(folder, &files.variables, Record::VARS).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firmware_that_is_not_there_is_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = QemuConfig::new("/x");
        config.firmware_dirs = vec![folder.path().to_owned()];
        let error = find(&config, FirmwareKind::SecureUefi).expect_err("absent");
        assert_eq!(
            error.field.as_deref(),
            Some("class.securityProfile.secureBoot")
        );
        for name in ["OVMF_CODE.fd", "OVMF_VARS.fd"] {
            std::fs::write(folder.path().join(name), b"").expect("written");
        }
        let found = find(&config, FirmwareKind::Uefi)
            .expect("there")
            .expect("files");
        assert!(found.code.ends_with("OVMF_CODE.fd"));
        assert_eq!(find(&config, FirmwareKind::Bios), Ok(None));
    }
}
