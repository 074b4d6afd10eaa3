//! VMPlacementPolicies.

use polyvirt_api::infra::{PlacementConstraints, VMPlacementPolicy};
use polyvirt_plan::Problem;
use polyvirt_plan::honoured::kinds::PLACEMENT_POLICY;
use polyvirt_plan::quantity::mebibytes;

use super::{Judged, invalid};
use crate::facts::Facts;

impl Judged for VMPlacementPolicy {
    fn problems(&self, _: &dyn Facts) -> Vec<Problem> {
        let hard = self.spec.hard.iter().flat_map(nowhere);
        hard.chain(sizes(self)).collect()
    }

    fn warnings(&self, _: Option<&Self>, _: &dyn Facts) -> Vec<String> {
        PLACEMENT_POLICY.warnings(&self.spec)
    }
}

/// Lists of which nothing is left.
fn nowhere(hard: &PlacementConstraints) -> Vec<Problem> {
    let lists = [
        (
            "clusters",
            "excludedClusters",
            &hard.clusters,
            &hard.excluded_clusters,
        ),
        ("hosts", "excludedHosts", &hard.hosts, &hard.excluded_hosts),
        (
            "datastores",
            "excludedDatastores",
            &hard.datastores,
            &hard.excluded_datastores,
        ),
    ];
    let empty = lists.into_iter().filter(|(_, _, wanted, excluded)| {
        !wanted.is_empty() && wanted.iter().all(|one| excluded.contains(one))
    });
    empty
        .map(|(wanted, excluded, _, _)| {
            invalid(
                format!("spec.hard.{wanted}"),
                format!(
                    "All of them are in {excluded} too, so no place is left. Remove some there"
                ),
            )
        })
        .collect()
}

fn sizes(policy: &VMPlacementPolicy) -> Vec<Problem> {
    let Some(limits) = &policy.spec.resource_constraints else {
        return Vec::new();
    };
    let sizes = [
        ("minMemoryPerHost", &limits.min_memory_per_host),
        ("minDiskSpacePerHost", &limits.min_disk_space_per_host),
    ];
    let wrong = sizes.into_iter().filter_map(|(field, size)| {
        let error = mebibytes(size.as_ref()?).err()?;
        Some(invalid(
            format!("spec.resourceConstraints.{field}"),
            error.to_string(),
        ))
    });
    wrong.collect()
}
