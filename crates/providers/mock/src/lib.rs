//! A provider without a hypervisor: VMs in memory or in a folder, and every lie a real one tells.
