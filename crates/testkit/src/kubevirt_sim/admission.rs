//! What KubeVirt's webhooks refuse, once as a function and once as rules for an API server.

use std::collections::BTreeSet;

use serde_json::{Value, json};

const NAME: &str = "kubevirt-simulator";
const TEMPLATE: &str = "/spec/template/spec";
const MODELS: &[&str] = &["virtio", "e1000", "e1000e", "rtl8139", "ne2k_pci"];
const BUSES: &[&str] = &["virtio", "sata", "scsi", "usb"];
/// The longest cloud-init data in a VirtualMachine.
const LONGEST_DATA: usize = 2048;

/// Why KubeVirt would refuse this VirtualMachine; `None` if it would take it.
pub fn refusal(vm: &Value) -> Option<String> {
    run_strategy(vm)
        .or_else(|| machine(vm))
        .or_else(|| cards(vm))
        .or_else(|| leaving_cards(vm))
        .or_else(|| disks(vm))
        .or_else(|| boot_order(vm))
        .or_else(|| volumes(vm))
}

/// Why KubeVirt would refuse a patch that a copy is made with. It reads them without a parser.
pub(super) fn patch_refusal(patch: &str) -> Option<String> {
    let pieces = patch.trim_matches(['{', '}']).split(',');
    for (key, value) in pieces.map(|piece| piece.split_once(':').unwrap_or((piece, ":"))) {
        if value.contains(':') {
            return Some(format!("patch format is not valid: {key}"));
        }
        let places = [
            "\"/spec/",
            "\"/metadata/labels/",
            "\"/metadata/annotations/",
        ];
        let fits = places.iter().any(|place| value.trim().starts_with(place));
        if key.trim() == "\"path\"" && !fits {
            return Some(format!(
                "patching is valid only for elements under /spec/: {value}"
            ));
        }
    }
    None
}

fn list<'a>(vm: &'a Value, path: &str) -> &'a [Value] {
    let found = vm.pointer(&format!("{TEMPLATE}{path}"));
    found.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn word<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    value.pointer(path).and_then(Value::as_str)
}

fn run_strategy(vm: &Value) -> Option<String> {
    let said = |field: &str| vm.pointer(field).is_some_and(|value| !value.is_null());
    match (said("/spec/running"), said("/spec/runStrategy")) {
        (true, true) => Some("Running and RunStrategy are mutually exclusive".to_owned()),
        (false, false) => Some("RunStrategy must be specified".to_owned()),
        _ => None,
    }
}

fn machine(vm: &Value) -> Option<String> {
    let domain = vm.pointer(&format!("{TEMPLATE}/domain"))?;
    let kind = word(domain, "/machine/type").unwrap_or("q35");
    if !kind.starts_with("q35") && !kind.starts_with("pc-q35") {
        return Some(format!(
            "spec.template.spec.domain.machine.type is not supported: {kind} (allowed values: [q35* pc-q35*])"
        ));
    }
    for path in [
        "/firmware/bootloader/efi",
        "/features/acpi",
        "/features/apic",
        "/features/hyperv",
    ] {
        if domain.pointer(path).is_some_and(|value| !value.is_object()) {
            return Some(format!("{path} must be of type object"));
        }
    }
    let secure = domain.pointer("/firmware/bootloader/efi/secureBoot") == Some(&json!(true));
    if secure && domain.pointer("/features/smm").is_none() {
        return Some("EFI SecureBoot requires SMM to be enabled".to_owned());
    }
    None
}

fn cards(vm: &Value) -> Option<String> {
    for card in list(vm, "/domain/devices/interfaces") {
        let model = word(card, "/model").unwrap_or("virtio");
        if !MODELS.contains(&model) {
            return Some(format!("interface model {model} is not supported"));
        }
        let mac = word(card, "/macAddress").unwrap_or("02:00:00:00:00:00");
        let parts: Vec<&str> = mac.split([':', '-']).collect();
        let hex = |part: &&str| part.len() == 2 && u8::from_str_radix(part, 16).is_ok();
        if parts.len() != 6 || !parts.iter().all(hex) {
            return Some(format!("interface has malformed MAC address {mac}"));
        }
    }
    let names = |path: &str| -> BTreeSet<&str> {
        list(vm, path)
            .iter()
            .filter_map(|e| word(e, "/name"))
            .collect()
    };
    if names("/domain/devices/interfaces") != names("/networks") {
        return Some("interfaces and networks do not match".to_owned());
    }
    let on_pods = list(vm, "/networks")
        .iter()
        .filter(|n| n.get("pod").is_some());
    (on_pods.count() > 1)
        .then(|| "more than one interface is connected to a pod network".to_owned())
}

fn leaving_cards(vm: &Value) -> Option<String> {
    let mut cards = list(vm, "/domain/devices/interfaces").iter();
    let stuck = cards.find(|card| card["state"] == "absent" && card.get("bridge").is_none())?;
    let name = word(stuck, "/name").unwrap_or_default();
    Some(format!(
        "\"{name}\" interface's state \"absent\" is supported only for bridge binding"
    ))
}

fn disks(vm: &Value) -> Option<String> {
    let volumes: Vec<&str> = list(vm, "/volumes")
        .iter()
        .filter_map(|volume| word(volume, "/name"))
        .collect();
    for disk in list(vm, "/domain/devices/disks") {
        for path in ["/disk/bus", "/cdrom/bus", "/lun/bus"] {
            let bus = word(disk, path).unwrap_or("virtio");
            if !BUSES.contains(&bus) {
                return Some(format!("disk bus {bus} is not supported"));
            }
        }
        let name = word(disk, "/name").unwrap_or_default();
        if !volumes.contains(&name) {
            return Some(format!("disk {name} has no volume"));
        }
    }
    None
}

fn boot_order(vm: &Value) -> Option<String> {
    let devices = list(vm, "/domain/devices/disks")
        .iter()
        .chain(list(vm, "/domain/devices/interfaces"));
    let mut known = BTreeSet::new();
    for order in devices.filter_map(|device| device.get("bootOrder")) {
        let Some(number) = order.as_u64().filter(|number| *number > 0) else {
            return Some("bootOrder must have a value > 0".to_owned());
        };
        if !known.insert(number) {
            return Some(format!("bootOrder {number} is not unique"));
        }
    }
    None
}

fn volumes(vm: &Value) -> Option<String> {
    let all = list(vm, "/volumes");
    for volume in all {
        for path in [
            "/cloudInitNoCloud/userData",
            "/cloudInitConfigDrive/userData",
        ] {
            if word(volume, path).is_some_and(|data| data.len() > LONGEST_DATA) {
                return Some(format!("userdata exceeds {LONGEST_DATA} byte limit"));
            }
        }
    }
    let templates = vm.pointer("/spec/dataVolumeTemplates");
    for template in templates.and_then(Value::as_array).into_iter().flatten() {
        let name = word(template, "/metadata/name");
        let used = |volume: &Value| word(volume, "/dataVolume/name") == name;
        if !all.iter().any(used) {
            return Some("DataVolumeTemplate is not referenced by a volume".to_owned());
        }
    }
    None
}

/// The same as rules of the API server, as far as its language can say them.
pub(super) fn policy() -> Value {
    let rule = |expression: &str, message: &str| {
        json!({
            "expression": expression,
            "message": format!("admission webhook \"virtualmachine-validator.kubevirt.io\" denied the request: {message}"),
        })
    };
    let variable = |name: &str, expression: &str| json!({"name": name, "expression": expression});
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["kubevirt.io"],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["virtualmachines"],
            }]},
            "variables": [
                variable("domain", "object.spec.?template.?spec.?domain.orValue({})"),
                variable("disks", "variables.domain.?devices.?disks.orValue([])"),
                variable("cards", "variables.domain.?devices.?interfaces.orValue([])"),
                variable("volumes", "object.spec.?template.?spec.?volumes.orValue([])"),
                variable(
                    "orders",
                    "variables.disks.filter(d, has(d.bootOrder)).map(d, d.bootOrder) + variables.cards.filter(c, has(c.bootOrder)).map(c, c.bootOrder)",
                ),
            ],
            "validations": [
                rule(
                    "!(has(object.spec.running) && has(object.spec.runStrategy))",
                    "Running and RunStrategy are mutually exclusive",
                ),
                rule(
                    "has(object.spec.running) || has(object.spec.runStrategy)",
                    "RunStrategy must be specified",
                ),
                rule(
                    "variables.domain.?machine.?type.orValue('q35').matches('^(pc-)?q35.*')",
                    "spec.template.spec.domain.machine.type is not supported (allowed values: [q35* pc-q35*])",
                ),
                rule(
                    "!variables.domain.?firmware.?bootloader.?efi.?secureBoot.orValue(false) || variables.domain.?features.?smm.hasValue()",
                    "EFI SecureBoot requires SMM to be enabled",
                ),
                rule(
                    "variables.cards.all(c, c.?model.orValue('virtio') in ['virtio', 'e1000', 'e1000e', 'rtl8139', 'ne2k_pci'])",
                    "interface model is not supported",
                ),
                rule(
                    "variables.cards.all(c, c.?macAddress.orValue('02:00:00:00:00:00').matches('^([0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}$'))",
                    "interface has malformed MAC address",
                ),
                rule(
                    "variables.cards.all(c, c.?state.orValue('') != 'absent' || has(c.bridge))",
                    "interface's state \"absent\" is supported only for bridge binding",
                ),
                rule(
                    "variables.disks.all(d, d.?disk.?bus.orValue('virtio') in ['virtio', 'sata', 'scsi', 'usb'])",
                    "disk bus is not supported",
                ),
                rule(
                    "variables.orders.all(o, o > 0 && variables.orders.filter(other, other == o).size() == 1)",
                    "bootOrder must be unique and > 0",
                ),
                rule(
                    "variables.volumes.all(v, v.?cloudInitNoCloud.?userData.orValue('').size() <= 2048 && v.?cloudInitConfigDrive.?userData.orValue('').size() <= 2048)",
                    "userdata exceeds 2048 byte limit",
                ),
            ],
        },
    })
}

pub(super) fn binding() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": NAME},
        "spec": {"policyName": NAME, "validationActions": ["Deny"]},
    })
}

#[cfg(test)]
#[allow(
    clippy::needless_pass_by_value,
    reason = "tables read better without references"
)]
mod tests {
    use super::*;

    fn vm(spec: Value) -> Value {
        json!({"spec": {"runStrategy": "Always", "template": {"spec": spec}}})
    }

    fn devices(devices: Value) -> Value {
        vm(
            json!({"domain": {"devices": devices}, "networks": [{"name": "a", "pod": {}}], "volumes": [{"name": "d"}]}),
        )
    }

    fn card(card: Value) -> Value {
        devices(json!({"interfaces": [card]}))
    }

    #[test]
    fn patches_are_read_as_kubevirt_reads_them() {
        for (patch, taken) in [
            (
                r#"{"op": "add", "path": "/spec/runStrategy", "value": "Halted"}"#,
                true,
            ),
            (r#"{"op":"add","path":"/spec/x","value":{}}"#, true),
            (
                r#"{"op":"add","path":"/metadata/labels/a~1b","value":"c"}"#,
                true,
            ),
            (r#"{"op":"add","path":"/metadata/name","value":"c"}"#, false),
            (r#"{"op":"add","path":"/spec/x","value":{"a":1}}"#, false),
            (r#"{"op":"add","path":"/spec/x","value":"02:00"}"#, false),
            (r#"{"op":"add","path":"/spec/x","value":"a,b"}"#, false),
        ] {
            assert_eq!(patch_refusal(patch).is_none(), taken, "{patch}");
        }
    }

    #[test]
    fn the_table_of_what_webhooks_answer_is_kept() {
        let long = "x".repeat(2049);
        for (object, says) in [
            (
                json!({"spec": {"running": true, "runStrategy": "Always"}}),
                "mutually exclusive",
            ),
            (json!({"spec": {}}), "must be specified"),
            (
                vm(json!({"domain": {"machine": {"type": "pc-i440fx"}}})),
                "pc-q35*",
            ),
            (
                vm(json!({"domain": {"firmware": {"bootloader": {"efi": true}}}})),
                "type object",
            ),
            (
                vm(json!({"domain": {"features": {"acpi": true}}})),
                "type object",
            ),
            (
                vm(json!({"domain": {"firmware": {"bootloader": {"efi": {"secureBoot": true}}}}})),
                "SMM",
            ),
            (
                card(json!({"name": "a", "model": "vmxnet3"})),
                "model vmxnet3",
            ),
            (
                card(json!({"name": "a", "macAddress": "02:00"})),
                "malformed",
            ),
            (card(json!({"name": "b"})), "do not match"),
            (
                card(json!({"name": "a", "masquerade": {}, "state": "absent"})),
                "only for bridge",
            ),
            (card(json!({"name": "a", "bootOrder": 0})), "> 0"),
            (
                devices(
                    json!({"interfaces": [{"name": "a"}], "disks": [{"name": "d", "disk": {"bus": "nvme"}}]}),
                ),
                "bus nvme",
            ),
            (
                devices(
                    json!({"interfaces": [{"name": "a", "bootOrder": 1}], "disks": [{"name": "d", "bootOrder": 1}]}),
                ),
                "not unique",
            ),
            (
                vm(json!({"volumes": [{"name": "c", "cloudInitNoCloud": {"userData": long}}]})),
                "2048",
            ),
            (
                json!({"spec": {"runStrategy": "Always", "dataVolumeTemplates": [{"metadata": {"name": "x"}}]}}),
                "not referenced",
            ),
        ] {
            let refusal = refusal(&object);
            assert!(
                refusal.as_deref().is_some_and(|text| text.contains(says)),
                "{object}: {refusal:?}"
            );
        }
        assert_eq!(refusal(&card(json!({"name": "a", "bridge": {}}))), None);
    }
}
