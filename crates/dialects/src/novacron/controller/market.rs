//! The catalogue of images, read when it is needed and not more often than every half minute.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use polyvirt_api::infra::VMImage;
use polyvirt_api::novacron::MARKETPLACE_LABEL;
use polyvirt_engine::cluster::ClusterError;
use polyvirt_engine::context::Stores;
use polyvirt_engine::runtime::key::ObjectKey;

use crate::novacron::catalogue::{Catalogue, look_up};
use crate::novacron::lower::Offer;
use crate::shared::desk::Desk;

/// How long what was read is good.
const FRESH: Duration = Duration::from_secs(30);

/// The catalogue as it was read last.
#[derive(Default)]
pub(super) struct Market {
    read: Mutex<Option<(Instant, Arc<Catalogue>)>>,
}

impl Market {
    /// The catalogue; an empty one if there is none, or if it may not be read.
    pub async fn catalogue(
        &self,
        desk: &Desk,
        place: &ObjectKey,
    ) -> Result<Arc<Catalogue>, ClusterError> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let found = match desk.config_map(place).await {
            Ok(found) => found.unwrap_or_default(),
            Err(ClusterError::Forbidden(why)) => {
                tracing::warn!(why, "the image catalogue may not be read");
                Catalogue::new()
            }
            Err(error) => return Err(error),
        };
        let found = Arc::new(found);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        *read = Some((Instant::now(), found.clone()));
        Ok(found)
    }

    fn known(&self) -> Option<Arc<Catalogue>> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let (when, known) = read.as_ref()?;
        (when.elapsed() < FRESH).then(|| known.clone())
    }
}

/// What a name stands for: an image with that label, an image of that name, an entry of the catalogue.
pub(super) fn offer(
    stores: &Stores,
    catalogue: &Catalogue,
    namespace: &str,
    name: &str,
) -> Option<Offer> {
    if let Some(image) = labelled(stores, namespace, name) {
        return Some(Offer::Image(image));
    }
    if stores
        .images
        .get(&ObjectKey::new(namespace, name))
        .is_some()
    {
        return Some(Offer::Image(name.to_owned()));
    }
    Some(match look_up(catalogue, name)? {
        Ok(http) => Offer::Download(Box::new(http)),
        Err(bad) => Offer::Bad(bad.to_string()),
    })
}

/// The first by name, so that it is always the same.
fn labelled(stores: &Stores, namespace: &str, name: &str) -> Option<String> {
    let all = stores.images.list();
    let near = |image: &&Arc<VMImage>| image.metadata.namespace.as_deref() == Some(namespace);
    let says = |image: &&Arc<VMImage>| {
        let labels = image.metadata.labels.as_ref();
        labels
            .and_then(|l| l.get(MARKETPLACE_LABEL))
            .is_some_and(|l| l == name)
    };
    let names = all.iter().filter(near).filter(says);
    names.filter_map(|image| image.metadata.name.clone()).min()
}
