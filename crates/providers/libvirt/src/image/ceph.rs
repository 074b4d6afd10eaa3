//! Images in Ceph, which nobody but an administrator brings there.

use polyvirt_contract::model::ImageSource;
use polyvirt_contract::{ProviderError, Result};

use crate::rpc::{Session, Volume};
use crate::storage::Pool;

/// An image that lies in the pool already. libvirt brings none into Ceph.
pub(crate) async fn within(session: &Session, image: &ImageSource, pool: &Pool) -> Result<Volume> {
    let (named, name) = image.path.split_once('/').unwrap_or_default();
    let found = if named == pool.name() {
        pool.find(session, name).await?
    } else {
        session
            .volume_at(&image.path)
            .await?
            .filter(|volume| volume.pool == pool.name())
    };
    found.ok_or_else(|| {
        let message = format!(
            "libvirt cannot bring an image into the storage pool {pool}, which is Ceph's; put it there (rbd import) as raw, and name it as {pool}/its-name",
            pool = pool.name()
        );
        ProviderError::invalid("spec.imageRef", message)
    })
}
