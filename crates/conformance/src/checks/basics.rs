//! What a provider says of itself and of what is not there.

use polyvirt_contract::model::HostHealth;
use polyvirt_contract::{ErrorKind, Extension, TaskId, VmId};

use crate::check::{Check, Checked, Failure, Need, check, ensure};
use crate::lab::Lab;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(
            "validate",
            "A provider that can be used says so.",
            &[],
            validate
        ),
        check!(
            "capabilities",
            "Capabilities do not contradict each other.",
            &[],
            capabilities
        ),
        check!(
            "features",
            "A provider with extensions says who it is.",
            &[Need::Full],
            features
        ),
        check!(
            "describe-unknown",
            "A VM that is not there is absent, not an error.",
            &[],
            unknown_vm
        ),
        check!(
            "task-unknown",
            "A task that nobody knows is not found.",
            &[],
            unknown_task
        ),
        check!("list", "The list holds the VMs that were made.", &[], list),
        check!(
            "inventory",
            "The inventory holds the host of a VM, and no host gives more than it has.",
            &[Need::Extension(Extension::Inventory)],
            inventory
        ),
        check!(
            "usage",
            "The usage of VMs holds one that runs, and its processor time does not go back.",
            &[Need::Extension(Extension::Usage)],
            usage
        ),
    ]
}

async fn usage(lab: &Lab) -> Checked {
    let vm = lab.running().await?;
    let mut before = std::time::Duration::ZERO;
    for _ in 0..2 {
        let told = lab.provider().usage().await?;
        let Some(used) = told.iter().find(|used| used.id == vm.id) else {
            return Err(Failure::new("a VM that runs is not in it"));
        };
        ensure!(used.cpu_time >= before, "the processor time went back");
        ensure!(used.memory_bytes != Some(0), "it has no memory");
        before = used.cpu_time;
    }
    Ok(())
}

async fn validate(lab: &Lab) -> Checked {
    Ok(lab.provider().validate().await?)
}

async fn capabilities(lab: &Lab) -> Checked {
    let has = lab.provider().capabilities().await?;
    ensure!(
        has == lab.offered().capabilities,
        "they changed between two questions"
    );
    ensure!(
        has.snapshots || !has.memory_snapshots,
        "snapshots with memory but no snapshots"
    );
    ensure!(
        !has.disk_export || !has.export_formats.is_empty(),
        "exports disks in no format"
    );
    ensure!(
        !has.disk_import || !has.import_formats.is_empty(),
        "imports disks in no format"
    );
    Ok(())
}

async fn features(lab: &Lab) -> Checked {
    let features = lab.provider().features().await?;
    ensure!(
        features == lab.offered().features,
        "they changed between two questions"
    );
    ensure!(
        !features.provider_type.is_empty(),
        "it does not say its type"
    );
    ensure!(!features.version.is_empty(), "it does not say its version");
    ensure!(
        features.honoured_fields.is_some(),
        "it does not say which fields act"
    );
    Ok(())
}

async fn unknown_vm(lab: &Lab) -> Checked {
    let found = lab
        .provider()
        .describe(&VmId::from("vm-that-never-was"))
        .await?;
    ensure!(
        found.is_none(),
        "it describes a VM that never was: {found:?}"
    );
    Ok(())
}

async fn unknown_task(lab: &Lab) -> Checked {
    let answer = lab
        .provider()
        .task_status(&TaskId::from("task-that-never-was"))
        .await;
    lab.refused(answer, ErrorKind::NotFound, "a task that never was")?;
    Ok(())
}

async fn list(lab: &Lab) -> Checked {
    let (first, second) = (lab.vm().await?, lab.running().await?);
    for vm in [&first, &second] {
        let (listed, described) = (lab.listed(&vm.id).await?, lab.state(&vm.id).await?);
        ensure!(
            listed.power == described.power,
            "list and description differ in power"
        );
        let name = vm.owner.as_ref().map_or("", |owner| owner.name.as_str());
        ensure!(
            listed.name == name,
            "the VM {name} is listed as {}",
            listed.name
        );
    }
    Ok(())
}

async fn inventory(lab: &Lab) -> Checked {
    let vm = lab.running().await?;
    let host = lab.state(&vm.id).await?.host;
    let inventory = lab.provider().inventory().await?;
    let ready = inventory
        .hosts
        .iter()
        .any(|host| host.health == HostHealth::Ready);
    ensure!(ready, "no host takes VMs");
    let known = host.is_empty() || inventory.hosts.iter().any(|known| known.name == host);
    ensure!(
        known,
        "the VM runs on {host}, which is no host of the inventory"
    );
    for host in inventory.hosts {
        let full = host.memory_used_mib > host.memory_mib;
        ensure!(!full, "{} gives more memory than it has", host.name);
    }
    Ok(())
}
