//! A kubeconfig that came from a Secret: it may say who we are and whom to trust, and nothing else.
//!
//! Whoever writes the Secret need not be whoever runs the provider. A command or a path in it would run here and read here.

use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig};

/// Why a kubeconfig cannot be used. Nothing of its content is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigProblem {
    /// It is none.
    #[error("The kubeconfig cannot be read; write it as kubectl config view --flatten does")]
    Unreadable,
    /// It has something that is not taken.
    #[error("The kubeconfig of {of} has {what}, which is not taken here; {instead}")]
    Forbidden {
        /// The cluster or the user.
        of: String,
        /// The field.
        what: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// Its current context leads nowhere.
    #[error("The kubeconfig names no cluster and user by its current context; set current-context")]
    NoContext,
    /// There is no service account.
    #[error(
        "This process does not run in a cluster, or has no service account there; give a kubeconfig"
    )]
    NotInCluster,
}

const INLINE: &str = "put the data itself there (kubectl config view --flatten --raw)";
const TOKEN: &str = "use a token or a client certificate";
const VERIFY: &str = "put the server's certificate authority there";

/// The text, if it can be used.
pub(crate) fn checked(bytes: &[u8]) -> Result<String, KubeconfigProblem> {
    let text = std::str::from_utf8(bytes).map_err(|_| KubeconfigProblem::Unreadable)?;
    check(&parse(text)?)?;
    Ok(text.to_owned())
}

fn parse(text: &str) -> Result<Kubeconfig, KubeconfigProblem> {
    // The parser's own words may quote what stands there.
    Kubeconfig::from_yaml(text).map_err(|_| KubeconfigProblem::Unreadable)
}

/// The settings of a client; `server` takes the place of the one that the kubeconfig names.
pub(crate) async fn client_config(
    text: &str,
    server: Option<&str>,
) -> Result<kube::Config, KubeconfigProblem> {
    let mut kubeconfig = parse(text)?;
    check(&kubeconfig)?;
    if let Some(server) = server {
        for named in &mut kubeconfig.clusters {
            if let Some(cluster) = &mut named.cluster {
                cluster.server = Some(server.to_owned());
            }
        }
    }
    kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|_| KubeconfigProblem::NoContext)
}

fn check(kubeconfig: &Kubeconfig) -> Result<(), KubeconfigProblem> {
    for named in &kubeconfig.clusters {
        let problem = named.cluster.as_ref().and_then(cluster);
        refuse(&format!("cluster {:?}", named.name), problem)?;
    }
    for named in &kubeconfig.auth_infos {
        let problem = named.auth_info.as_ref().and_then(user);
        refuse(&format!("user {:?}", named.name), problem)?;
    }
    Ok(())
}

type Problem = Option<(&'static str, &'static str)>;

fn refuse(of: &str, problem: Problem) -> Result<(), KubeconfigProblem> {
    let Some((what, instead)) = problem else {
        return Ok(());
    };
    Err(KubeconfigProblem::Forbidden {
        of: of.to_owned(),
        what,
        instead,
    })
}

fn first(found: &[(bool, &'static str, &'static str)]) -> Problem {
    let hit = found.iter().find(|(there, ..)| *there);
    hit.map(|(_, what, instead)| (*what, *instead))
}

fn cluster(cluster: &Cluster) -> Problem {
    let server = cluster.server.as_deref().unwrap_or_default();
    let blind = cluster.insecure_skip_tls_verify == Some(true);
    first(&[
        (
            cluster.certificate_authority.is_some(),
            "the file certificate-authority",
            INLINE,
        ),
        (blind, "insecure-skip-tls-verify", VERIFY),
        (
            !server.starts_with("https://"),
            "a server without TLS",
            "use https",
        ),
        (cluster.proxy_url.is_some(), "a proxy-url", "take it away"),
    ])
}

fn user(user: &AuthInfo) -> Problem {
    first(&[
        (user.exec.is_some(), "the command exec", TOKEN),
        (user.auth_provider.is_some(), "an auth-provider", TOKEN),
        (user.token_file.is_some(), "the file tokenFile", INLINE),
        (
            user.client_certificate.is_some(),
            "the file client-certificate",
            INLINE,
        ),
        (user.client_key.is_some(), "the file client-key", INLINE),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(cluster: &str, user: &str) -> String {
        format!(
            r#"{{"current-context": "c", "contexts": [{{"name": "c", "context": {{"cluster": "c", "user": "u"}}}}],
            "clusters": [{{"name": "c", "cluster": {{{cluster}}}}}], "users": [{{"name": "u", "user": {{{user}}}}}]}}"#
        )
    }

    const SERVER: &str = r#""server": "https://a:6443""#;

    #[test]
    fn what_would_run_or_read_or_trust_is_refused() {
        for (cluster, user, word) in [
            (
                SERVER,
                r#""exec": {"command": "sh", "args": ["-c", "id"]}"#,
                "exec",
            ),
            (
                SERVER,
                r#""auth-provider": {"name": "gcp", "config": {}}"#,
                "auth-provider",
            ),
            (SERVER, r#""tokenFile": "/etc/shadow""#, "tokenFile"),
            (
                SERVER,
                r#""client-certificate": "/x""#,
                "client-certificate",
            ),
            (SERVER, r#""client-key": "/x""#, "client-key"),
            (r#""server": "http://a""#, "", "TLS"),
            (
                r#""server": "https://a", "insecure-skip-tls-verify": true"#,
                "",
                "insecure",
            ),
            (
                r#""server": "https://a", "certificate-authority": "/x""#,
                "",
                "authority",
            ),
            (
                r#""server": "https://a", "proxy-url": "http://p""#,
                "",
                "proxy",
            ),
        ] {
            let error = checked(text(cluster, user).as_bytes()).expect_err(word);
            assert!(error.to_string().contains(word), "{error}");
        }
        assert!(checked(text(SERVER, r#""token": "t""#).as_bytes()).is_ok());
    }

    #[test]
    fn an_unreadable_one_is_not_quoted() {
        for bytes in [&b"secret: ["[..], &[0xff, 0xfe]] {
            let error = checked(bytes).expect_err("refused").to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[tokio::test]
    async fn an_address_takes_the_place_of_the_server() {
        let text = text(SERVER, r#""token": "t""#);
        let config = client_config(&text, Some("https://b:1")).await;
        let url = config.expect("usable").cluster_url.to_string();
        assert_eq!(url, "https://b:1/");
    }
}
