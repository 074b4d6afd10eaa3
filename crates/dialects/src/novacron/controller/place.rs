//! Which Provider runs a VM: what is said, and where nothing is said, the best of all.

use std::sync::Arc;

use jiff::Timestamp;
use polyvirt_api::infra;
use polyvirt_api::novacron::{Obstacle, PROVIDER_ANNOTATION};
use polyvirt_engine::placement::{LeftOut, NotChosen};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_placement::Verdict;
use polyvirt_plan::image::reads_claims;

use super::pass::{Pass, Stop};
use crate::novacron::lower::{ImageSource, LowerError};
use crate::novacron::place::{PlaceError, Rule, Wishes, place};
use crate::novacron::raise::Trouble;

/// Hosts whose reasons the status holds.
const SHOWN: usize = 32;

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
        let (able, others): (Vec<_>, Vec<_>) = providers
            .iter()
            .cloned()
            .partition(|provider| self.can_have_image(provider));
        let unable: Vec<_> = others.iter().map(no_cluster).collect();
        let Some(first) = able.first() else {
            return Err(Trouble::from(PlaceError::NoCluster(providers.len(), unable)).into());
        };
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
        let choice = asked
            .await
            .map_err(|why| not_chosen(why, providers.len(), unable))?;
        let chosen = able.into_iter().find(|p| p.to_string() == choice.provider);
        let silent = || Trouble::from(PlaceError::Silent(providers.len(), Vec::new()));
        let chosen = chosen.ok_or_else(silent)?;
        tracing::info!(controller = "novacron.io", vm = self.key.name(), namespace = self.key.namespace(), provider = %chosen, "{}", choice.why());
        Ok(chosen)
    }

    /// Claims are known to clusters only.
    fn can_have_image(&self, provider: &ObjectKey) -> bool {
        let source = ImageSource::parse(&self.vm.spec.template.spec.image.source);
        let found = self.controller.engine.stores.providers.get(provider);
        !matches!(source, Ok(ImageSource::Claim { .. }))
            || found.is_some_and(|p| reads_claims(p.spec.type_))
    }
}

/// Why none was chosen, with what is against each of them.
fn not_chosen(why: NotChosen, count: usize, mut obstacles: Vec<Obstacle>) -> Trouble {
    match why {
        NotChosen::Question(problem) => LowerError::invalid(problem.field, problem.message).into(),
        NotChosen::Silence(left_out) => {
            obstacles.extend(left_out.iter().map(silence));
            PlaceError::Silent(count, bounded(obstacles)).into()
        }
        NotChosen::Refused(refusal, left_out) => {
            let refused = refusal.verdicts.iter().map(against);
            let all = refused.chain(left_out.iter().map(silence));
            let all = all.chain(obstacles).collect();
            PlaceError::NoHost(refusal.summary(), bounded(all)).into()
        }
    }
}

fn against(verdict: &Verdict) -> Obstacle {
    Obstacle {
        provider: verdict.provider.clone(),
        host: Some(verdict.host.clone()),
        message: verdict.outcome.to_string(),
    }
}

fn silence(left_out: &LeftOut) -> Obstacle {
    Obstacle {
        provider: left_out.provider.to_string(),
        host: None,
        message: left_out.why.to_string(),
    }
}

fn no_cluster(provider: &ObjectKey) -> Obstacle {
    Obstacle {
        provider: provider.to_string(),
        host: None,
        message: "cannot read claims (pvc://), for it is not of type kubevirt".to_owned(),
    }
}

fn bounded(mut obstacles: Vec<Obstacle>) -> Vec<Obstacle> {
    obstacles.truncate(SHOWN);
    obstacles
}
