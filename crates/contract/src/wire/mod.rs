//! The wire form: protobuf messages, the JSON inside their strings, and the way to and from the [`model`](crate::model).
//!
//! Nothing outside this crate needs it, except tests that play a foreign manager or provider.

mod convert;
pub mod json;
mod redact;

pub(crate) use convert::{Reuse, failure, handover, hosts, kind_of_word, task_id, task_ref};
pub use convert::{reconfigure_request, reconfigured};

/// `provider.v1`, shared with managers and providers in the field.
#[allow(missing_docs, clippy::all, clippy::pedantic, reason = "generated code")]
pub mod v1 {
    include!("generated/provider.v1.rs");
}

/// `polyvirt.provider.v1`, our extensions.
#[allow(missing_docs, clippy::all, clippy::pedantic, reason = "generated code")]
pub mod ext {
    include!("generated/polyvirt.provider.v1.rs");
}

/// Both services as a protobuf `FileDescriptorSet`.
pub const FILE_DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
