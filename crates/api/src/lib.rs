//! The Kubernetes API types of Polyvirt: serde and schemars, no client.
