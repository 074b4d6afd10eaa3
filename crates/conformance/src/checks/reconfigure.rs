//! From one shape to another.

use polyvirt_contract::model::{CreateVm, DiskSpec, ExpandPolicy, PowerOp, VmRef, VmState};
use polyvirt_contract::{ErrorKind, Extension};

use crate::check::{Check, Checked, Need, check, ensure};
use crate::lab::Lab;
use crate::profile::Expect;

const CARDS: Need = Need::Given("two network cards", |profile| profile.networks.len() >= 2);
const IDENTITY: Need = Need::Extension(Extension::Identity);

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!("grow", "A stopped VM grows at once.", &[], grow),
        check!(
            "grow-running",
            "A running VM grows, at once or at its next start.",
            &[],
            grow_running
        ),
        check!(
            "reconfigure-twice",
            "What is so already is left alone.",
            &[IDENTITY],
            twice
        ),
        check!(
            "disks",
            "Disks are added, grow, and never shrink.",
            &[Need::Full, Need::Fields("spec.disks")],
            disks
        ),
        check!(
            "networks",
            "Network cards come and go.",
            &[Need::Full, Need::Fields("spec.networks"), CARDS],
            networks
        ),
    ]
}

fn grown(desired: &CreateVm) -> CreateVm {
    let mut bigger = desired.clone();
    bigger.class.cpu *= 2;
    bigger.class.memory_mib *= 2;
    bigger
}

pub(super) async fn reconfigure(lab: &Lab, vm: &VmRef, desired: &CreateVm) -> Checked<VmState> {
    let task = lab.provider().reconfigure(vm, desired.clone()).await?;
    lab.done(task).await?;
    lab.listed(&vm.id).await
}

/// Whether the size is as desired, as far as the provider tells it.
fn has_size(state: &VmState, desired: &CreateVm) -> bool {
    let cpu = state.cpu == 0 || state.cpu == desired.class.cpu;
    cpu && (state.memory_mib == 0 || state.memory_mib == desired.class.memory_mib)
}

async fn grow(lab: &Lab) -> Checked {
    let desired = lab.desired();
    let vm = lab.make(desired.clone()).await?;
    let bigger = grown(&desired);
    let state = reconfigure(lab, &vm, &bigger).await?;
    ensure!(
        has_size(&state, &bigger),
        "it has {} CPUs and {} MiB",
        state.cpu,
        state.memory_mib
    );
    Ok(())
}

async fn grow_running(lab: &Lab) -> Checked {
    let desired = lab.desired();
    let vm = lab.make(desired.clone()).await?;
    lab.switch(&vm, PowerOp::On).await?;
    let bigger = grown(&desired);
    let state = reconfigure(lab, &vm, &bigger).await?;
    if !has_size(&state, &bigger) {
        let told = !state.restart_required.is_empty() || lab.profile().expect == Expect::Basic;
        ensure!(
            told,
            "it has not grown and does not say that it waits for a restart"
        );
    }
    lab.switch(&vm, PowerOp::Off).await?;
    lab.switch(&vm, PowerOp::On).await?;
    let state = lab.listed(&vm.id).await?;
    ensure!(
        has_size(&state, &bigger),
        "after a restart it has {} CPUs",
        state.cpu
    );
    // A hypervisor may take its word back a moment after the machine has come up.
    let content = |state: &VmState| state.restart_required.is_empty();
    lab.until(&vm.id, "nothing to wait for a restart", content)
        .await?;
    Ok(())
}

async fn twice(lab: &Lab) -> Checked {
    let desired = lab.desired();
    let vm = lab.make(desired.clone()).await?;
    let bigger = grown(&desired);
    let once = reconfigure(lab, &vm, &bigger).await?;
    let again = reconfigure(lab, &vm, &bigger).await?;
    ensure!(
        once == again,
        "the second request changed the VM: {again:?}"
    );
    Ok(())
}

pub(super) fn with_disk(desired: &CreateVm, size_gib: u32) -> CreateVm {
    let disk = DiskSpec {
        name: "data".to_owned(),
        size_gib,
        expand_policy: ExpandPolicy::Online,
        ..DiskSpec::default()
    };
    CreateVm {
        disks: vec![disk],
        ..desired.clone()
    }
}

async fn disks(lab: &Lab) -> Checked {
    let desired = lab.desired();
    let vm = lab.make(desired.clone()).await?;
    for size in [2, 3] {
        let state = reconfigure(lab, &vm, &with_disk(&desired, size)).await?;
        let found = state.disks.unwrap_or_default();
        let there = found
            .iter()
            .any(|disk| disk.name == "data" && disk.size_gib == size);
        ensure!(
            there,
            "a disk of {size} GiB was asked for, there is {found:?}"
        );
    }
    let answer = lab
        .provider()
        .reconfigure(&vm, with_disk(&desired, 1))
        .await;
    let error = lab.refused(answer, ErrorKind::Invalid, "a disk that shrinks")?;
    let field = error.field.unwrap_or_default();
    ensure!(
        field == "spec.disks[0].sizeGiB",
        "the error names {field:?} and not the disk's size"
    );
    let state = reconfigure(lab, &vm, &desired).await?;
    let left = state.disks.unwrap_or_default();
    ensure!(
        !left.iter().any(|disk| disk.name == "data"),
        "a disk was taken away, there is {left:?}"
    );
    Ok(())
}

async fn networks(lab: &Lab) -> Checked {
    let cards = &lab.profile().networks;
    let with = |count: usize| CreateVm {
        networks: cards.iter().take(count).cloned().collect(),
        ..CreateVm::default()
    };
    let desired = CreateVm {
        networks: with(1).networks,
        ..lab.desired()
    };
    let vm = lab.make(desired.clone()).await?;
    for count in [1, 2, 1] {
        let wanted = CreateVm {
            networks: with(count).networks,
            ..desired.clone()
        };
        let state = reconfigure(lab, &vm, &wanted).await?;
        let found = state.nics.unwrap_or_default();
        ensure!(
            found.len() == count,
            "{count} cards were asked for, there are {found:?}"
        );
        let addressed = found.iter().all(|nic| !nic.mac.is_empty());
        ensure!(addressed, "a card has no MAC address: {found:?}");
    }
    Ok(())
}
