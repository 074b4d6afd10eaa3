//! What a hypervisor provider is: the trait, its model, and the two gRPC services.
