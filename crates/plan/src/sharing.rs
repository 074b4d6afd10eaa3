//! Who may use what lives in another namespace.
//!
//! A Provider, class or image is for its own namespace and for those that `spec.consumerNamespaceSelector` matches. Without a
//! selector it is for its own namespace only, or for all if the manager runs with `--sharing=open`. An empty selector matches
//! all. What cannot be read as a selector matches none.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::problem::Problem;
use crate::reason::Reason;

/// The label that the API server puts on each namespace: its name. Nobody can change it.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Labels of a namespace.
pub type Labels = BTreeMap<String, String>;

/// Whom an object without a selector is for, as the administrator of the manager decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Its own namespace.
    #[default]
    Closed,
    /// All namespaces, as in earlier releases.
    Open,
}

/// Something in another namespace that an object names, and whom it is for.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// The path of the reference, such as `spec.providerRef`.
    pub field: &'static str,
    /// The kind that is named.
    pub kind: &'static str,
    /// Its namespace and name.
    pub name: String,
    /// Whom it is for, if it says so.
    pub selector: Option<LabelSelector>,
    /// Whom it is for, if it does not.
    pub sharing: Sharing,
}

impl Foreign {
    /// Whether more than the name of a namespace must be known to tell.
    pub fn asks_for_labels(&self) -> bool {
        let Some(selector) = &self.selector else {
            return false;
        };
        let labels = selector.match_labels.iter().flatten();
        let rules = selector.match_expressions.iter().flatten();
        let mut keys = labels.map(|(key, _)| key).chain(rules.map(|r| &r.key));
        keys.any(|key| key != NAME_LABEL)
    }

    fn is_for(&self, labels: &Labels) -> bool {
        match &self.selector {
            Some(selector) => matches(selector, labels),
            None => self.sharing == Sharing::Open,
        }
    }

    /// Why the namespace with these labels may not use it; `None` if it may. Tells nothing of the selector.
    pub fn refusal(&self, namespace: &str, labels: &Labels) -> Option<Problem> {
        let Self {
            field, kind, name, ..
        } = self;
        (!self.is_for(labels)).then(|| {
            Problem::new(
                Reason::ConsumerNotAllowed,
                *field,
                format!("{kind} {name} is not shared with namespace {namespace}. Set its spec.consumerNamespaceSelector to match the namespace ({{}} for all), or name another {kind}"),
            )
        })
    }
}

/// Whether a selector matches these labels. An empty one matches all.
pub fn matches(selector: &LabelSelector, labels: &Labels) -> bool {
    let equal = selector.match_labels.iter().flatten();
    let rules = selector.match_expressions.iter().flatten();
    equal
        .into_iter()
        .all(|(key, value)| labels.get(key) == Some(value))
        && rules.into_iter().all(|rule| holds(rule, labels))
}

fn holds(rule: &LabelSelectorRequirement, labels: &Labels) -> bool {
    let found = labels.get(&rule.key);
    let listed = found.is_some_and(|value| rule.values.iter().flatten().any(|v| v == value));
    match rule.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn foreign(selector: Value) -> Foreign {
        Foreign {
            field: "spec.providerRef",
            kind: "Provider",
            name: "platform/lab".to_owned(),
            selector: serde_json::from_value(selector).expect("a selector"),
            sharing: Sharing::Closed,
        }
    }

    fn gold() -> Labels {
        [(NAME_LABEL, "team-a"), ("tenant", "gold")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into()
    }

    #[test]
    fn a_selector_says_who_may_use_it() {
        let rule = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, allowed) in [
            (json!({}), true),
            (json!({"matchLabels": {}}), true),
            (json!({"matchLabels": {"tenant": "gold"}}), true),
            (json!({"matchLabels": {"tenant": "silver"}}), false),
            (rule(NAME_LABEL, "In", json!(["team-a", "team-b"])), true),
            (rule(NAME_LABEL, "In", json!(["team-b"])), false),
            (rule("tenant", "NotIn", json!(["gold"])), false),
            (rule("other", "NotIn", json!(["gold"])), true),
            (rule("tenant", "Exists", json!(null)), true),
            (rule("tenant", "DoesNotExist", json!(null)), false),
            (rule("tenant", "Near", json!(["gold"])), false),
        ] {
            let refusal = foreign(selector.clone()).refusal("team-a", &gold());
            assert_eq!(refusal.is_none(), allowed, "{selector}");
        }
    }

    #[test]
    fn without_a_selector_the_administrator_decides() {
        for (sharing, allowed) in [(Sharing::Closed, false), (Sharing::Open, true)] {
            let absent = Foreign {
                sharing,
                ..foreign(Value::Null)
            };
            assert_eq!(absent.refusal("team-a", &gold()).is_none(), allowed);
            let given = Foreign {
                sharing,
                ..foreign(json!({"matchLabels": {"tenant": "silver"}}))
            };
            assert!(given.refusal("team-a", &gold()).is_some(), "{sharing:?}");
        }
        assert_eq!(Sharing::default(), Sharing::Closed);
    }

    #[test]
    fn the_refusal_names_the_object_and_not_the_selector() {
        let refusal = foreign(json!({"matchLabels": {"secret-project": "x"}}))
            .refusal("team-a", &gold())
            .expect("refused");
        assert_eq!(refusal.reason, Reason::ConsumerNotAllowed);
        assert_eq!(refusal.field, "spec.providerRef");
        assert!(refusal.message.contains("platform/lab") && refusal.message.contains("team-a"));
        assert!(!refusal.message.contains("secret-project"));
    }

    #[test]
    fn the_name_of_a_namespace_is_known_without_asking() {
        assert!(!foreign(json!({})).asks_for_labels());
        assert!(!foreign(json!({"matchLabels": {NAME_LABEL: "team-a"}})).asks_for_labels());
        assert!(foreign(json!({"matchLabels": {"tenant": "gold"}})).asks_for_labels());
    }
}
