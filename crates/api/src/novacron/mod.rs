//! The kind of the group `novacron.io`, version `v1alpha1`.
//!
//! The words of NovaCron are kept as they are: free text where it has free text. What they may say is judged by the webhook
//! and by the controller, so that an object that NovaCron took is taken here too.

mod lifecycle;
mod network;
mod policy;
mod status;
mod template;
mod virtual_machine;

pub use lifecycle::*;
pub use network::*;
pub use policy::*;
pub use status::*;
pub use template::*;
pub use virtual_machine::*;

/// The API group of this kind.
pub const GROUP: &str = "novacron.io";
/// The served and stored version of [`GROUP`].
pub const VERSION: &str = "v1alpha1";

/// Keeps a VirtualMachine until what was made for it is gone.
pub const FINALIZER: &str = "virtualmachine.novacron.io/finalizer";

/// On a VirtualMachine: the Provider that runs it, by name or by namespace/name.
pub const PROVIDER_ANNOTATION: &str = "novacron.io/provider";
/// On a VirtualMachine: the node that it is to move to, once, while it runs.
pub const MIGRATE_TO_ANNOTATION: &str = "novacron.io/migrate-to";
/// On a VirtualMachine, `"true"`: let it go though its VM could not be proved absent.
pub const FORCE_DELETE_ANNOTATION: &str = "novacron.io/force-delete";
/// On what was made for a VirtualMachine: the image.source that its first disk comes from.
pub const IMAGE_SOURCE_ANNOTATION: &str = "novacron.io/image-source";
/// On a VMImage: the name under which image.source marketplace://name finds it.
pub const MARKETPLACE_LABEL: &str = "polyvirt.io/marketplace";
