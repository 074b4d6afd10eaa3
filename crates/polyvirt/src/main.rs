//! Every virtual machine, one Kubernetes API.

fn main() {}
