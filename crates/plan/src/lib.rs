//! The pure core of the engine: what a VM should be, what it is, and the one next step.
