//! Documents for the guest, as far as they stand in the manifest. What is in a Secret is looked at when it is used.

use polyvirt_api::infra::{CloudInit, Ignition, MetaData, NetworkData, UserData};
use polyvirt_plan::Problem;
use polyvirt_plan::user_data::{Secrets, Sources, render};

use super::moved;

/// The problem of one document does not hide that of another.
pub(super) fn problems(
    root: &str,
    user: Option<&UserData>,
    meta: Option<&MetaData>,
    network: Option<&NetworkData>,
) -> Vec<Problem> {
    let user = user.map(in_place);
    let meta = meta.map(|m| MetaData {
        cloud_init: m.cloud_init.as_ref().and_then(document),
    });
    let network = network.map(|n| NetworkData {
        cloud_init: n.cloud_init.as_ref().and_then(document),
    });
    let each = [
        Sources {
            user: user.as_ref(),
            ..Sources::default()
        },
        Sources {
            meta: meta.as_ref(),
            ..Sources::default()
        },
        Sources {
            network: network.as_ref(),
            ..Sources::default()
        },
    ];
    let found = each
        .iter()
        .filter_map(|one| render(one, &Secrets::new()).err());
    found.map(|problem| moved(problem, "spec", root)).collect()
}

fn in_place(user: &UserData) -> UserData {
    UserData {
        cloud_init: user.cloud_init.as_ref().and_then(document),
        ignition: user.ignition.as_ref().and_then(|ignition| {
            ignition.inline.clone().map(|inline| Ignition {
                inline: Some(inline),
                secret_ref: None,
            })
        }),
    }
}

fn document(cloud_init: &CloudInit) -> Option<CloudInit> {
    cloud_init.inline.clone().map(|inline| CloudInit {
        inline: Some(inline),
        ..CloudInit::default()
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::time::{Duration, Instant};

    use serde_json::{Value, json};

    use super::*;

    fn fields(user: Value) -> Vec<String> {
        let user: UserData = serde_json::from_value(user).expect("user data");
        let found = problems("spec.template.spec", Some(&user), None, None);
        found.into_iter().map(|p| p.field).collect()
    }

    #[test]
    fn documents_in_place_are_read() {
        for (user, count) in [
            (
                json!({"cloudInit": {"inline": "#cloud-config\nhostname: a\n"}}),
                0,
            ),
            (
                json!({"cloudInit": {"inline": "#cloud-config\nhostname: [a\n"}}),
                1,
            ),
            (json!({"cloudInit": {"secretRef": {"name": "s"}}}), 0),
            (json!({"ignition": {"inline": "{"}}), 1),
            (json!({"ignition": {"secretRef": {"name": "s"}}}), 0),
            (
                json!({"ignition": {"inline": "{\"ignition\": {\"version\": \"3.4.0\"}}"}}),
                0,
            ),
        ] {
            let found = fields(user.clone());
            assert_eq!(found.len(), count, "{user}: {found:?}");
            let here = found
                .iter()
                .all(|f| f.starts_with("spec.template.spec.userData."));
            assert!(here, "{found:?}");
        }
    }

    #[test]
    fn a_broken_secret_half_is_not_our_business_but_the_half_in_place_is() {
        let both =
            json!({"cloudInit": {"inline": "#cloud-config\na: [", "secretRef": {"name": "s"}}});
        assert_eq!(fields(both).len(), 1);
    }

    #[test]
    fn a_bomb_goes_off_harmlessly() {
        let mut bomb = "#cloud-config\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..40 {
            let last = i - 1;
            let refs = vec![format!("*a{last}"); 10].join(", ");
            writeln!(bomb, "a{i}: &a{i} [{refs}]").expect("text");
        }
        let deep = format!("#cloud-config\na: {}\n", "[".repeat(100_000));
        for text in [bomb, deep] {
            let begin = Instant::now();
            assert_eq!(fields(json!({"cloudInit": {"inline": text}})).len(), 1);
            assert!(begin.elapsed() < Duration::from_secs(2));
        }
    }
}
