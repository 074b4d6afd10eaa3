//! Images that are being made. A small volume beside each says by whom, before anything else of it is there, and goes last:
//!
//! ```text
//!   claim ─► (upload ─►) volume ─► mark ─► claim goes            whole
//!     └─────────┴──────────┴─► all that is there goes, claim last        cut short, in this life or the next
//! ```
//!
//! So whatever is cut, nothing is left in a pool once libvirt can be asked again, and what another provider makes there is left
//! to it.
//!
//! What libvirt knows of a pool is not believed after a cut: whenever an upload ends, whole or not, it forgets all volumes and
//! reads the pool anew in a thread of its own, and where that fails, half way or altogether, volumes are there that it does not
//! show. So it is told to look again first, and what could not be cleared is tried again until it is.

use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::Result;
use polyvirt_provider_kit::uuid::hex;
use sha2::{Digest as _, Sha256};
use tokio::sync::OwnedMutexGuard;

use super::versions::notes_of;
use super::{mark_of, part_of, volume_of};
use crate::core::Core;
use crate::rpc::Session;
use crate::storage::Pool;

/// Pauses before what is left is cleared away again: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// The turn of whoever does that. No pool has this name.
const SWEEPER: &str = "";

/// An image of ours that is not whole.
pub(super) struct Claim<'a> {
    core: &'a Arc<Core>,
    pool: &'a Pool,
    id: &'a str,
}

/// How names of our claims end. A provider without a name is the one that was here before.
fn ending(core: &Core) -> String {
    let digest = Sha256::digest(core.config.instance.as_bytes());
    format!(".by-{}", hex(&digest[..4]))
}

impl<'a> Claim<'a> {
    pub(super) const fn new(core: &'a Arc<Core>, pool: &'a Pool, id: &'a str) -> Self {
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

    /// Takes the claim away, and all that is not whole: now, or as soon as libvirt can be asked.
    pub(super) async fn settle(&self) {
        if let Err(error) = self.settle_now().await {
            tracing::warn!(image = self.id, pool = self.pool.name(), %error, "Half an image is left, to be removed later");
            sweep_later(self.core);
        }
    }

    async fn settle_now(&self) -> Result<()> {
        let session = self.core.session().await?;
        if self.is_whole(&session).await? {
            return self.clear(&session).await;
        }
        let seen = self.pool.refresh(&session).await;
        self.clear(&session).await?;
        seen
    }

    /// Removes an image that is whole.
    pub(super) async fn unmake(&self, session: &Session) -> Result<()> {
        let _alone = self.turn().await;
        self.put(session).await?;
        self.pool.remove(session, &mark_of(self.id)).await?;
        self.clear(session).await
    }

    /// Removes what is left of an image whose removal was cut short. Whether there was anything.
    pub(super) async fn finish(&self, session: &Session) -> Result<bool> {
        let _alone = self.turn().await;
        let begun = self.pool.find(session, &self.volume()).await?.is_some();
        if begun {
            self.clear(session).await?;
        }
        Ok(begun)
    }

    async fn is_whole(&self, session: &Session) -> Result<bool> {
        Ok(self.pool.find(session, &mark_of(self.id)).await?.is_some())
    }

    async fn clear(&self, session: &Session) -> Result<()> {
        let is_whole = self.is_whole(session).await?;
        self.pool.remove(session, &part_of(self.id)).await?;
        if !is_whole {
            self.forget_version(session).await?;
            self.pool.remove(session, &volume_of(self.id)).await?;
        }
        self.pool.remove(session, &self.volume()).await
    }

    async fn forget_version(&self, session: &Session) -> Result<()> {
        let begins = notes_of(self.id);
        for volume in self.pool.list(session).await? {
            if volume.name.starts_with(&begins) {
                self.pool.remove(session, &volume.name).await?;
            }
        }
        Ok(())
    }
}

/// Removes what an earlier session or an earlier life has left half made. What cannot be removed now is tried again.
pub(crate) async fn sweep(core: &Arc<Core>) {
    if let Err(error) = sweep_once(core).await {
        tracing::debug!(%error, "Not all pools could be looked at for half images");
        sweep_later(core);
    }
}

/// The number of images that somebody is at, who clears up by himself.
async fn sweep_once(core: &Arc<Core>) -> Result<usize> {
    let session = core.session().await?;
    let mut busy = 0;
    for pool in Pool::all(&session).await? {
        for volume in pool.list(&session).await? {
            let Some(id) = volume.name.strip_suffix(&ending(core)) else {
                continue;
            };
            let claim = Claim::new(core, &pool, id);
            let Some(_alone) = core.images.now(&claim.key()) else {
                busy += 1;
                continue;
            };
            tracing::info!(image = id, pool = pool.name(), "Removing half an image");
            // Its mark might be there and not shown.
            pool.refresh(&session).await?;
            claim.clear(&session).await?;
        }
    }
    Ok(busy)
}

/// Sweeps until nothing is left, unless somebody does already.
fn sweep_later(core: &Arc<Core>) {
    let Some(alone) = core.images.now(SWEEPER) else {
        return;
    };
    let (stop, core) = (core.stop.clone(), core.clone());
    tokio::spawn(async move {
        let _alone = alone;
        tokio::select! {
            () = stop.cancelled() => {}
            () = keep_sweeping(&core) => {}
        }
    });
}

async fn keep_sweeping(core: &Arc<Core>) {
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        let swept = async {
            look_again(core).await?;
            sweep_once(core).await
        };
        match swept.await {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "Half an image may be left still"),
        }
    }
}

async fn look_again(core: &Core) -> Result<()> {
    let session = core.session().await?;
    for pool in Pool::all(&session).await? {
        pool.refresh(&session).await?;
    }
    Ok(())
}
