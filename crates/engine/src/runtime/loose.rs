//! Objects as a watch brings them: their metadata, and the rest as text.
//!
//! One type for all kinds means one watch in the program instead of one for each, and an object that does not fit its kind
//! is one that cannot be read, not the end of the watch.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object of any kind.
#[derive(Clone, Debug)]
pub struct Loose {
    meta: ObjectMeta,
    text: Box<RawValue>,
}

#[derive(Deserialize)]
struct Head {
    metadata: ObjectMeta,
}

impl Loose {
    /// The object as one of its kind.
    pub fn read<K: DeserializeOwned>(&self) -> serde_json::Result<K> {
        // From bytes, as answers of the API server are read: the same code for both.
        serde_json::from_slice(self.text.get().as_bytes())
    }
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let head: Head = serde_json::from_slice(text.get().as_bytes()).map_err(D::Error::custom)?;
        Ok(Self {
            meta: head.metadata,
            text,
        })
    }
}

impl Resource for Loose {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.kind)
    }

    fn group(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.group)
    }

    fn version(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.version)
    }

    fn api_version(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.api_version)
    }

    fn plural(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.plural)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ObjectList, WatchEvent};
    use polyvirt_api::infra::VMClass;

    use super::*;

    const CLASS: &str = r#"{"apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMClass", "metadata": {"name": "small",
        "namespace": "a"}, "spec": {"cpu": 2, "memory": "1Gi"}}"#;

    #[test]
    fn an_event_of_a_watch_is_read_as_its_kind() {
        let line = format!(r#"{{"type": "ADDED", "object": {CLASS}}}"#);
        let WatchEvent::Added(loose) = serde_json::from_str::<WatchEvent<Loose>>(&line).unwrap()
        else {
            panic!("not added")
        };
        assert_eq!(loose.meta().name.as_deref(), Some("small"));
        assert_eq!(loose.read::<VMClass>().unwrap().spec.cpu, 2);
    }

    #[test]
    fn a_list_with_an_object_that_does_not_fit_is_still_a_list() {
        let wrong = CLASS.replace("2,", "\"two\",").replace("small", "wrong");
        let list =
            format!(r#"{{"metadata": {{"resourceVersion": "7"}}, "items": [{CLASS}, {wrong}]}}"#);
        let list: ObjectList<Loose> = serde_json::from_str(&list).unwrap();
        assert!(list.items[0].read::<VMClass>().is_ok());
        let error = list.items[1].read::<VMClass>().unwrap_err().to_string();
        assert!(error.contains("two"), "{error}");
        assert_eq!(list.items[1].meta().name.as_deref(), Some("wrong"));
    }
}
