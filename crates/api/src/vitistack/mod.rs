//! The kinds of the group `vitistack.io`, version `v1alpha1`.
//!
//! A Machine has been written in three ways over the years: by template, by instance type and by machine class. One schema
//! takes all of them; no field has two meanings.

mod kubevirt_config;
mod machine;
mod machine_class;
mod network_configuration;
mod network_namespace;

pub use kubevirt_config::*;
pub use machine::*;
pub use machine_class::*;
pub use network_configuration::*;
pub use network_namespace::*;

/// The API group of these kinds.
pub const GROUP: &str = "vitistack.io";
/// The served and stored version of [`GROUP`].
pub const VERSION: &str = "v1alpha1";

/// Keeps a Machine until its VirtualMachine is gone.
pub const MACHINE_FINALIZER: &str = "machine.vitistack.io/cleanup";
/// The finalizer of an older operator; it is taken off with ours.
pub const OLD_MACHINE_FINALIZER: &str = "machine.vitistack.io/finalizer";

/// On a Machine: the KubevirtConfig whose cluster has, or gets, the VM.
pub const KUBEVIRT_CONFIG_ANNOTATION: &str = "vitistack.io/kubevirt-config";
/// On a Machine, `"true"`: let it go though its VM could not be proved absent.
pub const FORCE_DELETE_ANNOTATION: &str = "vitistack.io/force-delete";
/// On a Machine, `"true"`: its VM stays when it is deleted.
pub const ORPHAN_ANNOTATION: &str = "vitistack.io/orphan";
/// On a Machine: On, Off, OffGraceful or Paused. Absent: the power state of the VirtualMachine is not touched.
pub const POWER_STATE_ANNOTATION: &str = "vitistack.io/power-state";
/// On a Machine, `datavolume`: spec.os.imageID is an installation medium to boot from.
pub const BOOT_SOURCE_ANNOTATION: &str = "kubevirt.io/boot-source";
/// On a Machine: how the medium is fetched, `http` or `registry`.
pub const BOOT_SOURCE_TYPE_ANNOTATION: &str = "kubevirt.io/boot-source-type";
/// On a Machine, `"true"`: the medium was ejected and can go.
pub const CDROM_EJECTED_ANNOTATION: &str = "vitistack.io/cdrom-ejected";
/// On a Machine, `"true"`: the system is installed and the medium can go.
pub const OS_INSTALLED_ANNOTATION: &str = "vitistack.io/os-installed";

/// On everything that is made for a Machine: who made it.
pub const MANAGED_BY_LABEL: &str = "vitistack.io/managed-by";
/// On everything that is made for a Machine: its name.
pub const MACHINE_LABEL: &str = "vitistack.io/machine";
/// The same under an older key.
pub const SOURCE_MACHINE_LABEL: &str = "vitistack.io/source-machine";
/// On a NetworkAttachmentDefinition: its VLAN.
pub const VLAN_LABEL: &str = "vitistack.io/vlan-id";
