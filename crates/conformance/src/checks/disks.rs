//! Facts about disks, and disks that move.

use polyvirt_contract::ErrorKind;
use polyvirt_contract::model::{CreateVm, ExportDisk, ImageSource, ImportDisk, Staging, VmRef};

use crate::check::{Check, Checked, Need, check, ensure};
use crate::lab::Lab;

const EXPORT: Need = Need::Capability("disk export", |has| has.disk_export);
const IMPORT: Need = Need::Capability("disk import", |has| has.disk_import);
const STAGING: Need = Need::Given("staging place", |profile| profile.staging.is_some());

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(
            "disk-info",
            "Facts are told of the first disk.",
            &[EXPORT],
            info
        ),
        check!(
            "disk-move",
            "A disk goes out and comes in unchanged.",
            &[EXPORT, IMPORT, STAGING],
            moves
        ),
    ]
}

async fn info(lab: &Lab) -> Checked {
    let vm = lab.vm().await?;
    let info = lab.provider().disk_info(&vm.id, "", None).await?;
    ensure!(info.virtual_size_bytes > 0, "the first disk has no size");
    ensure!(!info.format.is_empty(), "the first disk has no format");
    let all = lab.provider().list_vms().await?;
    let told = all.into_iter().find(|told| told.id == vm.id);
    // Whoever adopts a VM takes its first disk from there. One that cannot tell it from the others lists it with them.
    let disks = told.map(|vm| vm.root.into_iter().chain(vm.disks.unwrap_or_default()));
    ensure!(
        disks
            .into_iter()
            .flatten()
            .next()
            .is_some_and(|first| first.path == info.path),
        "the list of VMs does not begin their disks with the first, at {}",
        info.path
    );
    let answer = lab.provider().disk_info(&vm.id, "no-such-disk", None).await;
    lab.refused(answer, ErrorKind::NotFound, "a disk that is not there")?;
    Ok(())
}

fn staging(lab: &Lab) -> Staging {
    let place = lab.profile().staging.as_deref().unwrap_or_default();
    Staging {
        url: format!("{place}/{}", lab.owner().name),
        ..Staging::default()
    }
}

async fn moves(lab: &Lab) -> Checked {
    let vm = lab.vm().await?;
    let staging = staging(lab);
    let format = lab
        .offered()
        .capabilities
        .export_formats
        .first()
        .cloned()
        .unwrap_or_default();
    let out = export(lab, &vm, &staging, &format).await?;
    let request = ImportDisk {
        staging,
        format,
        target_name: format!("{}-migrated", lab.owner().name),
        expected_checksum: (!out.is_empty()).then(|| out.clone()),
        ..ImportDisk::default()
    };
    let imported = lab.provider().import_disk(request).await?;
    lab.done(imported.task).await?;
    let same = out.is_empty() || imported.checksum.is_empty() || imported.checksum == out;
    ensure!(same, "{out} went out and {} came in", imported.checksum);
    let image = ImageSource {
        path: imported.path,
        ..ImageSource::default()
    };
    lab.make(CreateVm {
        image,
        ..lab.desired()
    })
    .await?;
    Ok(())
}

async fn export(lab: &Lab, vm: &VmRef, staging: &Staging, format: &str) -> Checked<String> {
    let request = ExportDisk {
        vm: vm.id.clone(),
        staging: staging.clone(),
        format: format.to_owned(),
        ..ExportDisk::default()
    };
    let exported = lab.provider().export_disk(request).await?;
    lab.done(exported.task).await?;
    Ok(exported.checksum)
}
