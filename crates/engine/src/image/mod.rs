//! The controller of VMImages: brings an image to each provider whose VMs need it, once, however many wait.
//!
//! One pass at a time looks at an image, so N VMs that arrive together cause one import. The state of each provider is kept
//! under that provider's name; a failed import of one never stops another. The states are in [`polyvirt_plan::image_step`].

mod act;
mod pull_secret;
mod report;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use polyvirt_api::infra::{DiskImagePull, VMImage, VMImageStatus, VirtualMachine};
use polyvirt_api::names;
use polyvirt_plan::image;

use crate::cluster::{self, ClusterError, Patch};
use crate::context::Context;
use crate::next::Next;
use crate::runtime::key::{Key, Kind, ObjectKey};
use crate::runtime::vm_index::{Target, provider_of};
use crate::shared::{Protection, Usage, finalizers_patch, protect, status_body, with_finalizer};

/// Brings one image a step further on every provider that needs it.
pub async fn reconcile(ctx: &Context, key: &ObjectKey) -> Next {
    let Some(image) = ctx.stores.images.get(key) else {
        return Next::Idle;
    };
    let pass = ImagePass {
        ctx,
        key: Key::new(Kind::VMImage, key.clone()),
        image,
    };
    match pass.run().await {
        Ok(next) => next,
        Err(error) => Next::after_refusal(&error),
    }
}

struct ImagePass<'a> {
    ctx: &'a Context,
    key: Key,
    image: Arc<VMImage>,
}

impl ImagePass<'_> {
    async fn run(mut self) -> Result<Next, ClusterError> {
        let usage = Usage::of(self.ctx, &Target::Image(self.key.object.clone()));
        let deleting = self.image.metadata.deletion_timestamp.is_some();
        if deleting && usage.count == 0 {
            return self.remove_copies().await;
        }
        let mut current = (*self.image).clone();
        let protection = protect(
            self.ctx,
            &self.key,
            &self.ctx.stores.images,
            &mut current,
            &usage,
        )
        .await?;
        self.image = Arc::new(current);
        let old = self.image.status.clone().unwrap_or_default();
        let mut new = old.clone();
        let mut next = Next::Idle;
        let imports = image::is_import(&self.image.spec.source);
        if imports && !deleting {
            next = self.advance(&mut new).await?;
        }
        report::summarize(self.ctx, &self.image, &mut new, &self.uses());
        if protection == Protection::Blocked {
            report::blocked(self.ctx, &self.image, &mut new, &usage);
        }
        self.write(&old, new).await?;
        Ok(next)
    }

    /// The providers whose VMs use the image. To those whose VMs may not fetch it nothing is brought.
    fn demand(&self) -> BTreeSet<ObjectKey> {
        let in_place = !image::is_import(&self.image.spec.source);
        let users = self.users();
        let fetching = users
            .iter()
            .filter(|vm| in_place || image::wish(vm).pull != DiskImagePull::Never);
        fetching.map(|vm| provider_of(vm)).collect()
    }

    fn users(&self) -> Vec<Arc<VirtualMachine>> {
        let image = Target::Image(self.key.object.clone());
        let users = self.ctx.stores.index.users(&image);
        let vms = users.iter();
        vms.filter_map(|vm| self.ctx.stores.vms.get(vm)).collect()
    }

    /// The same providers, and whether the image must be brought there.
    fn uses(&self) -> Vec<report::Use> {
        let demand = self.demand().into_iter();
        demand
            .map(|provider| report::Use {
                key: self.status_key(&provider),
                imports: polyvirt_plan::image::is_import(&self.meant_on(&provider).source),
                provider: match self.ctx.stores.providers.get(&provider) {
                    Some(_) => report::ProviderObject::There,
                    None => report::ProviderObject::Missing,
                },
            })
            .collect()
    }

    async fn write(&mut self, old: &VMImageStatus, new: VMImageStatus) -> Result<(), ClusterError> {
        if new == *old {
            return Ok(());
        }
        let body = Patch::Status(status_body(&self.key, &new));
        let written: VMImage = cluster::patch(&*self.ctx.cluster, &self.key, body).await?;
        let notes = report::transitions(old, &new);
        let about = cluster::About::of(Kind::VMImage, &*self.image);
        for note in notes {
            self.ctx.cluster.event(&about, note);
        }
        self.keep(written);
        Ok(())
    }

    /// Takes the answer to a write into the cache, and tells whom it concerns: it may bring an edit with it.
    fn keep(&mut self, written: VMImage) {
        let written = crate::runtime::trim::metadata(written);
        if let Some(change) = self.ctx.stores.images.written(written.clone()) {
            self.ctx.observer.image(change);
        }
        self.image = Arc::new(written);
    }

    /// Copies on providers go before the object does. Until there is a copy the object carries no mark of this.
    async fn remove_copies(&self) -> Result<Next, ClusterError> {
        if !self.delete_copies().await {
            return Ok(Next::After(Duration::from_secs(30)));
        }
        let ours = [names::IMAGE_FINALIZER, names::IN_USE_FINALIZER];
        let list = self.image.metadata.finalizers.clone().unwrap_or_default();
        let keep: Vec<_> = list
            .iter()
            .filter(|f| !ours.contains(&f.as_str()))
            .cloned()
            .collect();
        if keep.len() == list.len() {
            return Ok(Next::Idle);
        }
        self.patch_finalizers(&keep).await?;
        Ok(Next::Idle)
    }

    async fn patch_finalizers(&self, finalizers: &[String]) -> Result<VMImage, ClusterError> {
        let patch = finalizers_patch(&*self.image, finalizers);
        let written = cluster::patch(&*self.ctx.cluster, &self.key, patch).await;
        match written {
            Err(ClusterError::NotFound) => Ok((*self.image).clone()),
            other => other,
        }
    }

    /// Before the first copy is made, the object is marked, so that it cannot go without its copies.
    async fn mark(&mut self) -> Result<(), ClusterError> {
        let mut list = self.image.metadata.finalizers.iter().flatten();
        if list.any(|f| f == names::IMAGE_FINALIZER) {
            return Ok(());
        }
        let marked = with_finalizer(&*self.image, names::IMAGE_FINALIZER);
        let written = self.patch_finalizers(&marked).await?;
        self.keep(written);
        Ok(())
    }
}
