//! VMs at rest cost nothing, and what happens to them is told all the same.

use std::io::Write as _;
use std::time::{Duration, Instant};

use polyvirt_contract::Provider as _;
use polyvirt_contract::model::{PowerOp, PowerState};
use polyvirt_contract::watch::VmEvent;

use crate::lab::{Lab, next, open, told};
use crate::wire::Wire;

/// Longer than the longest pause between two questions.
const LONGEST_PAUSE: Duration = Duration::from_secs(11);
const WINDOW: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_at_rest_is_asked_nothing() {
    let lab = Lab::new().await;
    let wire = Wire::before(&lab.host);
    // The other provider of the daemon must not be what rests.
    let counted = open(wire.url());
    let mut stream = counted.watch().await.expect("watched");
    // Until it has seen all, it takes what is half made for left by an earlier life of its own: both are the same instance.
    while next(&mut stream).await != VmEvent::Synced {}
    let vm = lab.create(&lab.desired("calm", 1)).await;
    lab.power(&vm, PowerOp::On).await;
    let up = told(&mut stream, |state| {
        state.id == vm.id && !state.ips.is_empty()
    })
    .await;
    assert_eq!(up.power, PowerState::On);

    wire.quiet_for(LONGEST_PAUSE, PATIENCE).await;
    let before = wire.calls().len();
    tokio::time::sleep(WINDOW).await;
    let calls = wire.calls();
    let _ = writeln!(
        std::io::stderr(),
        "calls at rest in {WINDOW:?}: {}; {before} from the first on",
        calls.len() - before
    );
    assert_eq!(calls[before..], [0_u32; 0], "something was asked at rest");

    // A guest that boots again is asked again, and then rests again.
    lab.host.virsh(&["reset", "calm"]);
    told(&mut stream, |state| {
        state.id == vm.id && state.ips.is_empty()
    })
    .await;
    told(&mut stream, |state| {
        state.id == vm.id && !state.ips.is_empty()
    })
    .await;
    wire.quiet_for(LONGEST_PAUSE, PATIENCE).await;

    let begun = Instant::now();
    lab.host.virsh(&["destroy", "calm"]);
    let virsh = begun.elapsed();
    told(&mut stream, |state| {
        state.id == vm.id && state.power == PowerState::Off
    })
    .await;
    let late = begun.elapsed().saturating_sub(virsh);
    let _ = writeln!(
        std::io::stderr(),
        "told {late:?} after virsh, which took {virsh:?}"
    );
    assert!(late < Duration::from_secs(1), "{late:?}");
    lab.delete(&vm).await;
}
