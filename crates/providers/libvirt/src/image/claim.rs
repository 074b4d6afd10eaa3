//! Images that are being made. A small volume beside each says by whom, before anything else of it is there, and goes last:
//!
//! ```text
//!   claim ─► (upload ─►) volume ─► mark ─► claim goes            whole
//!     └─────────┴──────────┴─► all that is there goes, claim last        cut short, in this life or the next
//! ```
//!
//! So whatever is cut, nothing is left in a pool once libvirt can be asked again, and what another provider makes there is left
//! to it.

use polyvirt_contract::Result;
use polyvirt_provider_kit::uuid::hex;
use sha2::{Digest as _, Sha256};
use tokio::sync::OwnedMutexGuard;

use super::{mark_of, part_of, volume_of};
use crate::core::Core;
use crate::rpc::Session;
use crate::storage::Pool;

/// An image of ours that is not whole.
pub(super) struct Claim<'a> {
    core: &'a Core,
    pool: &'a Pool,
    id: &'a str,
}

/// How names of our claims end. A provider without a name is the one that was here before.
fn ending(core: &Core) -> String {
    let digest = Sha256::digest(core.config.instance.as_bytes());
    format!(".by-{}", hex(&digest[..4]))
}

impl<'a> Claim<'a> {
    pub(super) const fn new(core: &'a Core, pool: &'a Pool, id: &'a str) -> Self {
        Self { core, pool, id }
    }

    fn key(&self) -> String {
        format!("{}/{}", self.pool.name(), self.id)
    }

    fn volume(&self) -> String {
        format!("{}{}", self.id, ending(self.core))
    }

    /// Waits until nobody of this provider is at it.
    pub(super) async fn turn(&self) -> OwnedMutexGuard<()> {
        self.core.images.wait(&self.key()).await
    }

    pub(super) async fn put(&self, session: &Session) -> Result<()> {
        self.pool.write(session, &self.volume(), &[0; 512]).await
    }

    /// Takes the claim away, and all that is not whole. If libvirt cannot be asked now, the next session does it.
    pub(super) async fn settle(&self) {
        let settled = async { self.clear(&self.core.session().await?).await };
        if let Err(error) = settled.await {
            tracing::warn!(image = self.id, pool = self.pool.name(), %error, "Half an image is left for the next session to remove");
        }
    }

    /// Removes an image that is whole.
    pub(super) async fn unmake(&self, session: &Session) -> Result<()> {
        let _alone = self.turn().await;
        self.put(session).await?;
        self.pool.remove(session, &mark_of(self.id)).await?;
        self.clear(session).await
    }

    async fn clear(&self, session: &Session) -> Result<()> {
        let is_whole = self.pool.find(session, &mark_of(self.id)).await?.is_some();
        self.pool.remove(session, &part_of(self.id)).await?;
        if !is_whole {
            self.pool.remove(session, &volume_of(self.id)).await?;
        }
        self.pool.remove(session, &self.volume()).await
    }
}

/// Removes what an earlier session or an earlier life has left half made.
pub(crate) async fn sweep(core: &Core) -> Result<()> {
    let session = core.session().await?;
    let ending = ending(core);
    for pool in Pool::all(&session).await? {
        for volume in pool.list(&session).await? {
            let Some(id) = volume.name.strip_suffix(&ending) else {
                continue;
            };
            let claim = Claim::new(core, &pool, id);
            // Somebody who is at it clears up by himself.
            if let Some(_alone) = core.images.now(&claim.key()) {
                tracing::info!(image = id, pool = pool.name(), "Removing half an image");
                claim.clear(&session).await?;
            }
        }
    }
    Ok(())
}
