//! Disks on their way between hypervisors.

use crate::ids::SnapshotId;
use crate::model::{DiskExported, DiskImported, DiskInfo, ExportDisk, ImportDisk, Staging};
use crate::wire::{task_id, task_ref, v1};

impl From<ExportDisk> for v1::ExportDiskRequest {
    fn from(export: ExportDisk) -> Self {
        Self {
            vm_id: export.vm.to_string(),
            disk_id: export.disk,
            snapshot_id: export.snapshot.map(|s| s.to_string()).unwrap_or_default(),
            destination_url: export.staging.url,
            format: export.format,
            compress: export.compress,
            credentials: export.staging.credentials,
            backend_type: export.staging.backend,
            transfer_mode: export.staging.transfer_mode,
            storage_options_json: export.staging.options_json,
            target_host_id: String::new(),
        }
    }
}

impl From<v1::ExportDiskRequest> for ExportDisk {
    fn from(request: v1::ExportDiskRequest) -> Self {
        Self {
            vm: request.vm_id.into(),
            disk: request.disk_id,
            snapshot: SnapshotId::non_empty(request.snapshot_id),
            staging: Staging {
                url: request.destination_url,
                backend: request.backend_type,
                transfer_mode: request.transfer_mode,
                options_json: request.storage_options_json,
                credentials: request.credentials,
            },
            format: request.format,
            compress: request.compress,
        }
    }
}

impl From<DiskExported> for v1::ExportDiskResponse {
    fn from(exported: DiskExported) -> Self {
        Self {
            export_id: exported.id,
            task: task_ref(exported.task),
            estimated_size_bytes: exported.estimated_size_bytes,
            checksum: exported.checksum,
        }
    }
}

impl From<v1::ExportDiskResponse> for DiskExported {
    fn from(response: v1::ExportDiskResponse) -> Self {
        Self {
            id: response.export_id,
            task: task_id(response.task),
            estimated_size_bytes: response.estimated_size_bytes,
            checksum: response.checksum,
        }
    }
}

impl From<ImportDisk> for v1::ImportDiskRequest {
    fn from(import: ImportDisk) -> Self {
        Self {
            source_url: import.staging.url,
            storage_hint: import.storage_hint,
            format: import.format,
            target_name: import.target_name,
            verify_checksum: import.expected_checksum.is_some(),
            expected_checksum: import.expected_checksum.unwrap_or_default(),
            credentials: import.staging.credentials,
            backend_type: import.staging.backend,
            transfer_mode: import.staging.transfer_mode,
            storage_options_json: import.staging.options_json,
            target_vm: None,
        }
    }
}

impl From<v1::ImportDiskRequest> for ImportDisk {
    fn from(request: v1::ImportDiskRequest) -> Self {
        // A manager may ask to verify without knowing a checksum: then there is nothing to compare with.
        let verify = request.verify_checksum && !request.expected_checksum.is_empty();
        Self {
            expected_checksum: verify.then_some(request.expected_checksum),
            staging: Staging {
                url: request.source_url,
                backend: request.backend_type,
                transfer_mode: request.transfer_mode,
                options_json: request.storage_options_json,
                credentials: request.credentials,
            },
            storage_hint: request.storage_hint,
            format: request.format,
            target_name: request.target_name,
        }
    }
}

impl From<DiskImported> for v1::ImportDiskResponse {
    fn from(imported: DiskImported) -> Self {
        Self {
            disk_id: imported.id,
            path: imported.path,
            task: task_ref(imported.task),
            actual_size_bytes: imported.actual_size_bytes,
            checksum: imported.checksum,
        }
    }
}

impl From<v1::ImportDiskResponse> for DiskImported {
    fn from(response: v1::ImportDiskResponse) -> Self {
        Self {
            id: response.disk_id,
            path: response.path,
            task: task_id(response.task),
            actual_size_bytes: response.actual_size_bytes,
            checksum: response.checksum,
        }
    }
}

impl From<DiskInfo> for v1::GetDiskInfoResponse {
    fn from(disk: DiskInfo) -> Self {
        Self {
            disk_id: disk.id,
            format: disk.format,
            virtual_size_bytes: disk.virtual_size_bytes,
            actual_size_bytes: disk.actual_size_bytes,
            path: disk.path,
            is_bootable: disk.bootable,
            snapshots: disk.snapshots,
            backing_file: disk.backing_file,
            metadata: disk.metadata,
        }
    }
}

impl From<v1::GetDiskInfoResponse> for DiskInfo {
    fn from(response: v1::GetDiskInfoResponse) -> Self {
        Self {
            id: response.disk_id,
            format: response.format,
            virtual_size_bytes: response.virtual_size_bytes,
            actual_size_bytes: response.actual_size_bytes,
            path: response.path,
            bootable: response.is_bootable,
            snapshots: response.snapshots,
            backing_file: response.backing_file,
            metadata: response.metadata,
        }
    }
}
