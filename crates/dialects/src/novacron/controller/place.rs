//! Which Provider runs a VM: what is said, and where nothing is said, the best of all.

use std::sync::Arc;

use jiff::Timestamp;
use polyvirt_api::infra;
use polyvirt_api::novacron::{Obstacle, PROVIDER_ANNOTATION};
use polyvirt_engine::placement::{LeftOut, NotChosen};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_placement::Verdict;
use polyvirt_plan::Reason;
use polyvirt_plan::image::reads_claims;
use polyvirt_plan::sharing::{Foreign, Labels, NAME_LABEL, Sharing};

use super::pass::{Pass, Stop};
use crate::novacron::lower::{ImageSource, LowerError};
use crate::novacron::place::{PlaceError, Rule, Wishes, place};
use crate::novacron::raise::Trouble;

/// Hosts whose reasons the status holds.
const SHOWN: usize = 32;

impl Pass<'_> {
    /// Once it was given, it stays, unless another one is named, or the one that was chosen turns out not to take it.
    pub(super) async fn place(
        &self,
        made: Option<&infra::VirtualMachine>,
    ) -> Result<ObjectKey, Stop> {
        let annotations = self.vm.metadata.annotations.as_ref();
        let before = made.filter(|vm| !is_turned_away(vm)).map(|vm| {
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

    /// The Provider with the best host for it, of all that are for its namespace and can have its image.
    async fn best(&self, providers: &[ObjectKey]) -> Result<ObjectKey, Stop> {
        let (open, mut unable) = self.open(providers);
        if open.is_empty() {
            return Err(Trouble::from(PlaceError::NotShared(providers.len(), unable)).into());
        }
        let (able, others): (Vec<_>, Vec<_>) = open
            .into_iter()
            .partition(|provider| self.can_have_image(provider));
        unable.extend(others.iter().map(no_cluster));
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

    /// Those that stay and are shared with the VM's namespace, and what is against the others.
    fn open(&self, providers: &[ObjectKey]) -> (Vec<ObjectKey>, Vec<Obstacle>) {
        let stores = &self.controller.engine.stores;
        let own = self.key.namespace();
        let all = stores.namespaces.labels();
        let labels = all.as_ref().and_then(|all| all.get(own));
        let sharing = self.controller.engine.sharing;
        let (mut open, mut closed) = (Vec::new(), Vec::new());
        for key in providers {
            if stores.namespaces.is_terminating(key.namespace()) {
                closed.push(obstacle(key, "is in a namespace that is being deleted"));
                continue;
            }
            let found = stores.providers.get(key);
            match found.and_then(|p| closed_to(&p, key, (own, labels), sharing)) {
                Some(why) => closed.push(obstacle(key, why)),
                None => open.push(key.clone()),
            }
        }
        (open, closed)
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
    obstacle(
        provider,
        "cannot read claims (pvc://), for it is not of type kubevirt",
    )
}

fn obstacle(provider: &ObjectKey, why: &str) -> Obstacle {
    Obstacle {
        provider: provider.to_string(),
        host: None,
        message: why.to_owned(),
    }
}

/// Why nothing new of that namespace goes to the Provider; `None` if it may, or if the labels that tell are not known here.
fn closed_to(
    provider: &infra::Provider,
    key: &ObjectKey,
    (namespace, labels): (&str, Option<&Labels>),
    sharing: Sharing,
) -> Option<&'static str> {
    if provider.metadata.deletion_timestamp.is_some() {
        return Some("is being deleted");
    }
    if key.namespace() == namespace {
        return None;
    }
    let shared = Foreign {
        field: "spec.providerRef",
        kind: "Provider",
        name: key.to_string(),
        selector: provider.spec.consumer_namespace_selector.clone(),
        sharing,
    };
    if labels.is_none() && shared.asks_for_labels() {
        return None;
    }
    let mut labels = labels.cloned().unwrap_or_default();
    labels.insert(NAME_LABEL.to_owned(), namespace.to_owned());
    let refused = shared.refusal(namespace, &labels);
    refused.map(|_| "is not shared with this namespace")
}

/// Whether the Provider of a VM that was never made there says that it will not be.
fn is_turned_away(vm: &infra::VirtualMachine) -> bool {
    let Some(status) = &vm.status else {
        return false;
    };
    let placed = status.placement.as_ref().and_then(|p| p.host.as_ref());
    if status.id.is_some() || placed.is_some() {
        return false;
    }
    let refusals = [Reason::Unschedulable, Reason::ConsumerNotAllowed];
    let ready = status.conditions.iter().find(|c| c.type_ == "Ready");
    ready.is_some_and(|c| refusals.iter().any(|reason| c.reason == reason.as_str()))
}

fn bounded(mut obstacles: Vec<Obstacle>) -> Vec<Obstacle> {
    obstacles.truncate(SHOWN);
    obstacles
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn provider(change: Value) -> infra::Provider {
        let mut object = json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "Provider",
            "metadata": {"name": "lab", "namespace": "platform"},
            "spec": {"type": "mock", "endpoint": "mock://memory"},
        });
        json_patch_merge(&mut object, change);
        serde_json::from_value(object).expect("a Provider")
    }

    fn json_patch_merge(object: &mut Value, change: Value) {
        match (object, change) {
            (Value::Object(object), Value::Object(change)) => {
                for (key, value) in change {
                    json_patch_merge(object.entry(key).or_insert(Value::Null), value);
                }
            }
            (object, change) => *object = change,
        }
    }

    #[test]
    fn a_provider_is_for_those_that_it_is_shared_with() {
        let key = ObjectKey::new("platform", "lab");
        let gold = Labels::from([("tenant".to_owned(), "gold".to_owned())]);
        let by =
            |labels: Value| json!({"spec": {"consumerNamespaceSelector": {"matchLabels": labels}}});
        let everyone = json!({"spec": {"consumerNamespaceSelector": {}}});
        let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let name = |name: &str| by(json!({ NAME_LABEL: name }));
        let table = [
            (json!({}), "team", None, false),
            (json!({}), "platform", None, true),
            (everyone, "team", None, true),
            (going, "team", None, false),
            (by(json!({"tenant": "gold"})), "team", Some(&gold), true),
            (by(json!({"tenant": "tin"})), "team", Some(&gold), false),
            (by(json!({"tenant": "tin"})), "team", None, true),
            (by(json!({"tenant": "tin"})), "platform", Some(&gold), true),
            (name("team"), "team", None, true),
            (name("other"), "team", None, false),
        ];
        for (change, namespace, labels, open) in table {
            let provider = provider(change.clone());
            let found = closed_to(&provider, &key, (namespace, labels), Sharing::Closed);
            assert_eq!(found.is_none(), open, "{change} {namespace}");
        }
        let found = closed_to(&provider(json!({})), &key, ("team", None), Sharing::Open);
        assert_eq!(found, None, "as before");
    }

    #[test]
    fn only_one_that_was_refused_and_never_made_is_taken_elsewhere() {
        let table = [
            (json!({}), "Unschedulable", true),
            (json!({}), "ConsumerNotAllowed", true),
            (json!({}), "Creating", false),
            (json!({"id": "vm-1"}), "Unschedulable", false),
            (json!({"placement": {"host": "a"}}), "Unschedulable", false),
        ];
        for (mut status, reason, away) in table {
            status["conditions"] = json!([{
                "type": "Ready", "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]);
            let vm: infra::VirtualMachine = serde_json::from_value(json!({
                "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine", "metadata": {},
                "spec": {"providerRef": {"name": "lab"}}, "status": status,
            }))
            .expect("a VM");
            assert_eq!(is_turned_away(&vm), away, "{status}");
        }
    }
}
