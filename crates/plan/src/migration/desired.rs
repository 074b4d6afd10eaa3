//! From the object to the request for the provider. What does not belong to a move between hosts is refused or named.

use std::time::Duration;

use polyvirt_api::GoDuration;
use polyvirt_api::infra::{LiveMigration, MoveMode, VMMigration};
use polyvirt_contract::RequestId;
use polyvirt_contract::model::{MigrateVm, MigrationMode};

use super::facts::Desired;
use crate::bandwidth::bytes_per_second;
use crate::honoured::kinds::MIGRATION;
use crate::problem::Problem;
use crate::reason::Reason;

/// Namespace and name of a Provider.
pub type ProviderName<'a> = (&'a str, &'a str);

/// How the VM should move. `home` is the Provider that it is on, where that is known.
pub fn resolve(object: &VMMigration, home: Option<ProviderName<'_>>) -> Result<Desired, Problem> {
    between_hosts(object, home)?;
    let options = object.spec.options.clone().unwrap_or_default();
    let live = options.live.clone().unwrap_or_default();
    let retry = options.retry_policy.clone();
    let pause = retry.as_ref().map(|r| r.retry_delay.clone());
    let whole = |number: i32| u32::try_from(number).unwrap_or(0);
    Ok(Desired {
        request: request(object, &live)?,
        timeout: duration("spec.options.timeout", &options.timeout)?,
        retries: retry.as_ref().map_or(0, |r| whole(r.max_retries)),
        pause: pause.map_or(Ok(Duration::ZERO), |pause| {
            duration("spec.options.retryPolicy.retryDelay", &pause)
        })?,
        growth: retry.as_ref().map_or(1, |r| whole(r.backoff_multiplier)),
        ignored: ignored(object),
    })
}

/// The name of the one request of this object.
pub fn request_id(object: &VMMigration) -> Option<RequestId> {
    RequestId::non_empty(object.metadata.uid.clone()?)
}

fn request(object: &VMMigration, live: &LiveMigration) -> Result<MigrateVm, Problem> {
    let field = "spec.options.live.bandwidth";
    let wrong = |why: String| Problem::new(Reason::InvalidSpec, field, why);
    let bandwidth = live.bandwidth.as_deref().map(bytes_per_second);
    Ok(MigrateVm {
        target_host: object.spec.target.host.clone().unwrap_or_default(),
        mode: match live.mode {
            MoveMode::Live => MigrationMode::Live,
            MoveMode::Cold => MigrationMode::Cold,
        },
        compression: live.compression,
        encrypted: live.encrypted,
        bandwidth: bandwidth.transpose().map_err(wrong)?,
        auto_converge: live.auto_converge,
        post_copy: live.post_copy,
        request: request_id(object),
    })
}

fn duration(field: &str, text: &GoDuration) -> Result<Duration, Problem> {
    text.parse()
        .map_err(|e| Problem::new(Reason::InvalidSpec, field, format!("The value {e}")))
}

/// A move to another Provider needs disks to be carried, which is not done yet. It is never taken for something else.
fn between_hosts(object: &VMMigration, home: Option<ProviderName<'_>>) -> Result<(), Problem> {
    let own = object.metadata.namespace.as_deref().unwrap_or_default();
    let target = &object.spec.target;
    let unsupported =
        |field: &str, text: String| Err(Problem::new(Reason::MigrationUnsupported, field, text));
    let there = (
        target.provider_ref.namespace_or(own),
        target.provider_ref.name.as_str(),
    );
    if let Some(home) = home.filter(|home| *home != there) {
        let text = format!(
            "The VM is on Provider {}, and moves to another Provider are not supported yet. \
             Name {} to move it to another of its hosts, or delete this object",
            home.1, home.1
        );
        return unsupported("spec.target.providerRef", text);
    }
    let source = &object.spec.source.vm_ref.name;
    let renamed = target.name.as_ref().filter(|name| *name != source);
    let renamed = renamed.or_else(|| {
        let named = target.vm_ref.as_ref().map(|vm| &vm.name);
        named.filter(|name| *name != source)
    });
    let elsewhere = target.namespace.as_deref().is_some_and(|ns| ns != own);
    if renamed.is_some() || elsewhere {
        let text = format!(
            "A move within one Provider keeps the VirtualMachine {source}. \
             Remove the name, or make a VMClone to copy it"
        );
        return unsupported("spec.target.name", text);
    }
    Ok(())
}

/// Fields that are set and speak of disks that are carried to another Provider.
fn ignored(object: &VMMigration) -> Vec<&'static str> {
    let idle = MIGRATION.idle(&serde_json::to_value(&object.spec).unwrap_or_default());
    idle.into_iter().map(|never| never.path).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const HOME: Option<ProviderName<'static>> = Some(("lab", "prov"));

    fn object(spec: &Value) -> VMMigration {
        let object = json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMMigration",
            "metadata": {"name": "m", "namespace": "lab", "uid": "u-1"}, "spec": spec,
        });
        serde_json::from_value(object).expect("valid")
    }

    fn to(target: &Value, options: &Value) -> VMMigration {
        object(&json!({
            "source": {"vmRef": {"name": "web"}}, "target": target, "options": options,
        }))
    }

    #[test]
    fn every_wish_reaches_the_request() {
        let live = json!({
            "mode": "Live", "compression": true, "encrypted": true, "bandwidth": "10Gbps",
            "autoConverge": true, "postCopy": true,
        });
        let target = json!({"providerRef": {"name": "prov"}, "host": "host-2"});
        let found = resolve(&to(&target, &json!({"live": live})), HOME).expect("valid");
        assert_eq!(
            found.request,
            MigrateVm {
                target_host: "host-2".into(),
                mode: MigrationMode::Live,
                compression: true,
                encrypted: true,
                bandwidth: Some(1_250_000_000),
                auto_converge: true,
                post_copy: true,
                request: RequestId::non_empty("u-1"),
            }
        );
        assert_eq!(found.retries, 0);
        assert_eq!(found.timeout, Duration::from_secs(4 * 3600));
        assert!(found.ignored.is_empty(), "{:?}", found.ignored);
    }

    #[test]
    fn another_provider_or_another_name_is_refused_by_name() {
        for (target, field) in [
            (
                json!({"providerRef": {"name": "other"}}),
                "spec.target.providerRef",
            ),
            (
                json!({"providerRef": {"name": "prov", "namespace": "infra"}}),
                "spec.target.providerRef",
            ),
            (
                json!({"providerRef": {"name": "prov"}, "name": "copy"}),
                "spec.target.name",
            ),
            (
                json!({"providerRef": {"name": "prov"}, "namespace": "other"}),
                "spec.target.name",
            ),
        ] {
            let problem = resolve(&to(&target, &json!({})), HOME).expect_err("refused");
            assert_eq!(problem.reason, Reason::MigrationUnsupported);
            assert_eq!(problem.field, field);
        }
        let same = json!({"providerRef": {"name": "prov"}, "name": "web", "namespace": "lab"});
        assert!(resolve(&to(&same, &json!({})), HOME).is_ok());
    }

    #[test]
    fn what_is_no_bandwidth_and_what_means_nothing_is_named() {
        let target = json!({"providerRef": {"name": "prov"}, "powerOn": true});
        let wrong = to(&target, &json!({"live": {"bandwidth": "fast"}}));
        let problem = resolve(&wrong, HOME).expect_err("refused");
        assert_eq!(problem.field, "spec.options.live.bandwidth");
        let fine = resolve(&to(&target, &json!({"compress": true})), HOME).expect("valid");
        assert_eq!(
            fine.ignored,
            ["spec.target.powerOn", "spec.options.compress"]
        );
    }
}
