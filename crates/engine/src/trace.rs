//! Spans for a collector of traces: one for each pass, and one below it for each call to a provider.

/// The target of these spans. They are made for the collector, and stay out of log lines; where nobody listens, one costs a
/// look at a flag.
pub const TARGET: &str = "polyvirt::trace";
