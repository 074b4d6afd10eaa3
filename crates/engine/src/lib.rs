//! The controllers: one folder a kind, on one runtime of stores, queue and provider links.
