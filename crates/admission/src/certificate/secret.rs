//! What is kept, as a Secret.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use polyvirt_pki::secret::{is_empty, written_over};

use super::pair::Pair;
use super::shelf::Shelf;

/// On a Secret that is ours to renew. One without it is somebody else's, such as cert-manager's.
const OWNER: (&str, &str) = ("app.kubernetes.io/managed-by", "polyvirt");
const ISSUED: &str = "polyvirt.io/issued";
const NEXT_ISSUED: &str = "polyvirt.io/next-issued";
const NAMES: &str = "polyvirt.io/names";

/// Whether we renew what is in the Secret: we made it, or filled one that was made for us.
pub(super) fn is_ours(secret: &Secret) -> bool {
    let meta = &secret.metadata;
    let labelled = meta.labels.as_ref();
    let labelled = labelled.is_some_and(|l| l.get(OWNER.0).is_some_and(|by| by == OWNER.1));
    let filled = meta.annotations.as_ref();
    let filled = filled.is_some_and(|notes| notes.contains_key(ISSUED));
    labelled || filled || is_empty(secret)
}

/// What is in the Secret; `None` if something is missing.
pub(super) fn read(secret: &Secret) -> Option<Shelf> {
    let data = secret.data.as_ref()?;
    let part = |key: &str| data.get(key).map(|value| value.0.clone());
    let note = |key: &str| secret.metadata.annotations.as_ref()?.get(key).cloned();
    let time = |key: &str| note(key)?.parse::<Timestamp>().ok();
    let next = (|| {
        Some(Pair {
            ca: part("next-ca.crt")?,
            certificate: part("next.crt")?,
            key: part("next.key")?,
            issued: time(NEXT_ISSUED)?,
        })
    })();
    Some(Shelf {
        current: Pair {
            ca: part("ca.crt")?,
            certificate: part("tls.crt")?,
            key: part("tls.key")?,
            // One whose age is not known is as old as can be.
            issued: time(ISSUED).unwrap_or(Timestamp::UNIX_EPOCH),
        },
        next,
        retired_ca: part("retired-ca.crt"),
        names: note(NAMES).map_or_else(Vec::new, |names| split(&names)),
    })
}

fn split(names: &str) -> Vec<String> {
    names.split(',').map(str::to_owned).collect()
}

/// The Secret that keeps it, in place of an older version if there is one.
pub(super) fn write(name: &str, shelf: &Shelf, old: Option<&Secret>) -> Secret {
    let mut data = BTreeMap::from([
        ("ca.crt", &shelf.current.ca),
        ("tls.crt", &shelf.current.certificate),
        ("tls.key", &shelf.current.key),
    ]);
    let mut notes = BTreeMap::from([
        (ISSUED.to_owned(), shelf.current.issued.to_string()),
        (NAMES.to_owned(), shelf.names.join(",")),
    ]);
    if let Some(next) = &shelf.next {
        data.extend([
            ("next-ca.crt", &next.ca),
            ("next.crt", &next.certificate),
            ("next.key", &next.key),
        ]);
        notes.insert(NEXT_ISSUED.to_owned(), next.issued.to_string());
    }
    data.extend(shelf.retired_ca.iter().map(|ca| ("retired-ca.crt", ca)));
    let bytes = |(key, value): (&str, &Vec<u8>)| (key.to_owned(), ByteString(value.clone()));
    let label = (OWNER.0.to_owned(), OWNER.1.to_owned());
    let new = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: old.is_none().then(|| BTreeMap::from([label])),
            annotations: Some(notes),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(data.into_iter().map(bytes).collect()),
        ..Secret::default()
    };
    match old {
        Some(old) => written_over(new, old.clone()),
        None => new,
    }
}

#[cfg(test)]
mod tests {
    use super::super::shelf::{Due, Lifetimes};
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let last = Lifetimes::default();
        let names = vec!["a".to_owned(), "b".to_owned()];
        let now = Timestamp::now();
        let mut shelf = Shelf::new(&names, now, last.valid).expect("made");
        for due in [
            Due::Nothing,
            Due::Announce,
            Due::Promote,
            Due::Announce,
            Due::Forget,
        ] {
            shelf = shelf.after(due, &names, now, &last).expect("done");
            let secret = write("s", &shelf, None);
            assert!(is_ours(&secret));
            assert!(read(&secret).is_some_and(|found| found == shelf), "{due:?}");
        }
    }

    fn fresh() -> Shelf {
        let valid = Lifetimes::default().valid;
        Shelf::new(&["a".to_owned()], Timestamp::now(), valid).expect("made")
    }

    #[test]
    fn a_secret_of_somebody_else_is_not_ours() {
        let mut secret = write("s", &fresh(), None);
        secret.metadata.labels = None;
        secret.metadata.annotations = None;
        assert!(!is_ours(&secret));
        assert!(read(&secret).is_some());
        secret.data = None;
        assert!(read(&secret).is_none());
    }

    #[test]
    fn an_empty_one_that_somebody_made_for_us_is_filled_and_keeps_what_they_wrote() {
        let label = || BTreeMap::from([("team".to_owned(), "vms".to_owned())]);
        let empty = Secret {
            metadata: ObjectMeta {
                labels: Some(label()),
                resource_version: Some("7".to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        };
        assert!(is_ours(&empty));
        let filled = write("s", &fresh(), Some(&empty));
        assert_eq!(filled.metadata.labels, Some(label()));
        assert_eq!(filled.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(
            filled.type_.as_deref(),
            Some("Opaque"),
            "it cannot be changed"
        );
        assert!(is_ours(&filled));
    }
}
