//! Devices of the host, as far as that goes without any: libvirt takes the definitions and says at the start what is missing.

use polyvirt_contract::model::{CreateVm, Placement, PowerOp};
use polyvirt_contract::{ErrorKind, Provider as _};

use crate::host::Host;
use crate::lab::{Lab, open};

const GPU: &str = "nvidia.com/tesla-t4";
const PART: &str = "nvidia.com/grid";
const MEDIATED: &str = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001";

fn asking(lab: &Lab, name: &str, number: u32, device: &str) -> CreateVm {
    CreateVm {
        placement: Some(Placement {
            devices: [(device.to_owned(), 1)].into(),
            ..Placement::default()
        }),
        ..lab.desired(name, number)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_is_lent_to_one_vm_at_a_time() {
    let mut lab = Lab::on(Host::start()).await;
    let list = format!("{GPU}@00ff:41:00.0,{GPU}@00ff:42:00.0,{PART}@{MEDIATED}");
    lab.provider = open(&format!("{}&devices={list}", lab.host.url()));
    let inventory = lab.provider.inventory().await.expect("told");
    assert_eq!(inventory.hosts[0].devices[GPU], 2);

    // Two at the same time get one each, and there is none for a third.
    let (first, second) = (asking(&lab, "one", 1, GPU), asking(&lab, "two", 2, GPU));
    let (first, second) = tokio::join!(lab.create(&first), lab.create(&second));
    let xml = |name: &str| lab.host.virsh(&["dumpxml", name]);
    let has = |name: &str, bus: &str| xml(name).contains(&format!("bus='{bus}'"));
    assert!(has("one", "0x41") ^ has("two", "0x41"), "one each");
    assert!(has("one", "0x42") ^ has("two", "0x42"), "one each");
    let third = lab.provider.create(asking(&lab, "three", 3, GPU)).await;
    let third = third.expect_err("none is free");
    assert_eq!(third.kind, ErrorKind::Exhausted);
    assert!(third.message.contains("0 of 2 are free"), "{third}");

    let part = lab.create(&asking(&lab, "part", 4, PART)).await;
    assert!(xml("part").contains(MEDIATED), "{}", xml("part"));
    let start = lab.provider.power(&part, PowerOp::On.into()).await;
    let start = lab.ended(start).await.expect_err("there is no such device");
    assert!(start.message.contains("ediated"), "{start}");

    // What is given back is lent again.
    lab.delete(&first).await;
    let third = lab.create(&asking(&lab, "three", 3, GPU)).await;
    for vm in [second, part, third] {
        lab.delete(&vm).await;
    }
}

/// Whoever writes classes need not be the operator of the host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_names_only_devices_that_are_lent() {
    let lab = Lab::on(Host::start()).await;
    let mut desired = lab.desired("greedy", 1);
    let key = "libvirt.hostdev".to_owned();
    desired
        .class
        .extra_config
        .insert(key, "0000:00:01.0".to_owned());
    let refused = lab.provider.create(desired).await.expect_err("not lent");
    assert_eq!(refused.kind, ErrorKind::Invalid);
    assert!(refused.message.contains("NAME@0000:00:01.0"), "{refused}");
}
