//! Options of the manager about hooks that call web servers.

use clap::Args;
use polyvirt_engine::calls::{Policy, Range};

/// Options of `polyvirt manager` about hooks that call web servers (`spec.lifecycle.*.httpGet`).
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Hooks that call web servers")]
pub struct Hooks {
    /// Addresses that hooks may call though they are of this machine, its cloud or the cluster's Services (comma separated ranges)
    #[arg(long, env = "HOOK_ALLOW", value_delimiter = ',', value_name = "RANGES")]
    pub hook_allow: Vec<Range>,
    /// Addresses that hooks may not call, beside this machine, its cloud and the cluster's Services (comma separated ranges)
    #[arg(long, env = "HOOK_DENY", value_delimiter = ',', value_name = "RANGES")]
    pub hook_deny: Vec<Range>,
}

impl Hooks {
    /// As the engine takes them.
    pub fn policy(&self) -> Policy {
        Policy {
            allowed: self.hook_allow.clone(),
            denied: self.hook_deny.clone(),
        }
    }
}
