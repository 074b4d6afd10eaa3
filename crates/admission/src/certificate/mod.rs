//! The certificate that the API server sees: issued here, kept in a Secret, renewed in time.
//!
//! ```text
//!                announce                  promote                    forget
//!   settled ───────────────► announced ───────────────► promoted ───────────────► settled
//!   trusted: A               trusted: A, B              trusted: B, A             trusted: B
//!   shown:   A               shown:   A                 shown:   B                shown:   B
//! ```
//!
//! Every generation has an authority of its own whose key is not kept: nobody can issue more. Between two steps there is time
//! for everybody to learn of the last one, so no handshake ever fails for a renewal.

mod keeper;
mod pair;
mod secret;
mod shelf;
mod shown;

pub use keeper::Keeper;
pub use shelf::Lifetimes;
