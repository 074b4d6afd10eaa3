//! What the provider says it can do. It says no more than it does.

use std::collections::BTreeSet;

use polyvirt_contract::{Capabilities, Extension, Features};

/// Fields of the VirtualMachine, its class and its networks that act here.
///
/// Not among them: meta-data (KubeVirt writes its own), bridges and VLANs (a NetworkAttachmentDefinition says those), how a
/// disk is provisioned (its storage class says that), and commands in the guest.
const HONOURED: &[&str] = &[
    "spec.disks[].expandPolicy",
    "spec.disks[].storageClass",
    "spec.networkData.cloudInit",
    "spec.networks[].dns",
    "spec.networks[].gateway",
    "spec.networks[].ipAddress",
    "spec.networks[].macAddress",
    "spec.placement.datastore",
    "spec.placement.host",
    "spec.snapshot.revertToRef",
    "spec.tags",
    "spec.userData.cloudInit",
    "spec.userData.ignition",
    "class.diskDefaults.size",
    "class.extraConfig",
    "class.firmware",
    "class.resourceLimits.cpuLimit",
    "class.resourceLimits.cpuReservation",
    "class.resourceLimits.memoryLimit",
    "class.resourceLimits.memoryReservation",
    "class.securityProfile.secureBoot",
    "class.securityProfile.tpmEnabled",
    "network.ipAllocation.dnsConfig.servers",
    "network.ipAllocation.staticConfig.address",
    "network.ipAllocation.staticConfig.gateway",
    "network.libvirt.model",
    "network.libvirt.networkName",
    "network.mtu",
    "spec.resources.devices",
    "spec.resources.gpu",
];

/// Fields that every provider takes by contract, as the suite asks for them.
const BY_CONTRACT: &[&str] = &[
    "spec.disks[].name",
    "spec.disks[].sizeGiB",
    "spec.imageRef",
    "spec.imageRef.*",
    "spec.importedDisk.path",
    "spec.networks[].name",
    "spec.networks[].networkRef",
    "spec.networks[].networkRef.*",
    "spec.networks[].prefix",
    "spec.powerState",
    "spec.resources.cpu",
    "spec.resources.memoryMiB",
    "class.cpu",
    "class.memory",
];

/// The fields that act here, as the provider reports them.
pub fn honoured_fields() -> Vec<&'static str> {
    HONOURED.iter().chain(BY_CONTRACT).copied().collect()
}

pub(crate) fn features(version: String) -> Features {
    let fields = HONOURED.iter().chain(BY_CONTRACT);
    Features {
        provider_type: "kubevirt".to_owned(),
        version,
        extensions: BTreeSet::from([
            Extension::Identity,
            Extension::Watch,
            Extension::Inventory,
            Extension::Console,
            Extension::Migrate,
            Extension::Pause,
        ]),
        honoured_fields: Some(fields.map(ToString::to_string).collect()),
    }
}

pub(crate) fn capabilities() -> Capabilities {
    let words = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    Capabilities {
        reconfigure_online: true,
        disk_expansion_online: true,
        snapshots: true,
        image_import: true,
        disk_types: words(&["thin"]),
        network_types: words(&["pod", "multus"]),
        ..Capabilities::default()
    }
}

#[cfg(test)]
mod tests {
    use polyvirt_plan::honoured::{ENGINE_FIELDS, FIELDS};

    use super::*;

    #[test]
    fn only_fields_that_there_are_are_honoured() {
        for path in HONOURED {
            let known = FIELDS.iter().any(|field| field.path == *path);
            assert!(known, "{path} is no field that needs a provider");
        }
        let engine = |path: &&&str| ENGINE_FIELDS.iter().any(|f| path.starts_with(f));
        assert_eq!(BY_CONTRACT.iter().filter(engine).count(), BY_CONTRACT.len());
    }

    /// Every field that needs a provider's help is either honoured or on this list, which says why not.
    #[test]
    fn every_field_acts_or_is_known_not_to() {
        let not = [
            ("spec.imagePullPolicy", "CDI fetches an image once"),
            ("spec.disks[].type", "the storage class says"),
            ("spec.disks[].scsi", "of vSphere"),
            ("spec.metaData.cloudInit", "KubeVirt writes its own"),
            ("spec.placement", "cluster, folder and pool are of vSphere"),
            ("spec.lifecycle", "no commands in the guest"),
            ("class.diskDefaults", "the contract does not carry it"),
            ("class.guestToolsPolicy", "nothing is installed in guests"),
            ("class.resourceLimits.cpuShares", "Kubernetes has none"),
            ("class.performanceProfile", "KubeVirt decides"),
            ("class.securityProfile", "only secure boot and TPM"),
            ("network", "a NetworkAttachmentDefinition says"),
        ];
        let features = features(String::new());
        for field in FIELDS.iter().filter(|field| !features.honours(field.path)) {
            let told = not.iter().any(|(path, _)| field.path.starts_with(path));
            assert!(told, "{} is not honoured and nobody says why", field.path);
        }
    }
}
