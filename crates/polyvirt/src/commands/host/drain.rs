//! `polyvirt host drain`: a VMMigration for each VM of a host, a few at a time.
//!
//! Cut off in the middle it can be run again: VMs that have moved are elsewhere, and a move that is under way is waited for by
//! the next one of the same VM.

use anyhow::bail;
use futures::StreamExt as _;
use futures::stream;
use jiff::Timestamp;
use kube::ResourceExt;
use polyvirt_api::infra::{PowerState, VirtualMachine};

use super::cordon::{self, Wish};
use super::list::{host_of, vms_of};
use super::{Drain, OneHost};
use crate::commands::vm::migrate::{begin, until_over, wanted};
use crate::commands::vm::options::MoveTerms;
use crate::commands::vm::{Cluster, print, say};

/// Closes the host, and moves its VMs away.
pub async fn run(cluster: &Cluster, options: &Drain) -> anyhow::Result<()> {
    let OneHost { provider, host } = &options.host;
    cordon::set(cluster, &options.host, Wish::Closed).await?;
    let all = vms_of(cluster, provider).await?;
    let there: Vec<_> = all
        .into_iter()
        .filter(|vm| host_of(vm) == Some(host))
        .collect();
    say(&format!(
        "{host} takes no more VMs; {} are to move",
        there.len()
    ));
    let moves = there.iter().map(|vm| one(cluster, options, vm));
    let mut ends = stream::iter(moves).buffer_unordered(options.parallel.max(1));
    let mut stayed = 0;
    while let Some((name, end)) = ends.next().await {
        match end {
            Ok(message) => print(&format!("{name}: {message}\n")),
            Err(error) => {
                stayed += 1;
                say(&format!("{name} stays: {error:#}"));
            }
        }
    }
    if stayed > 0 {
        bail!(
            "{stayed} of {} VMs are still on {host}: run it again when what is told is mended",
            there.len()
        );
    }
    print(&format!("host/{host}: empty\n"));
    Ok(())
}

async fn one(
    cluster: &Cluster,
    options: &Drain,
    vm: &VirtualMachine,
) -> (String, anyhow::Result<String>) {
    let own = vm.namespace().unwrap_or_default();
    let near = Cluster {
        client: cluster.client.clone(),
        namespace: own.clone(),
        server: cluster.server.clone(),
    };
    let terms = MoveTerms {
        cold: options.terms.cold || is_off(vm),
        ..options.terms.clone()
    };
    let object = wanted(vm, None, &terms, Timestamp::now());
    let end = async {
        let name = begin(&near, &object).await?;
        until_over(&near, &name, options.timeout, |_| ()).await
    };
    (format!("{own}/{}", vm.name_any()), end.await)
}

fn is_off(vm: &VirtualMachine) -> bool {
    let power = vm.status.as_ref().and_then(|s| s.power_state);
    matches!(power, Some(PowerState::Off | PowerState::OffGraceful))
}
