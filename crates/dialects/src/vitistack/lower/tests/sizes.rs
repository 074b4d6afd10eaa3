//! Templates, instance types and classes.

use polyvirt_plan::Reason;

use super::*;

const GIB: u64 = 1 << 30;

/// sockets, cores, threads, GiB of memory, GiB of the system disk
fn shape(lowered: &Lowered) -> (u32, u32, u32, u64, u64) {
    let class = lowered.vm.spec.class.as_ref().unwrap();
    let shape = options(lowered).topology.unwrap();
    let memory = polyvirt_plan::quantity::bytes_ceil(&class.memory).unwrap();
    assert_eq!(
        u32::try_from(class.cpu).unwrap(),
        shape.sockets * shape.cores * shape.threads
    );
    let root = lowered.disks[0].bytes / GIB;
    (
        shape.sockets,
        shape.cores,
        shape.threads,
        memory / GIB,
        root,
    )
}

fn classes() -> World {
    world()
        .class(
            "normal",
            json!({"cpu": {"cores": 4}, "memory": {"quantity": "16Gi", "minQuantity": "8Gi", "maxQuantity": "32Gi"}, "default": true}),
        )
        .class(
            "wide",
            json!({"cpu": {"cores": 4, "sockets": 2, "threads": 2}, "memory": {"quantity": "16Gi"}, "machineProviders": ["kubevirt-provider"]}),
        )
        .class(
            "small",
            json!({"cpu": {"cores": 2}, "memory": {"quantity": "8Gi"}, "machineProviders": ["kubevirt"]}),
        )
        .class(
            "off",
            json!({"cpu": {"cores": 8}, "memory": {"quantity": "16Gi"}, "enabled": false}),
        )
        .class(
            "elsewhere",
            json!({"cpu": {"cores": 8}, "memory": {"quantity": "16Gi"}, "machineProviders": ["proxmox"]}),
        )
}

#[test]
fn the_templates_are_those_of_the_page() {
    for (spec, expected) in [
        (json!({"template": "small"}), (1, 1, 1, 2, 20)),
        (json!({"template": "medium"}), (1, 2, 1, 4, 40)),
        (json!({"template": "large"}), (1, 4, 1, 8, 80)),
        (json!({"instanceType": "medium"}), (1, 2, 1, 4, 40)),
        (json!({}), (1, 2, 1, 2, 10)),
    ] {
        assert_eq!(shape(&world().spec(spec.clone())), expected, "{spec}");
    }
}

#[test]
fn what_is_given_wins_field_by_field() {
    let own = json!({"cpu": {"cores": 4}, "memory": {"size": "8Gi"}});
    for (spec, expected) in [
        (
            json!({"template": "medium", "resources": own}),
            (1, 4, 1, 8, 40),
        ),
        (
            json!({"template": "medium", "resources": {"cpu": {"cores": 4}}}),
            (1, 4, 1, 4, 40),
        ),
        (
            json!({"template": "medium", "resources": {"cpu": {"threads": 2, "sockets": 3}}}),
            (3, 2, 2, 4, 40),
        ),
        (
            json!({"template": "medium", "resources": own, "cpu": {"cores": 9, "threadsPerCore": 2}, "memory": 1}),
            (1, 4, 2, 8, 40),
        ),
        (
            json!({"cpu": {"cores": 3, "sockets": 2}, "memory": 3 * GIB}),
            (2, 3, 1, 3, 10),
        ),
        (json!({"template": "small", "memory": 0}), (1, 1, 1, 2, 20)),
    ] {
        assert_eq!(shape(&world().spec(spec.clone())), expected, "{spec}");
    }
}

#[test]
fn classes_go_before_instance_types_before_templates() {
    for (spec, expected) in [
        (
            json!({"machineClass": "wide", "instanceType": "large", "template": "large"}),
            (2, 4, 2, 16, 10),
        ),
        (
            json!({"instanceType": "large", "template": "medium"}),
            (1, 4, 1, 8, 80),
        ),
        // A class of a template's name has its size; the disk is still the template's.
        (json!({"template": "small"}), (1, 2, 1, 8, 20)),
        (json!({"instanceType": "wide"}), (2, 4, 2, 16, 10)),
        (json!({}), (1, 4, 1, 16, 10)),
        (
            json!({"machineClass": "normal", "memory": 32 * GIB}),
            (1, 4, 1, 32, 10),
        ),
    ] {
        assert_eq!(shape(&classes().spec(spec.clone())), expected, "{spec}");
    }
}

#[test]
fn what_is_not_there_is_told_by_its_name() {
    for (spec, reason, text) in [
        (
            json!({"template": "huge"}),
            Reason::TemplateNotFound,
            "spec.template: There is no template huge",
        ),
        (
            json!({"instanceType": "huge"}),
            Reason::TemplateNotFound,
            "spec.instanceType: ",
        ),
        (
            json!({"machineClass": "medium"}),
            Reason::MachineClassError,
            "There is no MachineClass medium",
        ),
        (
            json!({"machineClass": "off"}),
            Reason::MachineClassError,
            "is not enabled",
        ),
        (
            json!({"machineClass": "elsewhere"}),
            Reason::MachineClassError,
            "is not for kubevirt",
        ),
        (
            json!({"machineClass": "normal", "memory": GIB}),
            Reason::MachineClassError,
            "allows 8Gi or more",
        ),
        (
            json!({"machineClass": "normal", "resources": {"memory": {"size": "64Gi"}}}),
            Reason::MachineClassError,
            "allows 32Gi or less",
        ),
        (
            json!({"cpu": {"cores": 256}}),
            Reason::InvalidSpec,
            "256 CPUs",
        ),
        (
            json!({"template": "medium", "resources": {"memory": {"size": "4"}}}),
            Reason::InvalidSpec,
            "Write the unit",
        ),
    ] {
        let error = classes().error(spec.clone());
        assert_eq!(error.reason(), reason, "{spec}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn memory_is_exact_to_the_byte() {
    let lowered = world().spec(json!({"memory": 1_500_000_000}));
    let class = lowered.vm.spec.class.as_ref().unwrap();
    assert_eq!(class.memory.0, "1500000000");
    assert_eq!(options(&lowered).memory_bytes, Some(1_500_000_000));
    for (bytes, text) in [
        (8 * GIB, "8Gi"),
        (1536 << 20, "1536Mi"),
        (3 << 10, "3Ki"),
        (1 << 40, "1Ti"),
        (7, "7"),
        (0, "0"),
    ] {
        assert_eq!(binary_quantity(bytes), text);
    }
}

#[test]
fn a_gpu_is_passed_on_if_a_node_can_offer_it() {
    let gpu = |maker: &str| {
        let gpu = json!({"cores": 2, "manufacturer": maker});
        let class = json!({"cpu": {"cores": 1}, "memory": {"quantity": "1Gi"}, "gpu": gpu});
        world()
            .class("gpu", class)
            .spec(json!({"machineClass": "gpu"}))
    };
    let named = options(&gpu("nvidia.com/A100")).gpus;
    assert_eq!(
        (named.len(), named[0].device_name.as_str()),
        (2, "nvidia.com/A100")
    );
    let vague = gpu("nvidia");
    assert!(options(&vague).gpus.is_empty());
    assert_eq!(vague.ignored.len(), 1);
}
