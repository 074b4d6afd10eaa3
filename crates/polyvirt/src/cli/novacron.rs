//! Options of the manager about VMs of NovaCron.

use clap::Args;
use polyvirt_dialects::novacron::Settings;

/// Options of `polyvirt manager` about VMs of NovaCron (novacron.io).
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Virtual machines of NovaCron (novacron.io)")]
pub struct Novacron {
    /// The Provider of VMs without the annotation novacron.io/provider; without it the only Provider there is
    #[arg(
        long,
        env = "NOVACRON_DEFAULT_PROVIDER",
        value_name = "NAME|NAMESPACE/NAME"
    )]
    pub novacron_default_provider: Option<String>,
}

impl Novacron {
    /// As the controller takes them, for a manager in that namespace. An empty variable says nothing.
    pub fn settings(&self, namespace: &str) -> Settings {
        let provider = self.novacron_default_provider.clone();
        Settings {
            default_provider: provider.filter(|name| !name.is_empty()),
            ..Settings::in_namespace(namespace)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_says_nothing() {
        let given = |text: &str| Novacron {
            novacron_default_provider: Some(text.to_owned()),
        };
        let settings = given("").settings("polyvirt-system");
        assert_eq!(settings, Settings::in_namespace("polyvirt-system"));
        let settings = given("infra/kvm").settings("polyvirt-system");
        assert_eq!(settings.default_provider.as_deref(), Some("infra/kvm"));
    }
}
