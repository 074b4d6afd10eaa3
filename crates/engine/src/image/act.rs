//! One image on one provider: the step against the provider.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kube::ResourceExt as _;
use polyvirt_api::infra::{
    DiskImagePull, HttpAuthentication, ImageProviderStatus, VMImageSpec, VMImageStatus,
    VirtualMachine,
};
use polyvirt_contract::model::{ImageIdentity, ImageOrigin, Owner, PrepareImage, Pull};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{ErrorKind, Extension, ProviderError, TaskId};
use polyvirt_plan::image::{self, Wanted, prepare_request, provider_key, source_digest, spec_on};
use polyvirt_plan::image_step::{self, Failure, ImageStep, image_step};
use polyvirt_plan::{Note, Reason};

use super::{ImagePass, pull_secret};
use crate::cluster::{About, ClusterError};
use crate::link::{Standing, View};
use crate::next::Next;
use crate::runtime::key::{Kind, ObjectKey};
use crate::runtime::vm_index::provider_of;

/// How often an import is asked for; it is long work, and the stream tells its end where there is one.
const TASK_RECHECK: Duration = Duration::from_secs(5);

/// The watch tells of Secrets; this is for an API server that could not be asked.
const SECRET_RECHECK: Duration = Duration::from_secs(60);

impl ImagePass<'_> {
    /// One step on every provider that needs the image, side by side: a slow one holds nobody up.
    pub(super) async fn advance(
        &mut self,
        status: &mut VMImageStatus,
    ) -> Result<Next, ClusterError> {
        let demand: Vec<_> = self
            .demand()
            .into_iter()
            .filter(|p| self.needs_work(p, status))
            .collect();
        if demand.is_empty() {
            return Ok(Next::Idle);
        }
        self.mark().await?;
        let this = &*self;
        let steps = demand.iter().map(|provider| {
            let key = Self::status_key(provider);
            let on = status.provider_status.get(&key).cloned();
            async move { (provider, key, this.step(provider, on).await) }
        });
        let results = join_all(steps).await;
        let mut soonest = None::<Duration>;
        for (provider, key, (entry, recheck)) in results {
            if let Some(entry) = entry {
                let entry = self.identified(provider, entry);
                status.provider_status.insert(key, entry);
            }
            soonest = [soonest, recheck].into_iter().flatten().min();
        }
        Ok(soonest.map_or(Next::Idle, Next::After))
    }

    /// The entry with the Provider and the source that it is about.
    fn identified(&self, provider: &ObjectKey, entry: ImageProviderStatus) -> ImageProviderStatus {
        let object = self.ctx.stores.providers.get(provider);
        ImageProviderStatus {
            provider_uid: object.and_then(|p| p.metadata.uid.clone()),
            source_digest: Some(source_digest(&self.meant_on(provider).source)),
            ..entry
        }
    }

    pub(super) fn status_key(provider: &ObjectKey) -> String {
        provider_key(provider.namespace(), provider.name())
    }

    fn needs_work(&self, provider: &ObjectKey, status: &VMImageStatus) -> bool {
        let Some(view) = self.connected(provider) else {
            return false;
        };
        let on = status.provider_status.get(&Self::status_key(provider));
        let (waiting, spec) = (self.waiting(provider), self.meant_on(provider));
        self.next(&spec, &view, on, &wanted(&waiting)) != ImageStep::Nothing
    }

    /// What the image means on that provider: an image may have a source for each kind.
    pub(super) fn meant_on(&self, provider: &ObjectKey) -> VMImageSpec {
        let provider = self.ctx.stores.providers.get(provider);
        spec_on(&self.image.spec, provider.map(|p| p.spec.type_))
    }

    fn next(
        &self,
        spec: &VMImageSpec,
        view: &View,
        on: Option<&ImageProviderStatus>,
        wanted: &Wanted<'_>,
    ) -> ImageStep {
        image_step(spec, on, &view.capabilities, wanted, self.ctx.now())
    }

    /// VMs that are not made yet and may have it fetched.
    fn waiting(&self, provider: &ObjectKey) -> Vec<Arc<VirtualMachine>> {
        let mut users = self.users();
        users.retain(|vm| {
            let made = vm.status.as_ref().is_some_and(|s| s.id.is_some());
            !made && provider_of(vm) == *provider && image::wish(vm).pull != DiskImagePull::Never
        });
        users
    }

    fn connected(&self, provider: &ObjectKey) -> Option<View> {
        let view = self.ctx.links.get(provider)?.view();
        matches!(view.standing, Standing::Connected { .. }).then_some(view)
    }

    async fn step(
        &self,
        provider: &ObjectKey,
        on: Option<ImageProviderStatus>,
    ) -> (Option<ImageProviderStatus>, Option<Duration>) {
        let Some(view) = self.connected(provider) else {
            return (None, None);
        };
        let (waiting, spec) = (self.waiting(provider), self.meant_on(provider));
        let wanted = wanted(&waiting);
        match self.next(&spec, &view, on.as_ref(), &wanted) {
            ImageStep::Nothing => (None, None),
            ImageStep::RetryAfter(rest) => (None, Some(rest)),
            ImageStep::Prepare => self.prepare(&spec, &view, on.as_ref(), &wanted).await,
            ImageStep::Check(task) => self.check(provider, &view, on, task, &wanted).await,
            ImageStep::TimedOut => self.fail(
                &spec,
                on.as_ref(),
                &Failure::Passing("The import took longer than spec.prepare.timeout"),
            ),
        }
    }

    async fn prepare(
        &self,
        spec: &VMImageSpec,
        view: &View,
        on: Option<&ImageProviderStatus>,
        wanted: &Wanted<'_>,
    ) -> (Option<ImageProviderStatus>, Option<Duration>) {
        let Some(provider) = &view.provider else {
            return (None, None);
        };
        let request = match self.request(spec).await {
            Ok(request) => PrepareImage {
                pull: wanted.pull(),
                identity: self.identity(spec),
                ..request
            },
            Err(why) => {
                let entry = image_step::blocked(spec, on, &why, self.ctx.now());
                return (Some(entry), Some(SECRET_RECHECK));
            }
        };
        match provider.image_prepare(request).await {
            Ok(answer) => {
                let entry = image_step::prepared(spec, on, &answer, wanted, self.ctx.now());
                let recheck = answer.task.is_some().then_some(TASK_RECHECK);
                (Some(entry), recheck)
            }
            Err(error) => self.provider_failed(spec, on, &error),
        }
    }

    /// What tells the image from all others, for peers that go by it.
    fn identity(&self, spec: &VMImageSpec) -> Option<ImageIdentity> {
        let uid = self.image.metadata.uid.clone()?;
        Some(ImageIdentity {
            image: Owner {
                identity: uid.into(),
                namespace: self.key.object.namespace().to_owned(),
                name: self.key.object.name().to_owned(),
            },
            source_digest: source_digest(&spec.source),
        })
    }

    async fn request(&self, spec: &VMImageSpec) -> Result<PrepareImage, String> {
        let key = &self.key.object;
        let request = prepare_request(key.namespace(), key.name(), spec);
        let mut request = request.map_err(|p| p.to_string())?;
        let auth = spec
            .source
            .http
            .as_ref()
            .and_then(|h| h.authentication.as_ref());
        if let (ImageOrigin::Http { headers, .. }, Some(auth)) = (&mut request.origin, auth)
            && let Some((name, value)) = self.authorization(auth).await?
        {
            headers.0.insert(name, value);
        }
        if let ImageOrigin::Registry { image, headers, .. } = &mut request.origin
            && let Some(value) = self.registry_authorization(spec, image).await?
        {
            headers.0.insert("Authorization".to_owned(), value);
        }
        Ok(request)
    }

    /// What a registry is shown, from the pull secret.
    async fn registry_authorization(
        &self,
        spec: &VMImageSpec,
        image: &str,
    ) -> Result<Option<String>, String> {
        let registry = spec.source.registry.as_ref();
        let Some(secret) = registry.and_then(|r| r.pull_secret_ref.as_ref()) else {
            return Ok(None);
        };
        let config = self.secret_value(&secret.name, pull_secret::KEY).await?;
        let found = pull_secret::authorization(&config, image);
        found.map(Some).map_err(|why| {
            format!(
                "spec.source.registry.pullSecretRef: Secret {} {why}",
                secret.name
            )
        })
    }

    /// The header that proves who we are, from a Secret.
    async fn authorization(
        &self,
        auth: &HttpAuthentication,
    ) -> Result<Option<(String, String)>, String> {
        if let Some(bearer) = &auth.bearer {
            let token = self
                .secret_value(&bearer.secret_ref.name, &bearer.token_key)
                .await?;
            return Ok(Some((
                "Authorization".to_owned(),
                format!("Bearer {token}"),
            )));
        }
        if let Some(basic) = &auth.basic_auth {
            let user = self
                .secret_value(&basic.secret_ref.name, &basic.username_key)
                .await?;
            let password = self
                .secret_value(&basic.secret_ref.name, &basic.password_key)
                .await?;
            let pair = pull_secret::base64(format!("{user}:{password}").as_bytes());
            return Ok(Some(("Authorization".to_owned(), format!("Basic {pair}"))));
        }
        if auth.client_cert.is_some() {
            return Err("spec.source.http.authentication.clientCert: The contract with providers carries no client certificates. Use bearer or basicAuth".to_owned());
        }
        Ok(None)
    }

    async fn secret_value(&self, name: &str, key: &str) -> Result<String, String> {
        let object = ObjectKey::new(self.key.object.namespace(), name);
        let data = self
            .ctx
            .cluster
            .secret(&object)
            .await
            .map_err(|e| format!("Secret {name} cannot be read: {e}"))?;
        let data = data.ok_or_else(|| format!("Secret {name} does not exist. Create it"))?;
        let value = data
            .get(key)
            .ok_or_else(|| format!("Secret {name} has no key {key}. Add it"))?;
        String::from_utf8(value.to_vec())
            .map(|v| v.trim().to_owned())
            .map_err(|_| format!("Secret {name}, key {key}: The value is not text"))
    }

    async fn check(
        &self,
        provider: &ObjectKey,
        view: &View,
        on: Option<ImageProviderStatus>,
        task: TaskId,
        wanted: &Wanted<'_>,
    ) -> (Option<ImageProviderStatus>, Option<Duration>) {
        let (Some(on), Some(server), Some(link)) =
            (on, &view.provider, self.ctx.links.get(provider))
        else {
            return (None, None);
        };
        let told = link.seen(|seen| seen.take_task(&task));
        let state = match told {
            Some(state) => Ok(state),
            None => server.task_status(&task).await,
        };
        match state {
            Ok(TaskState::Running { percent }) => {
                if view.features.has(Extension::Watch) {
                    link.seen(|seen| seen.await_task(&task, &self.key.object, self.ctx.now()));
                }
                let progress = percent.map(|percent| image_step::progressed(&on, percent));
                (progress, Some(TASK_RECHECK))
            }
            Ok(TaskState::Succeeded) => {
                let more = (wanted.pull() == Pull::Always).then_some(Duration::ZERO);
                (Some(image_step::arrived(&on, self.ctx.now())), more)
            }
            // The provider is there and tells of it: what was away is the origin.
            Ok(TaskState::Failed(error)) => {
                self.fail(&self.meant_on(provider), Some(&on), &Failure::of(&error))
            }
            Err(error) if error.kind == ErrorKind::NotFound => {
                (Some(image_step::forgotten(&on)), Some(Duration::ZERO))
            }
            Err(_) => (None, Some(TASK_RECHECK)),
        }
    }

    /// A provider that does not answer is no fault of the image: it is tried again when it does.
    fn provider_failed(
        &self,
        spec: &VMImageSpec,
        on: Option<&ImageProviderStatus>,
        error: &ProviderError,
    ) -> (Option<ImageProviderStatus>, Option<Duration>) {
        if error.kind.blames_provider() {
            return (None, Some(TASK_RECHECK));
        }
        self.fail(spec, on, &Failure::of(error))
    }

    fn fail(
        &self,
        spec: &VMImageSpec,
        on: Option<&ImageProviderStatus>,
        failure: &Failure<'_>,
    ) -> (Option<ImageProviderStatus>, Option<Duration>) {
        let entry = image_step::failed(spec, on, failure, self.ctx.now());
        let pause = entry
            .next_attempt
            .as_ref()
            .and_then(|t| Duration::try_from(t.0.duration_since(self.ctx.now())).ok());
        (Some(entry), pause)
    }

    /// Deletes what we brought to providers. False if one of them has to be asked again.
    pub(super) async fn delete_copies(&self) -> bool {
        let status = self.image.status.clone().unwrap_or_default();
        let mut all = true;
        for (name, on) in &status.provider_status {
            all &= self.delete_copy(name, on).await;
        }
        all
    }

    async fn delete_copy(&self, name: &str, on: &ImageProviderStatus) -> bool {
        let Some(copy) = image_step::copy(on) else {
            return true;
        };
        let (namespace, provider) = name
            .split_once('/')
            .unwrap_or((self.key.object.namespace(), name));
        let key = ObjectKey::new(namespace, provider);
        // A Provider that is gone took its images out of our reach; one that does not answer keeps the object.
        let Some(link) = self.ctx.links.get(&key) else {
            return self.ctx.stores.providers.get(&key).is_none();
        };
        let Some(server) = link.view().provider else {
            return false;
        };
        match server.image_delete(&copy).await {
            Ok(()) => true,
            Err(error) if error.kind == ErrorKind::NotFound => true,
            Err(error) if error.kind == ErrorKind::Unsupported => {
                self.left_behind(name);
                true
            }
            Err(_) => false,
        }
    }

    fn left_behind(&self, provider: &str) {
        let text = format!(
            "Provider {provider} cannot delete images: the copy stays there. Delete it by hand"
        );
        let about = About::of(Kind::VMImage, &*self.image);
        self.ctx
            .cluster
            .event(&about, Note::warning(Reason::UnsupportedByProvider, text));
    }
}

fn wanted(waiting: &[Arc<VirtualMachine>]) -> Wanted<'_> {
    let wishes = waiting.iter().map(|vm| image::wish(vm));
    let looked_for = wishes.filter(|wish| wish.pull == DiskImagePull::Always);
    let declared = waiting.iter().filter_map(|vm| vm.creation_timestamp());
    Wanted {
        checked_for: looked_for.map(|wish| wish.uid).collect(),
        newest: declared.map(|time| time.0).max(),
    }
}
