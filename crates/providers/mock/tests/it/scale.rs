//! Ten thousand VMs: a change costs the same as with ten.

use std::time::Instant;

use futures::StreamExt as _;
use polyvirt_contract::Provider;
use polyvirt_contract::model::PowerOp;
use polyvirt_contract::watch::VmEvent;

use crate::common::{created, manual, now, power};

#[test]
fn ten_thousand_vms_are_no_burden() {
    let mock = manual();
    let began = Instant::now();
    let vms: Vec<_> = (0..10_000)
        .map(|number| created(&mock, &format!("vm{number}")))
        .collect();
    let mut stream = now(mock.watch()).expect("opened");
    for vm in &vms {
        power(&mock, vm, PowerOp::On).expect("started");
    }
    let mut told = 0;
    while told < 20_001 {
        if let Some(Ok(VmEvent::State(_) | VmEvent::Synced)) = now(stream.next()) {
            told += 1;
        }
    }
    // Generous: a hundredth of this on an idle machine. What grows with the number of VMs would take minutes.
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}
