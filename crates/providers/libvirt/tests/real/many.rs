//! Hundreds of domains on one connection.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use polyvirt_contract::Provider as _;

use crate::lab::Lab;

const DOMAINS: u32 = 500;

fn xml(number: u32) -> String {
    format!(
        "<domain type='qemu'><name>d{number}</name><uuid>0a1b2c3d-0000-4000-9000-{number:012x}</uuid><memory unit='MiB'>64</memory><os><type machine='q35'>hvm</type></os><features><acpi/></features></domain>"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_domains_are_listed_at_once() {
    let lab = Lab::new().await;
    let mut script = String::new();
    for number in 0..DOMAINS {
        let file = lab.host.path(&format!("d{number}.xml"));
        std::fs::write(&file, xml(number)).expect("written");
        writeln!(script, "define {}", file.display()).expect("written");
    }
    let commands = lab.host.path("define.txt");
    std::fs::write(&commands, &script).expect("written");
    lab.host.shell(&commands);

    let deadline = Instant::now() + Duration::from_secs(120);
    while lab.provider.list_vms().await.expect("listed").len() < DOMAINS as usize {
        assert!(Instant::now() < deadline, "not all are seen");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let begun = Instant::now();
    let listed = lab.provider.list_vms().await.expect("listed");
    let ours = begun.elapsed();
    assert_eq!(listed.len(), DOMAINS as usize);

    // What a process for each VM costs, measured on twenty of them.
    let begun = Instant::now();
    for number in 0..20 {
        lab.host.virsh(&["dominfo", &format!("d{number}")]);
    }
    let theirs = begun.elapsed() * (DOMAINS / 20);
    let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
    let _ = writeln!(
        std::io::stderr(),
        "{DOMAINS} domains: {ours:?}; virsh for each: {theirs:?}; {ratio:.0} times"
    );
    assert!(ours < Duration::from_secs(1), "{ours:?}");
    assert!(ratio > 10.0, "{ratio}");
}
