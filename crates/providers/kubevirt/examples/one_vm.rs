//! Makes one VM in the cluster of a kubeconfig, starts it, and tells what the provider sees until it has an address.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use polyvirt_contract::Provider as _;
use polyvirt_contract::model::{
    ClassSpec, CreateVm, DiskSpec, ImageSource, NicSpec, Owner, PowerOp, UserData, VmRef,
};
use polyvirt_contract::watch::VmEvent;
use polyvirt_provider_kubevirt::{KUBECONFIG_KEY, Kubevirt, KubevirtConfig};

fn wish(owner: &Owner) -> CreateVm {
    CreateVm {
        owner: Some(owner.clone()),
        name: owner.name.clone(),
        class: ClassSpec {
            cpu: 2,
            memory_mib: 4096,
            ..ClassSpec::default()
        },
        image: ImageSource {
            url:
                "https://cloud.debian.org/images/cloud/trixie/latest/debian-13-generic-amd64.qcow2"
                    .to_owned(),
            ..ImageSource::default()
        },
        networks: vec![NicSpec {
            name: "net".to_owned(),
            ..NicSpec::default()
        }],
        disks: vec![DiskSpec {
            name: "data".to_owned(),
            size_gib: 20,
            ..DiskSpec::default()
        }],
        user_data: Some(UserData::CloudInit(b"#cloud-config\n".as_slice().into())),
        ..CreateVm::default()
    }
}

#[tokio::main]
#[allow(clippy::print_stdout, reason = "an example for people")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kubeconfig = std::fs::read(std::env::var("KUBECONFIG")?)?;
    let credentials = BTreeMap::from([(KUBECONFIG_KEY.to_owned(), kubeconfig)]);
    let config = KubevirtConfig::from_url("kubevirt://kubeconfig")?;
    let provider = Kubevirt::open(config.with_credentials(&credentials)?).await?;
    let owner = Owner {
        identity: "5f1c2b1e-7a55-4d27-9d6e-0c1f6f3f6b11".into(),
        namespace: "team".to_owned(),
        name: "web".to_owned(),
    };
    let mut watch = provider.watch().await?;
    let made = provider.create(wish(&owner)).await?;
    let vm = VmRef {
        id: made.id,
        owner: Some(owner),
    };
    provider.power(&vm, PowerOp::On.into()).await?;
    while let Some(event) = watch.next().await {
        let VmEvent::State(state) = event? else {
            continue;
        };
        let status = state.details.get("kubevirt.printableStatus");
        println!("{} {:?} {status:?} {:?}", state.id, state.power, state.ips);
        if !state.ips.is_empty() {
            break;
        }
    }
    Ok(())
}
