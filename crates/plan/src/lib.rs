//! The pure core of the engine: what a VM should be, what it is, and the one next step.
//!
//! Nothing here touches a client, a clock or a file. That is why correctness lives here, and the property tests with it.

pub mod bandwidth;
pub mod conditions;
pub mod digest;
pub mod honoured;
pub mod image;
pub mod image_step;
pub mod migration;
pub mod note;
pub mod problem;
pub mod quantity;
pub mod reason;
pub mod sharing;
pub mod snapshot;
pub mod user_data;
pub mod virtual_machine;

pub use note::{Note, Severity};
pub use problem::Problem;
pub use reason::Reason;
