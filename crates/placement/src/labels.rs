//! Demands on labels, with the operators of Kubernetes.

use std::collections::BTreeMap;

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Its value is one of the values.
    In,
    /// Its value is none of the values; a label that is not there has none of them.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
    /// Its value is a whole number above the one value.
    Gt,
    /// Its value is a whole number below the one value.
    Lt,
}

impl Operator {
    /// The operator of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            _ => return None,
        })
    }

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
        }
    }
}

/// A demand on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Key of the label.
    pub key: String,
    /// How it is compared.
    pub operator: Operator,
    /// What it is compared with.
    pub values: Vec<String>,
}

impl Requirement {
    /// The label must have this value.
    pub fn equals(key: &str, value: &str) -> Self {
        Self {
            key: key.to_owned(),
            operator: Operator::In,
            values: vec![value.to_owned()],
        }
    }

    /// Whether a label with this value, or its absence, meets the demand.
    pub fn met_by(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|v| v == value);
        match (self.operator, value) {
            (Operator::In, Some(value)) => listed(value),
            (Operator::NotIn, Some(value)) => !listed(value),
            (Operator::NotIn | Operator::DoesNotExist, None) | (Operator::Exists, Some(_)) => true,
            (Operator::Gt, Some(value)) => {
                self.compare(value).is_some_and(std::cmp::Ordering::is_gt)
            }
            (Operator::Lt, Some(value)) => {
                self.compare(value).is_some_and(std::cmp::Ordering::is_lt)
            }
            (Operator::DoesNotExist, Some(_))
            | (Operator::In | Operator::Exists | Operator::Gt | Operator::Lt, None) => false,
        }
    }

    fn compare(&self, value: &str) -> Option<std::cmp::Ordering> {
        let [limit] = self.values.as_slice() else {
            return None;
        };
        let value = value.parse::<i64>().ok()?;
        Some(value.cmp(&limit.parse().ok()?))
    }
}

/// Whether labels meet all demands.
pub fn all_met(demands: &[Requirement], labels: &BTreeMap<String, String>) -> bool {
    demands
        .iter()
        .all(|demand| demand.met_by(labels.get(&demand.key).map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_with_every_kind_of_label() {
        let table: &[(&str, &[&str], Option<&str>, bool)] = &[
            ("In", &["a", "b"], Some("b"), true),
            ("In", &["a", "b"], Some("c"), false),
            ("In", &["a"], None, false),
            ("In", &[], Some("a"), false),
            ("NotIn", &["a", "b"], Some("c"), true),
            ("NotIn", &["a", "b"], Some("a"), false),
            ("NotIn", &["a"], None, true),
            ("Exists", &[], Some(""), true),
            ("Exists", &[], None, false),
            ("DoesNotExist", &[], None, true),
            ("DoesNotExist", &[], Some("a"), false),
            ("Gt", &["5"], Some("6"), true),
            ("Gt", &["5"], Some("5"), false),
            ("Gt", &["-7"], Some("-6"), true),
            ("Gt", &["5"], Some("many"), false),
            ("Gt", &["5"], None, false),
            ("Gt", &["5", "6"], Some("9"), false),
            ("Lt", &["5"], Some("4"), true),
            ("Lt", &["5"], Some("5"), false),
            ("Lt", &["x"], Some("4"), false),
            ("Lt", &["5"], None, false),
        ];
        for (word, values, label, met) in table {
            let demand = Requirement {
                key: "k".to_owned(),
                operator: Operator::parse(word).expect("an operator"),
                values: values.iter().map(ToString::to_string).collect(),
            };
            assert_eq!(
                demand.met_by(*label),
                *met,
                "{word} {values:?} of {label:?}"
            );
        }
        assert_eq!(Operator::parse("Equals"), None);
    }
}
