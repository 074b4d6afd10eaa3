//! What the engine says of the VirtualMachine that was made, in the fields that the user has written.

use crate::shared::words::in_fields_of;

/// Our fields, and what stands for them; with `!` for all of their parts.
const FIELDS: [(&str, &str); 18] = [
    ("spec.placement.affinity", "spec.template.spec.affinity"),
    (
        "spec.placement.nodeSelector",
        "spec.template.spec.nodeSelector",
    ),
    (
        "spec.imagePullPolicy",
        "spec.template.spec.image.pullPolicy",
    ),
    ("spec.imageRef", "spec.template.spec.image.source!"),
    ("spec.image", "spec.template.spec.image.source!"),
    ("spec.source", "spec.template.spec.image.source!"),
    ("spec.resources.devices", "spec.template.spec.devices"),
    ("spec.resources.cpu", "spec.template.spec.resources.cpu"),
    (
        "spec.resources.memoryMiB",
        "spec.template.spec.resources.memory",
    ),
    ("class.cpu", "spec.template.spec.resources.cpu"),
    ("class.memory", "spec.template.spec.resources.memory"),
    ("class", "spec.template.spec.resources!"),
    ("spec.lifecycle", "spec.template.spec.lifecycle"),
    ("spec.networks", "spec.template.spec.networks"),
    ("network", "spec.template.spec.networks!"),
    ("spec.disks", "spec.template.spec.volumes"),
    ("spec.userData", "spec.template.spec.userData!"),
    ("spec.powerState", "spec.running"),
];
/// Nobody has written it: hosts are chosen, or named by an annotation.
const NOBODYS: &str = "spec.placement";
/// Advice to set fields that NovaCron does not have, and what is left of it.
const NO_FIELDS: [(&str, &str); 5] = [
    (", or set failurePolicy to Ignore", ""),
    (
        "Set spec.driftPolicy.power to Correct and set spec.driftPolicy.size to Correct to bring it back, or change",
        "Change",
    ),
    (
        "Set spec.driftPolicy.power to Correct to bring it back, or change",
        "Change",
    ),
    (
        "Set spec.driftPolicy.size to Correct to bring it back, or change",
        "Change",
    ),
    (
        "Set spec.driftPolicy.deletion to Recreate to create it anew (its disks are lost), or delete",
        "Delete",
    ),
];

/// The message of a condition, with the fields that the user wrote.
pub(super) fn in_their_words(message: &str) -> String {
    let shorter = NO_FIELDS.iter();
    let message = shorter.fold(message.to_owned(), |m, (ours, theirs)| {
        m.replace(ours, theirs)
    });
    let field = message.split_once(": ");
    let unwritten = |field: &str| {
        let known = ["spec.placement.affinity", "spec.placement.nodeSelector"];
        field.starts_with(NOBODYS) && !known.iter().any(|k| field.starts_with(k))
    };
    let said = match field {
        Some((field, rest)) if unwritten(field) || field == "spec.driftPolicy.deletion" => rest,
        _ => &message,
    };
    in_fields_of(said, &FIELDS).replace(".sizeGiB", ".size")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_that_the_user_wrote() {
        for (ours, theirs) in [
            ("The VM is running", "The VM is running"),
            (
                "spec.placement: 0/3 hosts are available",
                "0/3 hosts are available",
            ),
            (
                "spec.lifecycle.preStart: It failed. Correct it, or set failurePolicy to Ignore; any change tries it again",
                "spec.template.spec.lifecycle.preStart: It failed. Correct it; any change tries it again",
            ),
            (
                "spec.source.dataVolume: The claim x: it cannot be read",
                "spec.template.spec.image.source: The claim x: it cannot be read",
            ),
            (
                "spec.placement.host: There is no host x",
                "There is no host x",
            ),
            (
                "spec.placement.affinity: No such label",
                "spec.template.spec.affinity: No such label",
            ),
            (
                "spec.imagePullPolicy: The image is not here",
                "spec.template.spec.image.pullPolicy: The image is not here",
            ),
            (
                "spec.networks[1].macAddress: It is taken",
                "spec.template.spec.networks[1].macAddress: It is taken",
            ),
            (
                "spec.disks[0].sizeGiB: x",
                "spec.template.spec.volumes[0].size: x",
            ),
            (
                "Changed on the hypervisor: spec.powerState declares On but the hypervisor has Off. Set spec.driftPolicy.power to Correct to bring it back, or change the declaration",
                "Changed on the hypervisor: spec.running declares On but the hypervisor has Off. Change the declaration",
            ),
            (
                "These fields were edited after the VM was created, and the edit has no effect: spec.imageRef (read at creation), spec.userData (read at the first boot). Revert the edit",
                "These fields were edited after the VM was created, and the edit has no effect: spec.template.spec.image.source (read at creation), spec.template.spec.userData (read at the first boot). Revert the edit",
            ),
        ] {
            assert_eq!(in_their_words(ours), theirs);
        }
    }
}
