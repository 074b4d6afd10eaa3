//! The credentials of a registry, out of what `kubectl create secret docker-registry` makes.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The key under which Kubernetes keeps them.
pub(super) const KEY: &str = ".dockerconfigjson";
/// Docker Hub by all of its names.
const HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Default, Deserialize)]
struct Entry {
    #[serde(default)]
    auth: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
}

/// The `Authorization` for an image: that of the entry which names most of it. The error says what to do.
pub(super) fn authorization(config: &str, image: &str) -> Result<String, String> {
    let no_config = |_| {
        "holds no configuration of Docker. Make it with kubectl create secret docker-registry"
            .to_owned()
    };
    let config: Config = serde_json::from_str(config).map_err(no_config)?;
    let name = canonical(image);
    let fitting = config.auths.into_iter().filter_map(|(server, entry)| {
        let server = canonical_server(&server);
        covers(&server, &name).then_some((server.len(), entry))
    });
    let best = fitting.max_by_key(|(length, _)| *length);
    let server = name.split('/').next().unwrap_or_default();
    let (_, entry) = best.ok_or_else(|| {
        format!("names no credentials for {server}. Make it with --docker-server={server}")
    })?;
    entry.basic().ok_or_else(|| {
        format!("has neither a name with a password nor auth for {server}. Make it with --docker-username and --docker-password")
    })
}

impl Entry {
    fn basic(self) -> Option<String> {
        if !self.auth.is_empty() {
            return Some(format!("Basic {}", self.auth));
        }
        let pair = format!("{}:{}", self.username, self.password);
        let known = !self.username.is_empty();
        known.then(|| format!("Basic {}", base64(pair.as_bytes())))
    }
}

/// An image with its server, as a prefix of it may be written.
fn canonical(image: &str) -> String {
    let has_server = image
        .split_once('/')
        .is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost");
    if has_server {
        return canonical_server(image);
    }
    format!("{}/{image}", HUB[0])
}

/// Tools write `https://` before a server and `/v1/` behind it.
fn canonical_server(text: &str) -> String {
    let bare = text.split_once("://").map_or(text, |(_, rest)| rest);
    let bare = bare.trim_end_matches('/');
    let bare = ["/v1", "/v2"]
        .iter()
        .find_map(|end| bare.strip_suffix(end))
        .unwrap_or(bare);
    let (server, path) = bare.split_once('/').unwrap_or((bare, ""));
    let server = if HUB.contains(&server) {
        HUB[0]
    } else {
        server
    };
    if path.is_empty() {
        return server.to_owned();
    }
    format!("{server}/{path}")
}

/// Whether an entry is for an image: its server, or a whole part of its path.
fn covers(entry: &str, image: &str) -> bool {
    let rest = image.strip_prefix(entry);
    rest.is_some_and(|rest| {
        rest.starts_with('/') || rest.starts_with([':', '@']) && entry.contains('/')
    })
}

/// Standard base64, for the Authorization header.
pub(super) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .enumerate()
            .fold(0_u32, |w, (i, b)| w | u32::from(*b) << (16 - 8 * i));
        for place in 0..4 {
            let index = (word >> (18 - 6 * place)) & 63;
            let used = place <= chunk.len();
            text.push(if used {
                char::from(ALPHABET[index as usize])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(auths: &serde_json::Value, image: &str) -> Result<String, String> {
        authorization(&json!({ "auths": auths }).to_string(), image)
    }

    #[test]
    fn the_entry_that_names_most_of_an_image_is_its_own() {
        let auths = json!({
            "https://index.docker.io/v1/": {"auth": "aHVi"},
            "quay.example": {"auth": "YWxs"},
            "quay.example/team": {"username": "a", "password": "b"},
            "quay.example:5000": {"auth": "cG9ydA=="},
        });
        for (image, told) in [
            ("fedora:41", "Basic aHVi"),
            ("kubevirt/cirros:1", "Basic aHVi"),
            ("docker.io/kubevirt/cirros:1", "Basic aHVi"),
            ("quay.example/other/x:1", "Basic YWxs"),
            ("quay.example/teams/x:1", "Basic YWxs"),
            ("quay.example/team/x:1", "Basic YTpi"),
            ("quay.example:5000/team/x:1", "Basic cG9ydA=="),
        ] {
            assert_eq!(found(&auths, image).as_deref(), Ok(told), "{image}");
        }
    }

    #[test]
    fn what_is_missing_is_told_without_what_is_there() {
        let why = found(
            &json!({"quay.example": {"auth": "c2VjcmV0"}}),
            "r.example/x:1",
        );
        let why = why.unwrap_err();
        assert!(
            why.contains("--docker-server=r.example") && !why.contains("c2Vj"),
            "{why}"
        );
        let why = found(&json!({"r.example": {}}), "r.example/x:1").unwrap_err();
        assert!(why.contains("--docker-password"), "{why}");
        let why = authorization("secret", "r.example/x:1").unwrap_err();
        assert!(
            why.contains("docker-registry") && !why.starts_with("secret"),
            "{why}"
        );
    }

    #[test]
    fn base64_of_the_rfc() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
