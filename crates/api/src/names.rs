//! Names that Polyvirt puts on objects: finalizers, annotations and labels.

/// The API group of the kinds in [`crate::infra`].
pub const GROUP: &str = "infra.virtrigaud.io";
/// The served and stored version of [`GROUP`].
pub const VERSION: &str = "v1beta1";

/// Keeps a VirtualMachine until its VM is proved absent (or is to be retained).
pub const VIRTUAL_MACHINE_FINALIZER: &str = "virtualmachine.infra.virtrigaud.io/finalizer";
/// Keeps a VMSnapshot until the snapshot is gone from the hypervisor.
pub const SNAPSHOT_FINALIZER: &str = "snapshot.infra.virtrigaud.io/finalizer";
/// Keeps a VMClone until its running task has ended.
pub const CLONE_FINALIZER: &str = "clone.infra.virtrigaud.io/finalizer";
/// Keeps a VMMigration until staged data and temporary snapshots are removed.
pub const MIGRATION_FINALIZER: &str = "vmmigration.infra.virtrigaud.io/finalizer";
/// Keeps a VMSet until its virtual machines are gone.
pub const SET_FINALIZER: &str = "vmset.infra.virtrigaud.io/finalizer";
/// Keeps a Provider until its runtime is taken down.
pub const PROVIDER_FINALIZER: &str = "provider.infra.virtrigaud.io/finalizer";
/// Keeps a VMImage until its copies on the hypervisors are removed.
pub const IMAGE_FINALIZER: &str = "vmimage.infra.virtrigaud.io/finalizer";
/// Keeps an object (class, image, network, provider, policy) while a virtual machine uses it.
pub const IN_USE_FINALIZER: &str = "infra.virtrigaud.io/in-use";

/// `"true"`: let the object go though its VM could not be proved absent.
pub const FORCE_DELETE_ANNOTATION: &str = "virtrigaud.io/force-delete";
/// `"true"`: when the object goes, its VM stays where it is and is managed no more, whatever `spec.deletionPolicy` says.
pub const ORPHAN_ANNOTATION: &str = "virtrigaud.io/orphan-on-delete";
/// Any new value asks for one reboot of the VM.
pub const REBOOT_ANNOTATION: &str = "virtrigaud.io/reboot";
/// `"true"`: leave the object and its VM as they are until it is removed.
pub const PAUSED_ANNOTATION: &str = "virtrigaud.io/paused";
/// The identity under which the VM is known on the hypervisor.
pub const IDENTITY_ANNOTATION: &str = "polyvirt.io/identity";
/// On a Provider, `"true"`: make VirtualMachine objects for VMs that exist already.
pub const ADOPT_VMS_ANNOTATION: &str = "virtrigaud.io/adopt-vms";
/// On a Provider, JSON: which existing VMs to adopt.
pub const ADOPT_FILTER_ANNOTATION: &str = "virtrigaud.io/adopt-filter";
/// On a VirtualMachine: the virtual machine that it was cloned from.
pub const CLONED_FROM_ANNOTATION: &str = "virtrigaud.io/cloned-from";
/// On a VirtualMachine: the VMClone that made it.
pub const CLONE_ANNOTATION: &str = "virtrigaud.io/clone";
/// On a VirtualMachine: the virtual machine that it was migrated from.
pub const MIGRATED_FROM_ANNOTATION: &str = "virtrigaud.io/migrated-from";
/// On a VirtualMachine: the VMMigration that made it.
pub const MIGRATION_ANNOTATION: &str = "virtrigaud.io/migration";

/// On an object of another API whose VM was deleted behind it: the id of that VM, to have a new one with empty disks created.
pub const RECREATE_VM_ANNOTATION: &str = "polyvirt.io/recreate-vm";

/// On a VMSnapshot: the action of spec.lifecycle that made it.
pub const HOOK_LABEL: &str = "polyvirt.io/hook";
/// On a VMSnapshot: the time of its schedule that it was made for.
pub const SCHEDULED_AT_ANNOTATION: &str = "polyvirt.io/scheduled-at";
/// On a VMSnapshot: the name of the schedule that made it; its UID if the name is too long.
pub const SCHEDULE_LABEL: &str = "polyvirt.io/schedule";

/// On a VMSnapshot with a schedule, `"true"`: it keeps all that it takes, unless its maxCount or maxAge says otherwise.
pub const KEEP_ALL_ANNOTATION: &str = "polyvirt.io/keep-all";

/// `"true"` on a VirtualMachine whose VM existed before the object.
pub const ADOPTED_LABEL: &str = "virtrigaud.io/adopted";
