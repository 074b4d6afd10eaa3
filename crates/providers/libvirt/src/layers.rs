//! Layers that linked clones share with their source.
//!
//! ```text
//!   image ◄── layer ◄── the source's disk from now on
//!                └───── the clone's disk
//! ```
//!
//! Chains stay short. A source that was not written to since its last clone gives the same layer again, and one above many layers
//! is copied whole before it gives another: no disk is ever above more than [`MOST_LAYERS`] and its image.

use std::sync::Arc;

use polyvirt_contract::Result;

use crate::clone::{Pair, volume_at};
use crate::core::{Core, Vm};
use crate::domain::{Marks, disk, edit};
use crate::rpc::{Domain, Session, flags};
use crate::storage::{self, Pool};
use crate::xml::parse;
use crate::{create, errors, remove};

/// Layers between a disk and its image.
pub(crate) const MOST_LAYERS: usize = 8;

/// Makes the clone's first disk above a layer of the source, and tells in the marks of both what they stand upon. Cut short
/// anywhere, nothing is lost.
pub(crate) async fn link(
    core: &Arc<Core>,
    session: &Session,
    source: &Arc<Vm>,
    marks: &mut Marks,
    root: &Pair,
) -> Result<()> {
    let snapshots = source.state().snapshots.unwrap_or_default();
    if !snapshots.is_empty() {
        let message = "The source has snapshots, which a layer would take along; delete them, or ask for a full clone";
        return Err(errors::precondition(message));
    }
    let layers = Layers {
        core,
        session,
        source,
        pool: &root.pool,
    };
    let theirs = layers.settled(root.from.clone()).await?;
    let below = theirs.bases.last().cloned().unwrap_or_default();
    marks.bases.clone_from(&theirs.bases);
    marks.image.clone_from(&theirs.image);
    let clone = storage::owner_of(&root.volume).unwrap_or(source.uuid);
    // Written down before it is used, so that nobody removes the layer in between.
    create::set_marks(core, clone, marks, flags::CONFIG).await?;
    core.look(&core.entry(clone)).await?;
    let below = root.pool.path(&below);
    let bytes = layers.bytes(&below).await?;
    let (pool, volume) = (&root.pool, &root.volume);
    pool.overlay(session, volume, &below, bytes).await
}

/// The source of a clone, which is off and held.
struct Layers<'a> {
    core: &'a Arc<Core>,
    session: &'a Session,
    source: &'a Arc<Vm>,
    pool: &'a Pool,
}

impl Layers<'_> {
    /// The marks of the source when the last of its layers has all that was ever written to its disk.
    async fn settled(&self, top: String) -> Result<Marks> {
        let marks = self.source.config()?.marks.unwrap_or_default();
        if self.is_untouched(&marks, &top).await? {
            return Ok(marks);
        }
        if marks.bases.len() < MOST_LAYERS {
            return self.goes_on_above(marks, &top).await;
        }
        let (marks, top) = self.stands_alone(marks, &top).await?;
        self.goes_on_above(marks, &top).await
    }

    async fn is_untouched(&self, marks: &Marks, top: &str) -> Result<bool> {
        if marks.fresh.is_empty() || marks.bases.is_empty() {
            return Ok(false);
        }
        Ok(self.changed(top).await? == marks.fresh)
    }

    async fn changed(&self, path: &str) -> Result<String> {
        let volume = volume_at(self.session, path).await?;
        Ok(storage::facts(self.session, &volume).await?.changed)
    }

    async fn bytes(&self, path: &str) -> Result<u64> {
        let volume = volume_at(self.session, path).await?;
        Ok(storage::facts(self.session, &volume).await?.capacity)
    }

    /// The disk becomes a layer, and the source goes on in a new one above it.
    async fn goes_on_above(&self, mut marks: Marks, top: &str) -> Result<Marks> {
        let layer = volume_at(self.session, top).await?;
        let above = self.free_name(&marks, &layer.name);
        let bytes = self.bytes(top).await?;
        self.pool.overlay(self.session, &above, top, bytes).await?;
        let above = self.pool.path(&above);
        marks.bases.push(layer.name);
        marks.fresh = self.changed(&above).await?;
        self.uses(&above, &marks).await?;
        Ok(marks)
    }

    /// The source goes on in a copy that stands upon nothing. Its layers are left to the clones that need them.
    async fn stands_alone(&self, mut marks: Marks, top: &str) -> Result<(Marks, String)> {
        let old = volume_at(self.session, top).await?;
        let copy = self.free_name(&marks, &old.name);
        self.pool.copy(self.session, &copy, &old).await?;
        let copy = self.pool.path(&copy);
        marks.bases.clear();
        marks.image.clear();
        marks.fresh.clear();
        self.uses(&copy, &marks).await?;
        self.session.delete_volume(&old).await?;
        Ok((marks, copy))
    }

    async fn uses(&self, path: &str, marks: &Marks) -> Result<()> {
        let stored = flags::INACTIVE | flags::SECURE;
        let domain = Domain::of(self.source.uuid);
        let mut document = parse(&self.session.xml(&domain, stored).await?)?;
        edit::move_disk(&mut document.root, disk::ROOT, path);
        marks.put(&mut document.root);
        self.session.define(&document.to_string()).await?;
        self.core.look(self.source).await.map(drop)
    }

    /// A name for another disk of the source that nobody needs under that name. One that is there was left half made.
    fn free_name(&self, marks: &Marks, top: &str) -> String {
        let uuid = self.source.uuid;
        let others = remove::bases_of_others(self.core, uuid);
        let free =
            |name: &String| name != top && !others.contains(name) && !marks.bases.contains(name);
        let names = (1_u32..).map(|number| storage::name(uuid, &format!("root-{number}.qcow2")));
        let mut free = names.filter(free);
        free.next().unwrap_or_default()
    }
}
