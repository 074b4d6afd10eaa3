//! What any provider must pass, in process and over the wire.
