//! Which Provider runs a VM: what is said, and where nothing is said, the best of all.

use std::sync::Arc;

use jiff::Timestamp;
use polyvirt_api::infra::{self, ProviderType};
use polyvirt_api::novacron::PROVIDER_ANNOTATION;
use polyvirt_engine::placement::NotChosen;
use polyvirt_engine::runtime::key::ObjectKey;

use super::pass::{Pass, Stop};
use crate::novacron::lower::{ImageSource, LowerError};
use crate::novacron::place::{PlaceError, Rule, Wishes, place};
use crate::novacron::raise::Trouble;

impl Pass<'_> {
    /// Once it was given, it stays, unless another one is named.
    pub(super) async fn place(
        &self,
        made: Option<&infra::VirtualMachine>,
    ) -> Result<ObjectKey, Stop> {
        let annotations = self.vm.metadata.annotations.as_ref();
        let before = made.map(|vm| {
            let own = self.key.namespace();
            let known = &vm.spec.provider_ref;
            ObjectKey::new(known.namespace_or(own), &known.name)
        });
        let wishes = Wishes {
            namespace: self.key.namespace(),
            annotation: annotations.and_then(|a| a.get(PROVIDER_ANNOTATION).map(String::as_str)),
            before,
            default: self.controller.settings.default_provider.as_deref(),
        };
        let mut providers = self.controller.engine.stores.providers.keys();
        providers.sort();
        match place(&wishes, &providers).map_err(Trouble::from)? {
            Rule::This(provider) => Ok(provider),
            Rule::Best => self.best(&providers).await,
        }
    }

    /// The Provider with the best host for it, of all that can have its image.
    async fn best(&self, providers: &[ObjectKey]) -> Result<ObjectKey, Stop> {
        let able: Vec<_> = providers
            .iter()
            .filter(|p| self.can_have_image(p))
            .cloned()
            .collect();
        let silent = || Trouble::from(PlaceError::Silent(providers.len()));
        let first = able.first().ok_or_else(silent)?;
        // As it is where Polyvirt chooses the host: there all that it asks for is said in the words of the engine.
        let asked = self.lower_as(first, None, None).await?.vm;
        let (engine, now) = (&self.controller.engine, Timestamp::now());
        let asked = self.controller.chooser.choose_for(
            &engine.stores,
            &engine.links,
            &able,
            Arc::new(asked),
            now,
        );
        let choice = asked.await.map_err(|why| match why {
            NotChosen::Silence => silent(),
            NotChosen::Refused(refusal) => PlaceError::NoHost(refusal.summary()).into(),
            NotChosen::Question(problem) => {
                LowerError::invalid(problem.field, problem.message).into()
            }
        })?;
        let chosen = able.into_iter().find(|p| p.to_string() == choice.provider);
        let chosen = chosen.ok_or_else(silent)?;
        tracing::info!(controller = "novacron.io", vm = self.key.name(), namespace = self.key.namespace(), provider = %chosen, "{}", choice.why());
        Ok(chosen)
    }

    /// Claims, and containers with a disk in them, are known to clusters only.
    fn can_have_image(&self, provider: &ObjectKey) -> bool {
        let source = ImageSource::parse(&self.vm.spec.template.spec.image.source);
        let of_clusters = matches!(
            source,
            Ok(ImageSource::Claim { .. } | ImageSource::Registry(_))
        );
        let found = self.controller.engine.stores.providers.get(provider);
        let is_cluster = |kind| matches!(kind, ProviderType::Kubevirt | ProviderType::Mock);
        !of_clusters || found.is_some_and(|p| is_cluster(p.spec.type_))
    }
}
