//! What a provider can do.

use crate::capabilities::{Capabilities, Extension, Features};
use crate::wire::{ext, v1};

impl From<Capabilities> for v1::GetCapabilitiesResponse {
    fn from(c: Capabilities) -> Self {
        Self {
            supports_reconfigure_online: c.reconfigure_online,
            supports_disk_expansion_online: c.disk_expansion_online,
            supports_snapshots: c.snapshots,
            supports_memory_snapshots: c.memory_snapshots,
            supports_linked_clones: c.linked_clones,
            supports_image_import: c.image_import,
            supported_disk_types: c.disk_types,
            supported_network_types: c.network_types,
            supports_disk_export: c.disk_export,
            supports_disk_import: c.disk_import,
            supported_export_formats: c.export_formats,
            supported_import_formats: c.import_formats,
            supports_export_compression: c.export_compression,
            supported_export_backends: c.export_backends,
            supported_import_backends: c.import_backends,
            supported_transfer_modes: c.transfer_modes,
            supports_clustering: c.clustering,
            supports_image_artifact_identity: c.image_artifact_identity,
            supports_honest_reconfigure: c.honest_reconfigure,
        }
    }
}

impl From<v1::GetCapabilitiesResponse> for Capabilities {
    fn from(c: v1::GetCapabilitiesResponse) -> Self {
        Self {
            reconfigure_online: c.supports_reconfigure_online,
            disk_expansion_online: c.supports_disk_expansion_online,
            snapshots: c.supports_snapshots,
            memory_snapshots: c.supports_memory_snapshots,
            linked_clones: c.supports_linked_clones,
            image_import: c.supports_image_import,
            disk_types: c.supported_disk_types,
            network_types: c.supported_network_types,
            disk_export: c.supports_disk_export,
            disk_import: c.supports_disk_import,
            export_formats: c.supported_export_formats,
            import_formats: c.supported_import_formats,
            export_compression: c.supports_export_compression,
            export_backends: c.supported_export_backends,
            import_backends: c.supported_import_backends,
            transfer_modes: c.supported_transfer_modes,
            clustering: c.supports_clustering,
            image_artifact_identity: c.supports_image_artifact_identity,
            honest_reconfigure: c.supports_honest_reconfigure,
        }
    }
}

impl From<Features> for ext::GetFeaturesResponse {
    fn from(features: Features) -> Self {
        let names = features.extensions.iter().map(|e| e.name().to_owned());
        Self {
            extensions: names.collect(),
            provider_type: features.provider_type,
            version: features.version,
            honoured_fields: features.honoured_fields.map(|paths| ext::HonouredFields {
                paths: paths.into_iter().collect(),
            }),
        }
    }
}

impl From<ext::GetFeaturesResponse> for Features {
    fn from(features: ext::GetFeaturesResponse) -> Self {
        let extensions = features
            .extensions
            .iter()
            .filter_map(|name| Extension::parse(name));
        Self {
            extensions: extensions.collect(),
            provider_type: features.provider_type,
            version: features.version,
            honoured_fields: features
                .honoured_fields
                .map(|f| f.paths.into_iter().collect()),
        }
    }
}
