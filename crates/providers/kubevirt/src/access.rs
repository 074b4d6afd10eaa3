//! Which claims, snapshots and DataSources a disk may be a copy of.
//!
//! CDI asks whether the account that wants a copy may have it, and that account is ours, whoever wrote the VM. So it is asked here
//! in whose name the copy is made. What is in the namespace of that reader is its own. What is in another one must be shared by whoever
//! may write there: by the annotation `polyvirt.io/clone-to` with the names of namespaces, or `*` for all, on the object or on its
//! Namespace.
//!
//! Names of namespaces are those of this cluster. An endpoint with `namespace=` keeps the VMs of many in one: there the marks of claims
//! tell whose they are, and the names are those of the objects that VMs were made of.

use kube::core::DynamicObject;
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_disks::fetch::refuse_inside;

use crate::image::IMAGE;
use crate::kinds::{Kind, OWNER_NAMESPACE, VmKey, annotation, label, text};
use crate::map::layout::Source;
use crate::vm::Core;
use crate::{errors, proof};

/// Annotation: the namespaces that may copy the object, or all objects of the Namespace that has it.
const CLONE_TO: &str = "polyvirt.io/clone-to";
/// How many DataSources may point to one another.
const POINTERS: usize = 4;

/// In whose name something is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reader {
    /// Where its VMs and claims are in this cluster.
    home: String,
    /// The namespace of its object.
    namespace: String,
    /// Whether the home is that of others too.
    rooms: Rooms,
}

/// Who lives in a namespace of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rooms {
    /// Objects of one namespace.
    Own,
    /// Those of all that use the Provider.
    Shared,
}

impl Reader {
    /// An object of that namespace; `only` is the one namespace that the endpoint names.
    pub(crate) fn new(namespace: &str, only: Option<&str>) -> Self {
        Self {
            home: only.unwrap_or(namespace).to_owned(),
            namespace: namespace.to_owned(),
            rooms: only.map_or(Rooms::Own, |_| Rooms::Shared),
        }
    }

    /// Where it finds what it names without a namespace.
    pub(crate) fn home(&self) -> &str {
        &self.home
    }

    fn is_alone_in(&self, namespace: &str) -> bool {
        self.rooms == Rooms::Own && self.home == namespace && !namespace.is_empty()
    }

    /// Who must be named to share this with the reader; `None` if it is the reader's already.
    fn stranger(&self, kind: Kind, key: &VmKey, found: &[DynamicObject]) -> Option<&str> {
        if self.is_alone_in(&key.namespace) {
            return None;
        }
        if self.home != key.namespace {
            return Some(&self.home);
        }
        let marks = found.iter().filter_map(|o| annotation(o, OWNER_NAMESPACE));
        let marks: Vec<_> = marks.collect();
        // KubeVirt makes VolumeSnapshots of everybody's disks and marks none.
        let unmarked = marks.is_empty() && kind == Kind::VolumeSnapshot;
        let own = !unmarked && marks.iter().all(|mark| *mark == self.namespace);
        (!own).then_some(&*self.namespace)
    }
}

/// The source, if the reader may have a copy of it. A DataSource becomes what it points to, so that what is copied is what was
/// looked at.
pub(crate) async fn granted(core: &Core, reader: &Reader, source: &Source) -> Result<Source> {
    let mut source = source.clone();
    for _ in 0..POINTERS {
        let Source::Pointer(key) = &source else {
            return copied(core, reader, source).await;
        };
        let target = followed(core, reader, key).await?;
        // What is beside a DataSource that may be used was meant by whoever made it.
        if target.1.namespace == key.namespace && target.0 != Kind::DataSource {
            return Ok(as_source(target));
        }
        source = as_source(target);
    }
    Err(errors::precondition(
        "The DataSource points to DataSources only; let it point to a claim",
    ))
}

async fn copied(core: &Core, reader: &Reader, source: Source) -> Result<Source> {
    match &source {
        Source::Claim(key) => may_copy(core, reader, Kind::Claim, key).await?,
        Source::Snapshot(key) => may_copy(core, reader, Kind::VolumeSnapshot, key).await?,
        other => may_ask(core, other).await?,
    }
    Ok(source)
}

/// Refuses a server that CDI is not to ask. It looks names up by itself and follows redirects, so this keeps out addresses, and
/// names that lead inside wherever they are looked up; the rest is for a NetworkPolicy.
pub(crate) async fn may_ask(core: &Core, source: &Source) -> Result<()> {
    let address = match source {
        Source::Http { url, .. } => url.clone(),
        Source::Registry { url } if url.starts_with("docker://") => url.clone(),
        // Its host is the server, as far as CDI goes.
        Source::S3 { url } => url.replacen("s3://", "https://", 1),
        _ => return Ok(()),
    };
    let asked = refuse_inside(core.images.hosts, &address).await;
    asked.map_err(|error| proof::told(&error))
}

/// Where a DataSource leads that the reader may use.
async fn followed(core: &Core, reader: &Reader, key: &VmKey) -> Result<(Kind, VmKey)> {
    may_copy(core, reader, Kind::DataSource, key).await?;
    let found = core.cluster.get(Kind::DataSource, key).await?;
    found.and_then(|found| target(&found, key)).ok_or_else(|| {
        let message =
            format!("There is no DataSource {key} that points to a disk; it is tried again");
        errors::precondition(message)
    })
}

fn target(pointer: &DynamicObject, key: &VmKey) -> Option<(Kind, VmKey)> {
    let of = |word: &str| {
        let at = |field: &str| text(&pointer.data, &format!("/spec/source/{word}/{field}"));
        let namespace = Some(at("namespace")).filter(|text| !text.is_empty());
        let name = Some(at("name")).filter(|text| !text.is_empty())?;
        Some(VmKey::new(namespace.unwrap_or(&key.namespace), name))
    };
    [
        ("pvc", Kind::Claim),
        ("snapshot", Kind::VolumeSnapshot),
        ("dataSource", Kind::DataSource),
    ]
    .into_iter()
    .find_map(|(word, kind)| Some((kind, of(word)?)))
}

fn as_source((kind, key): (Kind, VmKey)) -> Source {
    match kind {
        Kind::VolumeSnapshot => Source::Snapshot(key),
        Kind::DataSource => Source::Pointer(key),
        _ => Source::Claim(key),
    }
}

/// Refuses what the reader may not copy. Whether it is there at all is told to nobody else.
pub(crate) async fn may_copy(core: &Core, reader: &Reader, kind: Kind, key: &VmKey) -> Result<()> {
    if reader.is_alone_in(&key.namespace) {
        return Ok(());
    }
    let found = marked(core, kind, key).await?;
    if is_fetched(core, key, &found) {
        return Ok(());
    }
    let Some(name) = reader.stranger(kind, key, &found) else {
        return Ok(());
    };
    if !found.is_empty() && shares(core, key, &found, name).await? {
        return Ok(());
    }
    Err(unshared(kind, key, name))
}

/// The objects that tell whose it is: a claim, and the DataVolume that it was made for.
async fn marked(core: &Core, kind: Kind, key: &VmKey) -> Result<Vec<DynamicObject>> {
    let mut found: Vec<_> = core.cluster.get(kind, key).await?.into_iter().collect();
    if kind == Kind::Claim {
        found.extend(visible(core.cluster.get(Kind::DataVolume, key).await)?);
    }
    Ok(found)
}

/// What we may not see tells nothing.
fn visible(answer: Result<Option<DynamicObject>>) -> Result<Option<DynamicObject>> {
    match answer {
        Err(error) if error.kind == ErrorKind::PermissionDenied => Ok(None),
        answer => answer,
    }
}

/// Whether it is an image that was fetched here, for whoever names its address.
fn is_fetched(core: &Core, key: &VmKey, found: &[DynamicObject]) -> bool {
    key.namespace == core.images.namespace && found.iter().any(|o| label(o, IMAGE).is_some())
}

async fn shares(core: &Core, key: &VmKey, found: &[DynamicObject], name: &str) -> Result<bool> {
    if found.iter().any(|object| names(object, name)) {
        return Ok(true);
    }
    let whole = core.cluster.get_global(Kind::Namespace, &key.namespace);
    let whole = visible(whole.await)?;
    Ok(whole.is_some_and(|whole| names(&whole, name)))
}

fn names(object: &DynamicObject, name: &str) -> bool {
    let words = annotation(object, CLONE_TO).unwrap_or_default().split(',');
    let mut words = words.map(str::trim).filter(|word| !word.is_empty());
    words.any(|word| word == name || word == "*")
}

fn unshared(kind: Kind, key: &VmKey, name: &str) -> ProviderError {
    let message = format!(
        "There is no {} {key}, or it is not shared with namespace {name}. Have its owner set the annotation {CLONE_TO}: {name} on it or on its Namespace, or use a VMImage that its owner makes of it; it is tried again",
        kind.name()
    );
    errors::precondition(message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(annotations: &Value) -> DynamicObject {
        let object = json!({"metadata": {"name": "golden", "annotations": annotations}});
        serde_json::from_value(object).expect("an object")
    }

    #[test]
    fn an_owner_shares_by_names() {
        for (words, shared) in [
            ("team", true),
            ("a, team ,b", true),
            ("*", true),
            ("", false),
            ("teams,tea", false),
            ("a,*", true),
        ] {
            let object = object(&json!({CLONE_TO: words}));
            assert_eq!(names(&object, "team"), shared, "{words}");
        }
        assert!(!names(&object(&json!({})), "team"));
        assert!(!names(&object(&json!({CLONE_TO: "a,,b"})), ""), "nobody");
    }

    #[test]
    fn a_reader_is_at_home_in_one_namespace() {
        let own = Reader::new("team", None);
        let shared = Reader::new("team", Some("vms"));
        let marked = |by: &str| vec![object(&json!({OWNER_NAMESPACE: by}))];
        let bare = || vec![object(&json!({}))];
        for (reader, kind, place, found, stranger) in [
            (&own, Kind::Claim, "team", marked("before"), None),
            (&own, Kind::Claim, "other", bare(), Some("team")),
            (&own, Kind::Claim, "other", marked("team"), Some("team")),
            (&shared, Kind::Claim, "vms", bare(), None),
            (&shared, Kind::Claim, "vms", marked("team"), None),
            (&shared, Kind::Claim, "vms", marked("other"), Some("team")),
            (&shared, Kind::Claim, "team", bare(), Some("vms")),
            (&shared, Kind::VolumeSnapshot, "vms", bare(), Some("team")),
        ] {
            let key = VmKey::new(place, "golden");
            let found = reader.stranger(kind, &key, &found);
            assert_eq!(found, stranger, "{reader:?} {kind:?} {place}");
        }
    }

    #[test]
    fn a_data_source_points_to_one_thing() {
        let key = VmKey::new("images", "debian");
        let pointer = |source: Value| {
            let mut object = object(&json!({}));
            object.data = json!({"spec": {"source": source}});
            target(&object, &key)
        };
        let claim = (Kind::Claim, VmKey::new("images", "x"));
        assert_eq!(pointer(json!({"pvc": {"name": "x"}})), Some(claim));
        let snapshot = (Kind::VolumeSnapshot, VmKey::new("b", "x"));
        let there = json!({"snapshot": {"name": "x", "namespace": "b"}});
        assert_eq!(pointer(there), Some(snapshot));
        assert_eq!(pointer(json!({})), None);
    }
}
