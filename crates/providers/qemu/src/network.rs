//! Cards on bridges: each has a device of the host that only QEMU's user may open.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;

use polyvirt_contract::model::NetworkEntry;
use polyvirt_contract::{ErrorKind, ProviderError, Result};

use crate::core::Core;
use crate::errors;
use crate::run_as::RunAs;
use crate::state::{Nic, Record};
use crate::uuid::Uuid;

/// Where the kernel tells of network devices.
const DEVICES: &str = "/sys/class/net";
const TUN: &str = "/dev/net/tun";

/// The host's device of a card; the name has room for fifteen characters.
fn tap_name(uuid: Uuid, nic: &Nic) -> String {
    format!("pv{}p{}", uuid.short(), nic.port)
}

/// Makes the devices of all cards on bridges, by port.
pub(crate) async fn make_taps(core: &Core, record: &Record) -> Result<BTreeMap<u8, String>> {
    let mut taps = BTreeMap::new();
    for nic in record
        .hardware
        .nics
        .iter()
        .filter(|nic| !nic.bridge.is_empty())
    {
        taps.insert(nic.port, make_tap(core, record.uuid, nic).await?);
    }
    Ok(taps)
}

/// Makes the device of one card and plugs it into its bridge. One that is there already is made anew.
pub(crate) async fn make_tap(core: &Core, uuid: Uuid, nic: &Nic) -> Result<String> {
    let RunAs::User { uid: user, .. } = &core.user else {
        let message = "Only a provider that runs as root can plug cards into a bridge; use the network \"user\", or run the provider as root";
        return Err(ProviderError::new(ErrorKind::Invalid, message).at("spec.networks"));
    };
    check_bridge(nic)?;
    check_tun()?;
    let name = tap_name(uuid, nic);
    remove(&name).await;
    let user = user.to_string();
    ip(&["tuntap", "add", "dev", &name, "mode", "tap", "user", &user]).await?;
    let made = plug(&name, nic).await;
    if made.is_err() {
        remove(&name).await;
    }
    made.map(|()| name)
}

async fn plug(name: &str, nic: &Nic) -> Result<()> {
    if nic.mtu != 0 {
        ip(&["link", "set", "dev", name, "mtu", &nic.mtu.to_string()]).await?;
    }
    ip(&["link", "set", "dev", name, "master", &nic.bridge]).await?;
    for words in vlan_commands(name, nic.vlan, default_vlan(&nic.bridge)) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        run("bridge", &words).await?;
    }
    ip(&["link", "set", "dev", name, "up"]).await
}

/// What takes a port out of the VLAN that it is in by itself, and puts it into its own, of which its guest sees nothing.
fn vlan_commands(device: &str, vlan: u16, default: u16) -> Vec<Vec<String>> {
    let command = |words: &str| words.split(' ').map(str::to_owned).collect();
    match (vlan, default) {
        (0, _) => Vec::new(),
        (_, 0) => vec![command(&format!(
            "vlan add dev {device} vid {vlan} pvid untagged"
        ))],
        _ => vec![
            command(&format!("vlan del dev {device} vid {default}")),
            command(&format!("vlan add dev {device} vid {vlan} pvid untagged")),
        ],
    }
}

/// The VLAN that new ports of a bridge are in; 0 for none.
fn default_vlan(bridge: &str) -> u16 {
    let path = Path::new(DEVICES).join(bridge).join("bridge/default_pvid");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// The host may get what it lacks without a word to us, so these are tried again.
fn check_bridge(nic: &Nic) -> Result<()> {
    let bridge = Path::new(DEVICES).join(&nic.bridge).join("bridge");
    if !bridge.is_dir() {
        let message = format!(
            "The host has no bridge {}; make it, or name another",
            nic.bridge
        );
        return Err(errors::precondition(message).at("network.libvirt.bridge.name"));
    }
    if nic.vlan == 0 {
        return Ok(());
    }
    match std::fs::read_to_string(bridge.join("vlan_filtering")) {
        Ok(filters) if filters.trim() == "1" => Ok(()),
        Ok(_) => Err(no_vlan(format!(
            "The bridge {0} does not tell VLANs apart; turn that on (ip link set {0} type bridge vlan_filtering 1), or name a bridge of that VLAN",
            nic.bridge
        ))),
        // The kernel shows the file only if it knows how.
        Err(_) => Err(no_vlan(format!(
            "The kernel of this host has no vlan_filtering, so the bridge {} cannot tell VLANs apart; name a bridge of that VLAN",
            nic.bridge
        ))),
    }
}

fn no_vlan(message: String) -> ProviderError {
    errors::precondition(message).at("spec.networks")
}

/// Everybody may open the device on a usual system: what one may do with it is decided later.
fn check_tun() -> Result<()> {
    let device = std::fs::metadata(TUN);
    if device.is_ok_and(|device| device.mode() & 0o006 == 0o006) {
        return Ok(());
    }
    let message = format!(
        "QEMU's user cannot open {TUN}; load the module tun, and let everybody open the device (chmod 0666 {TUN}), as udev does"
    );
    Err(ProviderError::new(ErrorKind::Unavailable, message))
}

/// Removes the devices of a VM's cards.
pub(crate) async fn remove_taps(core: &Core, record: &Record) {
    if !core.user.is_root() {
        return;
    }
    let nics = record.hardware.nics.iter().chain(&record.wanted().nics);
    for nic in nics.filter(|nic| !nic.bridge.is_empty()) {
        remove_tap(record.uuid, nic).await;
    }
}

pub(crate) async fn remove_tap(uuid: Uuid, nic: &Nic) {
    remove(&tap_name(uuid, nic)).await;
}

async fn remove(name: &str) {
    if Path::new(DEVICES).join(name).exists()
        && let Err(error) = ip(&["link", "del", "dev", name]).await
    {
        tracing::warn!(device = name, %error, "A network device is left behind");
    }
}

async fn ip(arguments: &[&str]) -> Result<()> {
    run("ip", arguments).await
}

async fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let output = tokio::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| {
            let message = format!("Cannot run {program}: {error}; install iproute2");
            ProviderError::new(ErrorKind::Unavailable, message)
        })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(errors::program("Plugging a card into its bridge", &said))
}

/// The networks that cards can be on.
pub(crate) fn list(core: &Core) -> Vec<NetworkEntry> {
    let mut networks = vec![NetworkEntry {
        name: "user".to_owned(),
        kind: "user".to_owned(),
    }];
    if !core.user.is_root() {
        return networks;
    }
    let devices = std::fs::read_dir(DEVICES).into_iter().flatten();
    let bridges = devices.filter_map(|device| {
        let device = device.ok()?;
        let is_bridge = device.path().join("bridge").is_dir();
        is_bridge.then(|| device.file_name().into_string().ok())?
    });
    networks.extend(bridges.map(|name| NetworkEntry {
        name,
        kind: "bridge".to_owned(),
    }));
    networks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_in_one_vlan_only() {
        let said = |vlan, default| {
            let commands = vlan_commands("tap0", vlan, default);
            commands.iter().map(|c| c.join(" ")).collect::<Vec<_>>()
        };
        let joins = "vlan add dev tap0 vid 42 pvid untagged";
        assert_eq!(said(0, 1), [""; 0]);
        assert_eq!(said(42, 5), ["vlan del dev tap0 vid 5", joins]);
        assert_eq!(said(42, 0), [joins]);
    }
}
