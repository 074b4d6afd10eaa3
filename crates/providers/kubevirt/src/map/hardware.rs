//! The machine itself: processors, memory, firmware, features, reservations.

use polyvirt_api::kubevirt::{KubevirtOptions, Topology};
use polyvirt_contract::model::{ClassSpec, Firmware};
use polyvirt_contract::{ProviderError, Result};
use serde_json::{Map, Value, json};

use crate::map::to_kubevirt::put;

/// Sockets grow: KubeVirt can add only those to a machine that runs.
pub(super) fn cpu(class: &ClassSpec, options: &KubevirtOptions) -> Result<Value> {
    let shape = options.topology.unwrap_or(Topology {
        sockets: class.cpu,
        cores: 1,
        threads: 1,
    });
    let (cores, threads) = (shape.cores.max(1), shape.threads.max(1));
    let of_a_socket = cores.saturating_mul(threads);
    if !class.cpu.is_multiple_of(of_a_socket) {
        let message = format!(
            "{} CPUs cannot be had with {cores} cores of {threads} threads in each socket; ask for a multiple of {of_a_socket}",
            class.cpu
        );
        return Err(ProviderError::invalid("spec.resources.cpu", message));
    }
    let mut cpu = json!({
        "sockets": class.cpu / of_a_socket,
        "cores": cores,
        "threads": threads,
    });
    put(&mut cpu, "model", json!(options.cpu_model));
    Ok(cpu)
}

/// Bytes, as exact as somebody said them.
pub(super) fn memory(class: &ClassSpec, options: &KubevirtOptions) -> u64 {
    let exact = options
        .memory_bytes
        .filter(|bytes| bytes >> 20 == class.memory_mib);
    exact.unwrap_or(class.memory_mib << 20)
}

fn is_secure(class: &ClassSpec) -> bool {
    class.security.as_ref().is_some_and(|s| s.secure_boot)
}

pub(super) fn firmware(class: &ClassSpec) -> Value {
    match class.firmware {
        Firmware::Uefi => json!({"bootloader": {"efi": {"secureBoot": is_secure(class)}}}),
        Firmware::Bios => json!({"bootloader": {"bios": {}}}),
    }
}

pub(super) fn features(class: &ClassSpec, options: &KubevirtOptions) -> Value {
    let said = options.features.unwrap_or_default();
    let mut features = Map::new();
    if let Some(acpi) = said.acpi {
        features.insert("acpi".to_owned(), json!({"enabled": acpi}));
    }
    if let Some(apic) = said.apic {
        features.insert("apic".to_owned(), json!({"enabled": apic}));
    }
    if said.hyperv == Some(true) {
        let hyperv = json!({
            "relaxed": {"enabled": true},
            "vapic": {"enabled": true},
            "spinlocks": {"enabled": true, "spinlocks": 8191},
        });
        features.insert("hyperv".to_owned(), hyperv);
    }
    if class.firmware == Firmware::Uefi && is_secure(class) {
        features.insert("smm".to_owned(), json!({"enabled": true}));
    }
    Value::Object(features)
}

/// Reservations and limits; CPUs are counted in thousandths.
pub(super) fn resources(class: &ClassSpec) -> Value {
    let Some(limits) = &class.limits else {
        return Value::Null;
    };
    let pair = |cpu: Option<i32>, memory: Option<i64>| {
        let mut found = json!({});
        put(&mut found, "cpu", json!(cpu.map(|n| format!("{n}m"))));
        put(
            &mut found,
            "memory",
            json!(memory.map(|n| format!("{n}Mi"))),
        );
        found
    };
    let mut resources = json!({});
    let wants = pair(limits.cpu_reservation, limits.memory_reservation_mib);
    put(&mut resources, "requests", wants);
    let most = pair(limits.cpu_limit, limits.memory_limit_mib);
    put(&mut resources, "limits", most);
    resources
}
