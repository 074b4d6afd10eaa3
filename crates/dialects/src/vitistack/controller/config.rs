//! KubevirtConfigs: each has a Provider, and tells how that stands.

use std::sync::{Arc, PoisonError};

use polyvirt_api::infra::Provider;
use polyvirt_api::names::IN_USE_FINALIZER;
use polyvirt_api::vitistack::{KubevirtConfig, KubevirtConfigStatus};
use polyvirt_engine::cluster::{About, ClusterError};
use polyvirt_engine::next::Next;
use polyvirt_engine::runtime::key::{Kind, ObjectKey};
use polyvirt_engine::runtime::vm_index::Target;
use polyvirt_plan::{Note, Reason};
use serde_json::json;

use super::Controller;
use crate::shared::desk::Claim;
use crate::shared::made;
use crate::shared::wake::keep;
use crate::vitistack::config::{self, is_heir, is_owned, lower, made_of, raise, says_the_same};
use crate::vitistack::settings::ConfigsNamespace;

impl Controller {
    /// Brings one KubevirtConfig, its Provider and its status up to date.
    pub(super) async fn reconcile_config(&self, key: &ObjectKey) -> Next {
        let done = match self.stores.configs.get(key) {
            Some(config) if self.settings.configs_namespace.covers(key.namespace()) => {
                self.keep_config(key, &config).await
            }
            Some(config) => self.keep_unread(key, &config).await,
            None if self.is_in_use(key) => return Next::After(self.settings.resync),
            None => self.drop_provider(key).await,
        };
        match done {
            Ok(()) => Next::Idle,
            Err(error) => {
                tracing::warn!(controller = "KubevirtConfig", config = %key, %error, "cannot go on");
                Next::after_refusal(&error)
            }
        }
    }

    /// Whether VMs are reached by the Provider of that name. As long as they are it stays: who deleted the KubevirtConfig by mistake
    /// can make it anew, and who did not can still delete the Machines.
    fn is_in_use(&self, key: &ObjectKey) -> bool {
        let provider = Target::Provider(key.clone());
        self.engine.stores.index.count(&provider) > 0
    }

    async fn keep_config(
        &self,
        key: &ObjectKey,
        config: &Arc<KubevirtConfig>,
    ) -> Result<(), ClusterError> {
        let provider = self.ensure_provider(key, config).await?;
        let old = config.status.clone().unwrap_or_default();
        let new = raise(config, provider.as_deref());
        if new.phase.as_deref() == Some(config::FAILED) {
            let reason = Reason::KubeVirtApiError.as_str();
            self.metrics.error("KubevirtConfig", reason);
        }
        if !config::is_news(&old, &new) {
            return Ok(());
        }
        let written: KubevirtConfig = self.desk.status(key, &new).await?;
        keep(&self.stores.configs, config, written);
        let about = About::of(Kind::KubevirtConfig, &**config);
        if let Some(note) = config::note(&old, &new) {
            log_standing(key, note.reason, &note.message);
            self.desk.event(&about, note);
        }
        if (&old.kubevirt_version, &old.api_versions) != (&new.kubevirt_version, &new.api_versions)
        {
            self.compare_clusters(key, &new, &about);
        }
        Ok(())
    }

    /// A KubevirtConfig in a namespace that is not read says so, once: nothing else would.
    async fn keep_unread(
        &self,
        key: &ObjectKey,
        config: &Arc<KubevirtConfig>,
    ) -> Result<(), ClusterError> {
        let ConfigsNamespace::One(read) = &self.settings.configs_namespace else {
            return Ok(());
        };
        let old = config.status.clone().unwrap_or_default();
        let Some(new) = config::raise_unread(config, read).filter(|new| *new != old) else {
            return Ok(());
        };
        let message = new.message.clone().unwrap_or_default();
        let written: KubevirtConfig = self.desk.status(key, &new).await?;
        keep(&self.stores.configs, config, written);
        tracing::warn!(controller = "KubevirtConfig", config = %key, "⚠️ {message}");
        let about = About::of(Kind::KubevirtConfig, &**config);
        self.desk
            .event(&about, Note::warning(Reason::NamespaceNotRead, message));
        Ok(())
    }

    /// Tells once what differs between clusters, and once that nothing does any more.
    fn compare_clusters(&self, key: &ObjectKey, new: &KubevirtConfigStatus, about: &About) {
        let mut clusters = self.statuses();
        clusters.retain(|(name, _)| name != key.name());
        clusters.push((key.name().to_owned(), new.clone()));
        clusters.sort_by(|a, b| a.0.cmp(&b.0));
        let now = config::difference(&clusters);
        let mut told = self.differs.lock().unwrap_or_else(PoisonError::into_inner);
        if *told == now {
            return;
        }
        if let Some(text) = &now {
            tracing::warn!(
                controller = "KubevirtConfig",
                config = key.name(),
                "⚠️ {text}"
            );
            let note = Note::warning(Reason::KubevirtVersionsDiffer, text.clone());
            self.desk.event(about, note);
        } else {
            let text = "✅ KubeVirt is the same in all clusters";
            tracing::info!(controller = "KubevirtConfig", "{text}");
        }
        *told = now;
    }

    /// The Provider as it is now. One that is somebody else's is left alone.
    async fn ensure_provider(
        &self,
        key: &ObjectKey,
        config: &KubevirtConfig,
    ) -> Result<Option<Arc<Provider>>, ClusterError> {
        if config.metadata.deletion_timestamp.is_some() {
            return Ok(self.engine.stores.providers.get(key));
        }
        let mut there = self.engine.stores.providers.get(key);
        if there.is_none() {
            there = self.desk.get::<Provider>(key).await?.map(Arc::new);
        }
        let mut wanted = lower(config, &self.settings);
        let claim = match &there {
            None => Claim::New,
            Some(there) if is_heir(there, config) => {
                return self.inherit(key, there, &wanted).await;
            }
            Some(there) if !is_owned(there, config) || says_the_same(there, &wanted) => {
                return Ok(Some(there.clone()));
            }
            Some(there) => {
                wanted.metadata.uid.clone_from(&there.metadata.uid);
                Claim::Ours
            }
        };
        let written = self.desk.apply(&wanted, claim).await?;
        Ok(Some(Arc::new(written)))
    }

    /// The KubevirtConfig was deleted and made anew while Machines use its Provider. One that is still there is taken over; one that
    /// waits for its VMs to go is let go, for it is made anew at once, and they find it by its name.
    async fn inherit(
        &self,
        key: &ObjectKey,
        there: &Arc<Provider>,
        wanted: &Provider,
    ) -> Result<Option<Arc<Provider>>, ClusterError> {
        if there.metadata.deletion_timestamp.is_some() {
            let others = there.metadata.finalizers.iter().flatten();
            let others = others.filter(|f| *f != IN_USE_FINALIZER).cloned();
            made::release(&self.desk, key, &**there, others.collect()).await?;
            return Ok(None);
        }
        let body = json!({"metadata": {
            "resourceVersion": there.metadata.resource_version,
            "ownerReferences": wanted.metadata.owner_references,
        }});
        let written = self.desk.merge(key, &body).await?;
        Ok(Some(Arc::new(written)))
    }

    /// The KubevirtConfig is gone. Where nobody collects what it owned, its Provider would stay.
    async fn drop_provider(&self, key: &ObjectKey) -> Result<(), ClusterError> {
        let Some(provider) = self.engine.stores.providers.get(key) else {
            return Ok(());
        };
        let going = provider.metadata.deletion_timestamp.is_some();
        let ours = made_of(&provider).is_some_and(|owner| owner.name == key.name());
        let uid = provider.metadata.uid.as_deref();
        let Some(uid) = uid.filter(|_| ours && !going) else {
            return Ok(());
        };
        // One that cannot be read is not in the cache either.
        match self.desk.get::<KubevirtConfig>(key).await? {
            Some(_) => Ok(()),
            None => self.desk.delete::<Provider>(key, uid).await,
        }
    }
}

/// Logs how a KubevirtConfig stands.
fn log_standing(key: &ObjectKey, reason: Reason, message: &str) {
    let (name, namespace) = (key.name(), key.namespace());
    if reason == Reason::Connected {
        tracing::info!(
            controller = "KubevirtConfig",
            config = name,
            namespace,
            "✅ {message}"
        );
    } else {
        tracing::warn!(
            controller = "KubevirtConfig",
            config = name,
            namespace,
            "⚠️ {message}"
        );
    }
}
