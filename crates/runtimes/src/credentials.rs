//! The Secret with which a provider proves who it is to the hypervisor.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use polyvirt_api::infra::Provider;
use polyvirt_contract::Credentials;
use polyvirt_engine::provider::NoWay;
use polyvirt_plan::{Problem, Reason};

use crate::refusal;

/// On a Secret: the namespaces, separated by commas, whose Providers may use it too; `*` for all.
///
/// Without it, whoever may write a Provider could send the Secrets of others to a server of their own.
pub const SHARED_WITH: &str = "polyvirt.io/shared-with-namespaces";

const NAME_FIELD: &str = "spec.credentialSecretRef.name";

/// The credentials that a Provider names; none if it names none.
pub async fn read(client: &Client, provider: &Provider) -> Result<Credentials, NoWay> {
    let Some(wanted) = &provider.spec.credential_secret_ref else {
        return Ok(Credentials::default());
    };
    let own = provider.metadata.namespace.as_deref().unwrap_or_default();
    let namespace = wanted.namespace_or(own);
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let shown = if namespace == own {
        wanted.name.clone()
    } else {
        format!("{namespace}/{}", wanted.name)
    };
    let found = api.get_opt(&wanted.name).await.map_err(|error| {
        let why = format!("cannot be read: {}", refusal::words(&error));
        refusal::told(&error, invalid(&shown, &why))
    })?;
    let secret = found.ok_or_else(|| invalid(&shown, "does not exist. Create it"))?;
    if namespace != own && !is_shared(&secret, own) {
        return Err(not_shared(&wanted.name, namespace, own).into());
    }
    let data = secret.data.unwrap_or_default();
    Ok(data
        .into_iter()
        .map(|(key, value)| (key, value.0))
        .collect())
}

fn is_shared(secret: &Secret, with: &str) -> bool {
    let annotations = secret.metadata.annotations.as_ref();
    let list = annotations.and_then(|all| all.get(SHARED_WITH));
    list.is_some_and(|list| {
        list.split(',')
            .map(str::trim)
            .any(|n| n == "*" || n == with)
    })
}

fn invalid(name: &str, why: &str) -> Problem {
    Problem::new(
        Reason::SecretInvalid,
        NAME_FIELD,
        format!("Secret {name} {why}"),
    )
}

fn not_shared(name: &str, namespace: &str, own: &str) -> Problem {
    let text = format!(
        "Secret {name} of namespace {namespace} is not for namespace {own}: put it into {own}, or let its owner annotate it with {SHARED_WITH}={own}"
    );
    Problem::new(
        Reason::SecretInvalid,
        "spec.credentialSecretRef.namespace",
        text,
    )
}

/// A word that changes with the credentials. It means nothing to another process.
pub fn mark(credentials: &Credentials) -> String {
    static SALT: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let pairs: Vec<_> = credentials.iter().collect();
    format!("{:016x}", SALT.hash_one(pairs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(shared_with: Option<&str>) -> Secret {
        let mut secret = Secret::default();
        secret.metadata.annotations = shared_with.map(|list| {
            [(SHARED_WITH.to_owned(), list.to_owned())]
                .into_iter()
                .collect()
        });
        secret
    }

    #[test]
    fn a_secret_is_for_its_own_namespace_unless_its_owner_says_more() {
        for (list, shared) in [
            (None, false),
            (Some(""), false),
            (Some("b, a"), true),
            (Some("*"), true),
            (Some("ab"), false),
        ] {
            assert_eq!(is_shared(&secret(list), "a"), shared, "{list:?}");
        }
    }

    #[test]
    fn the_mark_follows_the_values_and_does_not_show_them() {
        let of = |value: &'static str| mark(&[("password", value)].into_iter().collect());
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        assert!(!of("s3cret").contains("s3cret"));
    }
}
