//! Whether moves are encrypted: KubeVirt does so unless its own configuration says otherwise, for all moves of the cluster.

use kube::api::ListParams;
use kube::core::DynamicObject;
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use serde_json::Value;

use crate::kinds::Kind;
use crate::vm::Core;

const DISABLED: &str = "/spec/configuration/migrations/disableTLS";
/// The field of the wish.
const FIELD: &str = "encrypted";

/// Refuses an encrypted move where moves are not encrypted, or where nobody may know.
pub(super) async fn check(core: &Core) -> Result<()> {
    let (all, every) = (core.cluster.global(Kind::KubeVirt), ListParams::default());
    let listed = core.cluster.list(Kind::KubeVirt, all, &every).await;
    match listed {
        Ok(listed) => judge(&listed.objects),
        Err(error) if error.kind == ErrorKind::PermissionDenied => Err(unknown(&error.message)),
        Err(error) => Err(error),
    }
}

fn judge(found: &[DynamicObject]) -> Result<()> {
    if found.is_empty() {
        return Err(unknown("The cluster has no object of the kind KubeVirt"));
    }
    let plain = |kubevirt: &DynamicObject| {
        let said = kubevirt.data.pointer(DISABLED).and_then(Value::as_bool);
        said == Some(true)
    };
    if found.iter().any(plain) {
        let message = "KubeVirt does not encrypt moves in this cluster: spec.configuration.migrations.disableTLS of its object KubeVirt is true; \
                       set it to false, or take the wish away";
        return Err(ProviderError::new(ErrorKind::Unsupported, message).at(FIELD));
    }
    Ok(())
}

fn unknown(why: &str) -> ProviderError {
    let message = format!(
        "Whether KubeVirt encrypts moves could not be checked, so none is begun that must be: {why}. Let the account of the provider list \
         kubevirts of kubevirt.io, or take the wish away"
    );
    ProviderError::new(ErrorKind::PermissionDenied, message).at(FIELD)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_kubevirt_that_does_not_say_no_encrypts() {
        let kubevirt = |migrations: Value| -> DynamicObject {
            let object = json!({"metadata": {"name": "kubevirt"}, "spec": {"configuration": {"migrations": migrations}}});
            serde_json::from_value(object).expect("an object")
        };
        for (found, refused) in [
            (vec![kubevirt(json!({}))], None),
            (vec![kubevirt(json!({"disableTLS": false}))], None),
            (
                vec![kubevirt(json!({"disableTLS": true}))],
                Some((ErrorKind::Unsupported, "disableTLS")),
            ),
            (
                vec![],
                Some((ErrorKind::PermissionDenied, "could not be checked")),
            ),
        ] {
            let answer = judge(&found).err();
            assert_eq!(
                answer.as_ref().map(|e| e.kind),
                refused.map(|(kind, _)| kind)
            );
            let text = answer.map(|error| (error.field, error.message));
            let told = text.is_none_or(|(field, message)| {
                let word = refused.map_or("", |(_, word)| word);
                field.as_deref() == Some(FIELD) && message.contains(word)
            });
            assert!(told);
        }
    }
}
