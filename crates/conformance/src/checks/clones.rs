//! Copies.

use polyvirt_contract::model::{CloneMode, CloneVm, CreateVm, PowerState, VmRef};
use polyvirt_contract::{ErrorKind, Extension, VmId};

use crate::check::{Check, Checked, Failure, Need, check, ensure};
use crate::lab::Lab;

const LINKED: Need = Need::Capability("linked clones", |has| has.linked_clones);
const IDENTITY: Need = Need::Extension(Extension::Identity);

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(
            "clone",
            "A copy is another VM of the same size.",
            &[Need::Full],
            full
        ),
        check!(
            "clone-linked",
            "A copy may share its source's blocks.",
            &[LINKED],
            linked
        ),
        check!(
            "clone-twice",
            "A copy with one identity is made once.",
            &[IDENTITY],
            twice
        ),
        check!(
            "clone-unknown",
            "What is not there cannot be copied.",
            &[Need::Full],
            unknown
        ),
    ]
}

fn copy(source: &VmId, target: &CreateVm, mode: CloneMode) -> CloneVm {
    CloneVm {
        owner: target.owner.clone(),
        source: source.clone(),
        target_name: target.name.clone(),
        mode,
        class: None,
        placement: None,
        customize_json: String::new(),
    }
}

async fn make(lab: &Lab, source: &VmRef, target: &CreateVm, mode: CloneMode) -> Checked<VmRef> {
    let request = copy(&source.id, target, mode);
    let cloned = lab.provider().clone_vm(request).await;
    let cloned = cloned.map_err(Failure::unless_unsupported)?;
    let vm = VmRef {
        id: cloned.id,
        owner: target.owner.clone(),
    };
    lab.will_clean(&vm);
    lab.done(cloned.task).await?;
    Ok(vm)
}

async fn copies(lab: &Lab, mode: CloneMode) -> Checked {
    let source = lab.vm().await?;
    let target = lab.desired();
    let vm = make(lab, &source, &target, mode).await?;
    ensure!(vm.id != source.id, "the copy has the id of its source");
    let (a, b) = (lab.listed(&source.id).await?, lab.listed(&vm.id).await?);
    ensure!(b.name == target.name, "the copy is named {}", b.name);
    ensure!(b.power == PowerState::Off, "the copy is {:?}", b.power);
    let same = (a.cpu, a.memory_mib) == (b.cpu, b.memory_mib);
    ensure!(
        same,
        "{} CPUs became {}, {} MiB became {}",
        a.cpu,
        b.cpu,
        a.memory_mib,
        b.memory_mib
    );
    Ok(())
}

async fn full(lab: &Lab) -> Checked {
    copies(lab, CloneMode::Full).await
}

async fn linked(lab: &Lab) -> Checked {
    copies(lab, CloneMode::Linked).await
}

async fn twice(lab: &Lab) -> Checked {
    let source = lab.vm().await?;
    let target = lab.desired();
    let first = make(lab, &source, &target, CloneMode::Full).await?;
    let second = make(lab, &source, &target, CloneMode::Full).await?;
    ensure!(
        first.id == second.id,
        "the second request made {} beside {}",
        second.id,
        first.id
    );
    Ok(())
}

async fn unknown(lab: &Lab) -> Checked {
    let request = copy(
        &VmId::from("vm-that-never-was"),
        &lab.desired(),
        CloneMode::Full,
    );
    let answer = lab.provider().clone_vm(request).await;
    if let Err(error) = &answer
        && error.kind == ErrorKind::Unsupported
    {
        return Err(Failure::unless_unsupported(error.clone()));
    }
    lab.refused(answer, ErrorKind::NotFound, "a source that never was")?;
    Ok(())
}
