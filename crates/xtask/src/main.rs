//! Generates what is committed: the protobuf code.

fn main() {}
