//! Metrics, endpoints, log fields, and the commands by which people look.

use std::process::Command;

use serde_json::Value;

use super::{CONFIGS, Lab, NS};

/// Name, type and labels.
const METRICS: &[(&str, &str, &[&str])] = &[
    (
        "kubevirt_operator_machines_total",
        "gauge",
        &["phase", "template"],
    ),
    (
        "kubevirt_operator_reconciliation_duration_seconds",
        "histogram",
        &["controller"],
    ),
    (
        "kubevirt_operator_reconciliation_errors_total",
        "counter",
        &["controller", "error_type"],
    ),
    (
        "kubevirt_operator_virtual_machines_total",
        "gauge",
        &["status"],
    ),
    (
        "kubevirt_operator_storage_provisioning_duration_seconds",
        "histogram",
        &["storage_class"],
    ),
    (
        "kubevirt_operator_network_configuration_errors_total",
        "counter",
        &["network_name"],
    ),
];

pub fn metrics(lab: &Lab) {
    let text = lab.manager.metrics();
    for (name, kind, labels) in METRICS {
        let family = match *kind {
            "counter" => name.trim_end_matches("_total"),
            _ => name,
        };
        assert!(text.contains(&format!("# TYPE {family} {kind}")), "{name}");
        let sample = match *kind {
            "histogram" => format!("{name}_count{{"),
            _ => format!("{name}{{"),
        };
        let line = text.lines().find(|line| line.starts_with(&sample));
        let line = line.unwrap_or_else(|| panic!("no sample of {name}"));
        for label in *labels {
            assert!(line.contains(&format!("{label}=\"")), "{label}: {line}");
        }
    }
    for reason in [
        "TemplateNotFound",
        "NetworkConfigurationNotFound",
        "StorageClassNotFound",
        "InsufficientResources",
        "KubeVirtApiError",
    ] {
        let label = format!("error_type=\"{reason}\"");
        assert!(text.contains(&label), "{reason} was never counted");
    }
}

/// What /readyz tells of clusters.
pub fn clusters(lab: &Lab) {
    let found = lab.manager.controller.clusters();
    let east = ("cluster-east".to_owned(), "Ready".to_owned());
    assert!(found.contains(&east), "{found:?}");
}

pub fn log_lines(lab: &Lab) {
    let lines = lab.manager.log();
    let about = |line: &&Value| line["machine"] == "small-vm" && line["phase"] == "Running";
    let line = lines.iter().find(about).expect("a line about a Machine");
    for (field, value) in [
        ("level", "info"),
        ("controller", "Machine"),
        ("machine", "small-vm"),
        ("namespace", NS),
        ("phase", "Running"),
    ] {
        assert_eq!(line[field], value, "{field}: {line}");
    }
    assert!(line["message"].as_str().is_some_and(|m| !m.is_empty()));
    for definition in ["machines", "networkconfigurations", "kubevirtconfigs"] {
        let says = format!("✅ {definition}.vitistack.io has all fields that are used");
        assert!(lines.iter().any(|line| line["message"] == says), "{says}");
    }
    let levels = ["error", "warn", "info"];
    assert!(
        lines
            .iter()
            .all(|l| levels.contains(&l["level"].as_str().unwrap()))
    );
}

/// Words of a command, and what its output shows.
const COMMANDS: &[(&[&str], &[&str])] = &[
    (&["get", "machines", "-A"], &["PHASE", "full", "Running"]),
    (&["get", "m", "small-vm"], &["small-vm", "Running"]),
    (
        &["describe", "machine", "full"],
        &[
            "machine.vitistack.io/cleanup",
            "Vm Name:",
            "vm-full",
            "VirtualMachineReady",
        ],
    ),
    (
        &[
            "get",
            "virtualmachines.kubevirt.io,vmi,pvc",
            "-l",
            "vitistack.io/machine=full",
        ],
        &["vm-full", "full-root", "full-data"],
    ),
    (
        &["get", "vm,vmi,pvc", "-l", "vitistack.io/machine=full"],
        &["full-root"],
    ),
    (&["get", "vmi", "-A"], &["vm-full", "Running"]),
    (
        &["get", "kubevirtconfigs", "-n", CONFIGS],
        &["cluster-east", "Ready", "Connected"],
    ),
    (
        &["describe", "kubevirtconfig", "cluster-east", "-n", CONFIGS],
        &["cluster-east-kubeconfig", "Connected"],
    ),
    (
        &[
            "get",
            "secret",
            "cluster-east-kubeconfig",
            "-n",
            CONFIGS,
            "-o",
            "yaml",
        ],
        &["kubeconfig:"],
    ),
    (
        &[
            "get",
            "events",
            "--field-selector",
            "involvedObject.kind=Machine",
        ],
        &["TemplateNotFound"],
    ),
];

pub async fn commands(lab: &Lab) {
    for (words, shown) in COMMANDS {
        let output = Command::new(polyvirt_testkit::kubectl())
            .args(*words)
            .env("KUBECONFIG", lab.site.plane.kubeconfig_path())
            .output()
            .expect("kubectl is installed");
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {words:?}: {errors}");
        for word in *shown {
            assert!(
                text.contains(word),
                "kubectl {words:?} does not show {word}: {text}"
            );
        }
    }
}
