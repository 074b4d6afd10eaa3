//! What a registry wants to see before it answers: `WWW-Authenticate: Bearer realm="https://…",service="…",scope="…"`.

use std::collections::BTreeMap;

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// How a registry wants to be asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// With a name and a password.
    Basic,
    /// With a token of the server that it names.
    Bearer {
        realm: String,
        service: Option<String>,
    },
}

impl Challenge {
    /// What an answer of 401 asks for, if it is something that is known.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let all = headers.get_all(WWW_AUTHENTICATE).iter();
        let mut known = all.filter_map(|value| Self::parse(value.to_str().ok()?));
        known.next()
    }

    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut given = parameters(rest);
        Some(Self::Bearer {
            realm: given.remove("realm")?,
            service: given.remove("service"),
        })
    }
}

/// `name="value",other="value"`; a comma may stand within the quotes.
fn parameters(mut text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    while let Some((name, rest)) = text.split_once('=') {
        let name = name.trim_matches([',', ' ']).to_ascii_lowercase();
        let (value, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(',').unwrap_or((rest, "")),
        };
        found.insert(name, value.to_owned());
        text = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn of(texts: &[&'static str]) -> Option<Challenge> {
        let values = texts.iter().map(|text| HeaderValue::from_static(text));
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, value);
        }
        Challenge::of(&headers)
    }

    #[test]
    fn challenges_are_read_in_the_forms_that_registries_write() {
        let bearer = |service: Option<&str>| {
            Some(Challenge::Bearer {
                realm: "https://auth.example/token".to_owned(),
                service: service.map(str::to_owned),
            })
        };
        let whole = r#"Bearer realm="https://auth.example/token",service="r.example",scope="repository:a/b:pull,push""#;
        assert_eq!(of(&[whole]), bearer(Some("r.example")));
        let bare = "bearer scope=x, realm=https://auth.example/token";
        assert_eq!(of(&[bare]), bearer(None));
        assert_eq!(
            of(&["Negotiate", r#"Basic realm="x""#]),
            Some(Challenge::Basic)
        );
        assert_eq!(of(&["Basic"]), Some(Challenge::Basic));
        assert_eq!(of(&["Bearer"]), None);
        assert_eq!(of(&[]), None);
    }
}
