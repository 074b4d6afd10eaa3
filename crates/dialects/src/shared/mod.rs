//! What every dialect needs: who owns what, what is written to Kubernetes, and who is looked at next.

pub mod desk;
pub mod line;
pub mod made;
pub mod names;
pub mod owner;
pub mod same;
pub mod size;
pub mod wake;
pub mod words;
