//! A real local control plane for tests, the benchmark and polyvirt up.
