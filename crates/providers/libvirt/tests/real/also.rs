//! What some hosts have beyond others.

use std::path::Path;

use crate::host::{Host, Network, QUIET, kill};

/// What a host has beyond others.
pub enum Also {
    Nothing,
    /// A volume group of this name that is only played.
    Group(String),
    /// A file server, from which all that is mounted is a file system in memory that goes by its name.
    Share,
    /// A bridge `ovs0` of Open vSwitch, and two of its ports: `near` in the VLAN 5 and `far` in the VLAN 6.
    Switch,
}

/// What stands for LVM where there is no device mapper.
const LVM: &str = include_str!("lvm.sh");

fn group_folder(name: &str) -> String {
    format!("/dev/{name}")
}

/// What stands for `mount` where the kernel knows no NFS. libvirt believes what it then reads in the table of mounts.
const MOUNT: &str = r#"#!/bin/bash
arguments=("$@")
for place in "${!arguments[@]}"; do
  [ "${arguments[$place]}" != nfs ] || arguments[$place]=tmpfs
  [ "${arguments[$place]}" != -o ] || arguments[$place + 1]=size=4g
done
exec FOLDER/mount.real "${arguments[@]}"
"#;

/// The switch's data path is a process of its own, which needs no module of the kernel. A port answers for its own address only.
const SWITCH: &str = r"
mkdir -p /run/openvswitch; mount --bind FOLDER /run/openvswitch
ovsdb-tool create FOLDER/base /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server --remote=punix:/run/openvswitch/db.sock --detach --pidfile=FOLDER/base.pid --log-file=FOLDER/base.log FOLDER/base
ovs-vsctl --no-wait init
ovs-vswitchd unix:/run/openvswitch/db.sock --detach --pidfile=FOLDER/switch.pid --log-file=FOLDER/switch.log
ovs-vsctl add-br ovs0 -- set bridge ovs0 datapath_type=netdev
echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore
add() {
  ovs-vsctl add-port ovs0 $1 tag=$2 -- set interface $1 type=internal
  ip address add $3 dev $1
  ip link set $1 up
}
add near 5 10.5.0.1/24
add far 6 10.6.0.1/24
ip link set ovs0 up
";

impl Also {
    /// Lines by which the daemon comes to it. `own` is the folder of the host.
    pub fn lines(&self, own: &Path) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Group(name) => {
                let (folder, lvm) = (group_folder(name), own.join("lvm"));
                std::fs::write(&lvm, LVM.replace("FOLDER", &folder)).expect("written");
                let lvm = lvm.display();
                format!(
                    "mkdir -p {folder}; mount -t tmpfs tmpfs {folder}\nchmod 755 {lvm}; mount --bind {lvm} /usr/sbin/lvm\n"
                )
            }
            Self::Share => {
                let mount = own.join("mount");
                let own = own.display().to_string();
                std::fs::write(&mount, MOUNT.replace("FOLDER", &own)).expect("written");
                format!(
                    "cp /usr/bin/mount {own}/mount.real; chmod 755 {own}/mount; mount --bind {own}/mount /usr/bin/mount\n"
                )
            }
            Self::Switch => {
                let folder = own.join("switch");
                std::fs::create_dir_all(&folder).expect("made");
                SWITCH.replace("FOLDER", &folder.display().to_string())
            }
        }
    }

    /// Leaves nothing behind.
    pub fn end(&self, own: &Path) {
        match self {
            Self::Nothing | Self::Share => {}
            Self::Group(name) => {
                let _ = std::fs::remove_dir(group_folder(name));
            }
            Self::Switch => {
                kill(&own.join("switch/switch.pid"));
                kill(&own.join("switch/base.pid"));
            }
        }
    }
}

impl Host {
    /// One with a storage pool `fast` that is a volume group.
    pub fn with_group() -> Self {
        assert!(
            Path::new("/usr/sbin/lvm").exists(),
            "no lvm2; run hack/packages.sh"
        );
        let name = format!("polyvirt-{}", std::process::id());
        let host = Self::having(QUIET, Network::Shared, Also::Group(name.clone()));
        let folder = group_folder(&name);
        let define = ["pool-define-as", "fast", "logical", "--source-name"];
        let where_it_is = [name.as_str(), "--target", folder.as_str()];
        host.virsh(&[&define[..], &where_it_is[..]].concat());
        host.virsh(&["pool-start", "fast"]);
        host
    }

    /// One with a storage pool `shared` that lies on a file server.
    pub fn with_share() -> Self {
        let host = Self::having(QUIET, Network::Shared, Also::Share);
        let target = host.path("shared").display().to_string();
        std::fs::create_dir_all(&target).expect("made");
        let define = [
            "pool-define-as",
            "shared",
            "netfs",
            "--source-format",
            "nfs",
        ];
        let where_it_is = [
            "--source-host",
            "files.example.com",
            "--source-path",
            "/vms",
        ];
        let here = ["--target", target.as_str()];
        host.virsh(&[&define[..], &where_it_is[..], &here[..]].concat());
        host.virsh(&["pool-start", "shared"]);
        host
    }

    /// One with a switch, in a network name space of its own.
    pub fn with_switch() -> Self {
        assert!(
            Path::new("/usr/sbin/ovs-vswitchd").exists(),
            "no openvswitch-switch; run hack/packages.sh"
        );
        Self::having(QUIET, Network::Own, Also::Switch)
    }
}
