//! The roles for consoles of VMs and commands in their guests.

use anyhow::Context;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};

const GUESTS: &str = include_str!("../../../../../config/rbac/guests.yaml");

/// Applies them, and returns how many they are. Who has them is for the user to say.
pub async fn apply(client: &Client) -> anyhow::Result<usize> {
    let roles = roles()?;
    let api: Api<ClusterRole> = Api::all(client.clone());
    let params = PatchParams::apply("polyvirt").force();
    for role in &roles {
        let name = role.name_any();
        let applied = api.patch(&name, &params, &Patch::Apply(role)).await;
        applied.with_context(|| format!("The role {name} cannot be applied"))?;
    }
    Ok(roles.len())
}

fn roles() -> anyhow::Result<Vec<ClusterRole>> {
    serde_saphyr::from_multiple(GUESTS).context("The roles cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roles_name_what_the_gateway_serves() {
        let roles = roles().expect("readable");
        let names: Vec<_> = roles.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["polyvirt-guests", "polyvirt-guest-logs"]);
        for rule in roles.iter().flat_map(|role| role.rules.iter().flatten()) {
            let groups = rule.api_groups.iter().flatten();
            assert!(groups.eq(["subresources.polyvirt.io"]), "{rule:?}");
        }
    }
}
