//! The JSON inside string fields of `provider.v1`.
//!
//! Writers give the form that Go gives to structs without tags: PascalCase keys in a fixed order, every key present, `null`
//! for what is absent. What that form lacks is added as further keys, and only where it says something. The class of a
//! clone and the image to prepare are written in the casing of their Kubernetes objects instead.
//!
//! Readers take keys in any case, `null` for absent, either shape, and skip keys that they do not know. A value that they
//! cannot understand is an [`Invalid`](crate::ErrorKind::Invalid) error that names the field.

mod class;
mod class_object;
mod desired;
mod disk;
mod image;
mod network;
mod placement;
mod prepare;
mod quantity;
mod read;

use serde::Serialize;

use crate::error::{ErrorKind, ProviderError};

pub use class::{read_class, write_class};
pub use class_object::write_class_object;
pub use desired::{read_desired, write_desired};
pub use disk::{read_disks, write_disks};
pub use image::{read_image, write_image};
pub use network::{read_networks, write_networks};
pub use placement::{read_placement, write_placement};
pub use prepare::{Prepare, read_prepare, write_prepare};

pub(crate) use read::parse_flat;

fn write<T: Serialize>(value: &T) -> Result<String, ProviderError> {
    serde_json::to_string(value).map_err(|e| {
        ProviderError::new(
            ErrorKind::Internal,
            format!("The request cannot be written as JSON: {e}"),
        )
    })
}

/// Go's nil for a collection without elements.
fn null_if_empty<T>(items: Vec<T>) -> Option<Vec<T>> {
    (!items.is_empty()).then_some(items)
}
