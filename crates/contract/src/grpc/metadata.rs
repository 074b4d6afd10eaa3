//! For whom a call is made, beside the message: a peer that knows only `provider.v1` never looks there.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tonic::metadata::{MetadataMap, MetadataValue};

use crate::error::ProviderError;
use crate::ids::{Identity, RequestId};
use crate::model::Owner;

/// The key of an owner's identity.
pub const IDENTITY: &str = "polyvirt-identity";
/// The key of an owner's namespace.
pub const NAMESPACE: &str = "polyvirt-namespace";
/// The key of an owner's name.
pub const NAME: &str = "polyvirt-name";
/// The key of the user's request that a call serves.
pub const REQUEST_ID: &str = "polyvirt-request-id";

/// The key by which a caller says that it acts on a task that nobody knows any more, by looking at the VM.
pub const FORGOTTEN_TASKS: &str = "polyvirt-forgotten-tasks";

const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b':');

/// Says for whom the call is made.
pub(super) fn put_owner(metadata: &mut MetadataMap, owner: Option<&Owner>) {
    let Some(owner) = owner else { return };
    put(metadata, IDENTITY, owner.identity.as_str());
    put(metadata, NAMESPACE, &owner.namespace);
    put(metadata, NAME, &owner.name);
}

/// Says which request of a user the call serves.
pub(super) fn put_request(metadata: &mut MetadataMap, request: Option<&RequestId>) {
    if let Some(request) = request {
        put(metadata, REQUEST_ID, request.as_str());
    }
}

/// Says that `NotFound` is understood of a task that the provider has forgotten.
pub(super) fn put_forgotten_tasks(metadata: &mut MetadataMap) {
    put(metadata, FORGOTTEN_TASKS, "not-found");
}

/// Whether the caller understands `NotFound` of a task that the provider has forgotten.
pub(super) fn knows_forgotten_tasks(metadata: &MetadataMap) -> bool {
    metadata.contains_key(FORGOTTEN_TASKS)
}

/// For whom the call is made; `None` if a manager without identities calls.
pub(super) fn owner(metadata: &MetadataMap) -> Result<Option<Owner>, ProviderError> {
    let Some(identity) = get(metadata, IDENTITY)?.and_then(Identity::non_empty) else {
        return Ok(None);
    };
    Ok(Some(Owner {
        identity,
        namespace: get(metadata, NAMESPACE)?.unwrap_or_default(),
        name: get(metadata, NAME)?.unwrap_or_default(),
    }))
}

/// Which request of a user the call serves.
pub(super) fn request(metadata: &MetadataMap) -> Result<Option<RequestId>, ProviderError> {
    Ok(get(metadata, REQUEST_ID)?.and_then(RequestId::non_empty))
}

fn put(metadata: &mut MetadataMap, key: &'static str, text: &str) {
    let escaped = utf8_percent_encode(text, ESCAPED).to_string();
    // Escaped text is always a valid value; an `if let` keeps the promise that this never panics.
    if let Ok(value) = MetadataValue::try_from(escaped) {
        metadata.insert(key, value);
    }
}

fn get(metadata: &MetadataMap, key: &'static str) -> Result<Option<String>, ProviderError> {
    let Some(value) = metadata.get(key) else {
        return Ok(None);
    };
    let text = value.to_str().ok().map(percent_decode_str);
    let text = text.and_then(|t| t.decode_utf8().ok());
    text.map(|t| Some(t.into_owned())).ok_or_else(|| {
        ProviderError::invalid(
            key,
            format!("The request metadata {key} is not escaped UTF-8"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_survives() {
        let owner_in = Owner {
            identity: "a%b c\n".into(),
            namespace: "größe".into(),
            name: "web-1".into(),
        };
        let mut metadata = MetadataMap::new();
        put_owner(&mut metadata, Some(&owner_in));
        put_request(&mut metadata, Some(&"r/1".into()));
        assert_eq!(owner(&metadata).unwrap(), Some(owner_in));
        assert_eq!(request(&metadata).unwrap(), Some("r/1".into()));
        assert_eq!(metadata.get(NAME).unwrap(), "web-1");
    }

    #[test]
    fn a_foreign_manager_has_no_owner() {
        assert_eq!(owner(&MetadataMap::new()).unwrap(), None);
        assert_eq!(request(&MetadataMap::new()).unwrap(), None);
    }

    #[test]
    fn an_empty_identity_owns_nothing() {
        let mut metadata = MetadataMap::new();
        metadata.insert(IDENTITY, MetadataValue::from_static(""));
        assert_eq!(owner(&metadata).unwrap(), None);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        let mut metadata = MetadataMap::new();
        metadata.insert(IDENTITY, MetadataValue::from_static("%ff%fe"));
        assert_eq!(
            owner(&metadata).unwrap_err().field.as_deref(),
            Some(IDENTITY)
        );
    }
}
