//! QEMU, driven directly over QMP.
