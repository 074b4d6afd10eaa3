//! What the engine says of the VirtualMachine that was made, in the fields of the Machine.

use polyvirt_api::vitistack::Machine;

use super::Facts;
use crate::shared::words::{Pair, pairs, translate};

/// Fields of the VirtualMachine and the class in it, and what of the Machine became them. Where the Machine has nothing of the
/// kind, the field is left out of the message.
const FIELDS: &[(&str, &str)] = &[
    ("spec.userData.cloudInit.inline", "spec.cloudInit.userData"),
    ("spec.userData.cloudInit", "spec.cloudInit"),
    ("spec.userData", "spec.cloudInit"),
    (
        "spec.networkData.cloudInit.secretRef",
        "spec.cloudInit.networkDataSecretRef",
    ),
    (
        "spec.networkData.cloudInit.inline",
        "spec.cloudInit.networkData",
    ),
    ("spec.networkData.cloudInit", "spec.cloudInit.networkData"),
    ("spec.networkData", "spec.cloudInit.networkData"),
    ("class.cpu", "spec.cpu"),
    ("spec.resources.cpu", "spec.cpu"),
    ("class.memory", "spec.memory"),
    ("spec.resources.memoryMiB", "spec.memory"),
    ("class.firmware", "spec.domain.firmware"),
    ("class.securityProfile.secureBoot", "spec.domain.firmware"),
    ("spec.imageRef.name", "spec.os.imageID"),
    ("spec.imageRef", "spec.os.imageID"),
    ("spec.image", "spec.os.imageID"),
    ("spec.source", "spec.os.imageID"),
    ("spec.providerRef.name", "spec.kubevirtConfigRef"),
    ("spec.providerRef", "spec.kubevirtConfigRef"),
    (
        "spec.powerState",
        "metadata.annotations[vitistack.io/power-state]",
    ),
    ("class.extraConfig: ", ""),
    ("metadata.namespace: ", ""),
    ("spec.placement.host: ", ""),
    ("spec.placement: ", ""),
    ("spec.driftPolicy.deletion: ", ""),
    (
        "the namespace of the VirtualMachine",
        "the namespace of the Machine",
    ),
];

/// The message in the fields of the Machine.
pub(super) fn in_their_words(facts: &Facts<'_>, message: &str) -> String {
    let mut all = pairs(FIELDS);
    all.push(secret(facts.machine));
    all.extend(disks(facts));
    all.extend(networks(facts.machine));
    translate(message, &all)
}

/// User data comes from the Secret of two fields, of which the first that is set counts.
fn secret(machine: &Machine) -> Pair {
    let given = machine.spec.cloud_init.as_deref();
    let named = given.is_some_and(|c| c.secret_ref.is_some());
    let other = given.is_some_and(|c| c.user_data_secret_ref.is_some());
    let theirs = if other && !named {
        "spec.cloudInit.userDataSecretRef"
    } else {
        "spec.cloudInit.secretRef"
    };
    (
        "spec.userData.cloudInit.secretRef".to_owned(),
        theirs.to_owned(),
    )
}

/// Disks have names in a Machine: those of its template come between, and the first is none of those of a VirtualMachine.
fn disks(facts: &Facts<'_>) -> Vec<Pair> {
    let disks = facts.lowered.map(|lowered| lowered.disks.as_slice());
    let mut found = Vec::new();
    for (place, disk) in disks.unwrap_or_default().iter().enumerate() {
        let theirs = format!("spec.disks[name={}]", disk.name);
        let Some(index) = place.checked_sub(1) else {
            found.push((
                "class.diskDefaults.size".to_owned(),
                format!("{theirs}.size"),
            ));
            found.push(("class.diskDefaults".to_owned(), theirs));
            continue;
        };
        let size = format!("spec.disks[{index}].sizeGiB");
        found.push((size, format!("{theirs}.size")));
        found.push((format!("spec.disks[{index}]"), theirs));
    }
    found
}

/// Networks stand at the same places.
fn networks(machine: &Machine) -> Vec<Pair> {
    let pair = |index: usize| {
        let ours = format!("spec.networks[{index}].networkRef.name");
        (ours, format!("spec.networks[{index}].networkName"))
    };
    if machine.spec.networks.is_empty() && machine.spec.network.is_some() {
        return vec![("spec.networks[0]".to_owned(), "spec.network".to_owned())];
    }
    (0..machine.spec.networks.len()).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use polyvirt_api::vitistack::{MachineCloudInit, MachineDataRef, MachineNetwork, MachineSpec};

    use super::*;

    fn machine(change: impl FnOnce(&mut MachineSpec)) -> Machine {
        let mut spec = MachineSpec {
            networks: vec![MachineNetwork::default()],
            ..MachineSpec::default()
        };
        change(&mut spec);
        Machine::new("web", spec)
    }

    fn said(machine: &Machine, message: &str) -> String {
        let facts = Facts {
            machine,
            config: None,
            config_name: None,
            lowered: None,
            vm: None,
            trouble: None,
            handed_out: None,
            now: jiff::Timestamp::UNIX_EPOCH,
        };
        in_their_words(&facts, message)
    }

    /// Every field that the planner, the engine and the KubeVirt provider name in a refusal.
    #[test]
    fn fields_are_those_of_the_machine() {
        for (ours, theirs) in [
            ("class.cpu", "spec.cpu"),
            ("class.memory", "spec.memory"),
            ("class.firmware", "spec.domain.firmware"),
            ("class.securityProfile.secureBoot", "spec.domain.firmware"),
            ("metadata.name", "metadata.name"),
            ("spec.image", "spec.os.imageID"),
            ("spec.imageRef", "spec.os.imageID"),
            ("spec.imageRef.name", "spec.os.imageID"),
            ("spec.networkData.cloudInit", "spec.cloudInit.networkData"),
            (
                "spec.networkData.cloudInit.secretRef.name",
                "spec.cloudInit.networkDataSecretRef.name",
            ),
            ("spec.networks[0]", "spec.networks[0]"),
            ("spec.networks[0].macAddress", "spec.networks[0].macAddress"),
            (
                "spec.networks[0].networkRef.name",
                "spec.networks[0].networkName",
            ),
            (
                "spec.powerState",
                "metadata.annotations[vitistack.io/power-state]",
            ),
            ("spec.providerRef", "spec.kubevirtConfigRef"),
            ("spec.providerRef.name", "spec.kubevirtConfigRef"),
            ("spec.resources.cpu", "spec.cpu"),
            ("spec.resources.memoryMiB", "spec.memory"),
            ("spec.tags", "spec.tags"),
            ("spec.userData", "spec.cloudInit"),
            ("spec.userData.cloudInit", "spec.cloudInit"),
            ("spec.userData.cloudInit.inline", "spec.cloudInit.userData"),
            (
                "spec.userData.cloudInit.secretRef.name",
                "spec.cloudInit.secretRef.name",
            ),
        ] {
            let web = machine(|_| {});
            assert_eq!(said(&web, &format!("{ours}: No")), format!("{theirs}: No"));
        }
    }

    #[test]
    fn fields_that_a_machine_does_not_have_are_left_out() {
        for ours in [
            "class.extraConfig",
            "metadata.namespace",
            "spec.placement",
            "spec.placement.host",
            "spec.driftPolicy.deletion",
        ] {
            assert_eq!(said(&machine(|_| {}), &format!("{ours}: No")), "No");
        }
    }

    #[test]
    fn the_secret_is_that_of_the_field_that_was_written() {
        let ours = "Failed to create VirtualMachine in remote cluster: spec.userData.cloudInit.secretRef.name: There is no Secret x in the namespace of the VirtualMachine. Create it";
        let other = machine(|spec| {
            spec.cloud_init = Some(Box::new(MachineCloudInit {
                user_data_secret_ref: Some(MachineDataRef::default()),
                ..MachineCloudInit::default()
            }));
        });
        assert_eq!(
            said(&other, ours),
            "Failed to create VirtualMachine in remote cluster: spec.cloudInit.userDataSecretRef.name: There is no Secret x in the namespace of the Machine. Create it"
        );
    }

    #[test]
    fn one_network_of_a_namespace_has_its_own_field() {
        let spaced = machine(|spec| {
            spec.networks.clear();
            spec.network = Some(polyvirt_api::vitistack::MachineNetworkConfig::default());
        });
        assert_eq!(said(&spaced, "spec.networks[0]: No"), "spec.network: No");
    }
}
