//! May they? The API server is asked again, as every aggregated API server does: RBAC is its business.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::discovery::{GROUP, Part, VERSION};
use crate::front_proxy::User;
use crate::refusal::Refusal;

/// A part of one VirtualMachine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where it is.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The part.
    pub part: Part,
}

/// Fails unless the user may use that part.
pub async fn check(client: &Client, user: &User, target: &Target) -> Result<(), Refusal> {
    let api: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = api
        .create(&PostParams::default(), &review(user, target))
        .await
        .map_err(|error| Refusal::Unavailable(format!("Permissions cannot be checked: {error}")))?;
    if answer.status.is_some_and(|status| status.allowed) {
        return Ok(());
    }
    Err(Refusal::Forbidden {
        user: user.name.clone(),
        verb: target.part.verb(),
        part: target.part.name(),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
    })
}

fn review(user: &User, target: &Target) -> SubjectAccessReview {
    let attributes = ResourceAttributes {
        group: Some(GROUP.to_owned()),
        version: Some(VERSION.to_owned()),
        resource: Some("virtualmachines".to_owned()),
        subresource: Some(target.part.name().to_owned()),
        namespace: Some(target.namespace.clone()),
        name: Some(target.name.clone()),
        verb: Some(target.part.verb().to_owned()),
        ..ResourceAttributes::default()
    };
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.name.clone()),
            groups: Some(user.groups.clone()),
            extra: Some(user.extra.clone()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}
