//! What some hosts have beyond others.

use std::path::Path;

use crate::host::kill;

/// What a host has beyond others.
pub enum Also {
    Nothing,
    /// A volume group of this name that is only played.
    Group(String),
    /// A bridge `ovs0` of Open vSwitch, and two of its ports: `near` in the VLAN 5 and `far` in the VLAN 6.
    Switch,
}

/// What stands for LVM where there is no device mapper.
const LVM: &str = include_str!("lvm.sh");

pub fn group_folder(name: &str) -> String {
    format!("/dev/{name}")
}

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
            Self::Nothing => {}
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
