//! What the engine says of the VirtualMachine that was made, in the fields that the user has written.

/// Whole fields, and what stands for them.
const WHOLE: [(&str, &str); 12] = [
    ("spec.placement.affinity", "spec.template.spec.affinity"),
    (
        "spec.placement.nodeSelector",
        "spec.template.spec.nodeSelector",
    ),
    (
        "spec.imagePullPolicy",
        "spec.template.spec.image.pullPolicy",
    ),
    ("spec.image", "spec.template.spec.image.source"),
    ("spec.source", "spec.template.spec.image.source"),
    ("spec.resources.devices", "spec.template.spec.devices"),
    ("spec.resources.cpu", "spec.template.spec.resources.cpu"),
    (
        "spec.resources.memoryMiB",
        "spec.template.spec.resources.memory",
    ),
    ("class.cpu", "spec.template.spec.resources.cpu"),
    ("class.memory", "spec.template.spec.resources.memory"),
    ("class.diskDefaults", "spec.template.spec.volumes"),
    ("spec.disks", "spec.template.spec.volumes"),
];
/// Beginnings of fields that go on alike.
const BEGINNINGS: [(&str, &str); 3] = [
    ("spec.lifecycle.", "spec.template.spec.lifecycle."),
    ("spec.networks[", "spec.template.spec.networks["),
    ("spec.userData", "spec.template.spec.userData"),
];
/// Nobody has written it: hosts are chosen, or named by an annotation.
const NOBODYS: &str = "spec.placement";
/// NovaCron has no such field.
const NO_FIELD: &str = ", or set failurePolicy to Ignore";

/// The message of a condition, where it begins with a field.
pub(super) fn in_their_words(message: &str) -> String {
    let message = message.replace(NO_FIELD, "");
    let Some((field, rest)) = message.split_once(": ") else {
        return message;
    };
    let whole = WHOLE.iter().find(|(ours, _)| field.starts_with(ours));
    if let Some((_, theirs)) = whole {
        return format!("{theirs}: {rest}");
    }
    if field.starts_with(NOBODYS) {
        return rest.to_owned();
    }
    let begins =
        |(ours, theirs): &(&str, &str)| Some(format!("{theirs}{}", field.strip_prefix(ours)?));
    match BEGINNINGS.iter().find_map(begins) {
        Some(theirs) => format!("{theirs}: {rest}"),
        None => message,
    }
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
            ("spec.disks[0].sizeGiB: x", "spec.disks[0].sizeGiB: x"),
        ] {
            assert_eq!(in_their_words(ours), theirs);
        }
    }
}
