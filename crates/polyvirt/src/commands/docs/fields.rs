//! docs/reference/fields.md: fields that do not always act. And the promise that our own samples set none of them.

use std::fmt::Write;

use polyvirt_plan::honoured::kinds::{Fields, KINDS};
use polyvirt_plan::honoured::once::ONCE;
use polyvirt_plan::honoured::provider::{Needs, PROVIDER_FIELDS, mode_word};
use polyvirt_plan::honoured::{BASIC_PROVIDER, FIELDS};

use super::HEAD;

const INTRODUCTION: &str = "# Fields that do not always act

Nothing is dropped in silence: a field that is set and has no effect is named in an admission warning where webhooks run, and in
condition `FieldsHonoured` (status `False`, reason `FieldsIgnored`) of VirtualMachine, Provider, VMSnapshot, VMMigration, Machine and
`novacron.io` VirtualMachine. Fields that are not on this page act always. Warnings, conditions and this page come from one table.
";

/// The types of provider of this program, and the fields that they honour.
pub(super) fn providers() -> [(&'static str, Vec<&'static str>); 5] {
    [
        ("qemu", polyvirt_provider_qemu::honoured_fields()),
        ("libvirt", polyvirt_provider_libvirt::honoured_fields()),
        ("kubevirt", polyvirt_provider_kubevirt::honoured_fields()),
        ("mock", polyvirt_provider_mock::honoured_fields()),
        ("basic", BASIC_PROVIDER.to_vec()),
    ]
}

/// The page.
pub(super) fn page() -> String {
    let mut page = format!("{HEAD}{INTRODUCTION}");
    by_provider(&mut page);
    by_moment(&mut page);
    by_mode(&mut page);
    for fields in KINDS.iter().chain(polyvirt_dialects::fields::KINDS) {
        of_kind(&mut page, fields);
    }
    page
}

fn by_provider(page: &mut String) {
    page.push_str("\n## By provider: VirtualMachine, VMClass, VMNetworkAttachment\n\n`spec` is the VirtualMachine's, `class` that of its VMClass, `network` that of a VMNetworkAttachment with `spec.network` unfolded. `basic` is a provider that speaks `provider.v1` only.\n\n| field |");
    let providers = providers();
    for (name, _) in &providers {
        let _ = write!(page, " {name} |");
    }
    let _ = writeln!(page, "\n|---|{}", "---|".repeat(providers.len()));
    for field in FIELDS {
        let _ = write!(page, "| `{}` |", field.path);
        for (_, honoured) in &providers {
            let acts = honours(honoured, field.path);
            page.push_str(if acts { " acts |" } else { " |" });
        }
        page.push('\n');
    }
}

fn honours(list: &[&str], path: &str) -> bool {
    let features = polyvirt_contract::Features {
        honoured_fields: Some(list.iter().map(ToString::to_string).collect()),
        ..polyvirt_contract::Features::default()
    };
    features.honours(path)
}

fn by_moment(page: &mut String) {
    page.push_str("\n## By moment: fields of a VirtualMachine that are read once\n\nAn edit after that moment has no effect. It is reported until it is reverted. `status.applied.image` is what the disk was created from.\n\n| field | |\n|---|---|\n");
    for row in ONCE {
        let when = row.moment.explanation();
        let _ = writeln!(page, "| `{}` | {when} |", row.path);
    }
}

fn by_mode(page: &mut String) {
    page.push_str("\n## By runtime mode and provider: Provider\n\n`polyvirt up` runs providers of mode Remote as child processes: there the fields of mode Process count, which `status.runtime.mode` shows.\n\n| field | acts |\n|---|---|\n");
    for field in PROVIDER_FIELDS {
        let needs = match field.needs {
            Needs::Mode(modes) => {
                let words: Vec<_> = modes.iter().map(|mode| mode_word(*mode)).collect();
                format!("in mode {}", words.join(", "))
            }
            Needs::Field(path) => format!("with a provider that honours `{path}`"),
            Needs::Hosts => "with a provider that reports its hosts".to_owned(),
            Needs::Nothing(why) => format!("not in this version: {why}"),
        };
        let _ = writeln!(page, "| `{}` | {needs} |", field.path);
    }
}

fn of_kind(page: &mut String, fields: &Fields) {
    if fields.never.is_empty() && fields.sometimes.is_empty() {
        return;
    }
    let _ = writeln!(
        page,
        "\n## {}\n\n| field | has no effect |\n|---|---|",
        fields.kind
    );
    for never in fields.never {
        let _ = writeln!(page, "| `{}` | {} |", never.path, never.why);
    }
    for (path, when) in fields.sometimes {
        let _ = writeln!(page, "| `{path}` | {when} |");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use polyvirt_api::infra::{Provider, VMClass, VMNetworkAttachment, VirtualMachine};
    use polyvirt_contract::Features;
    use polyvirt_engine::provider::sessions::type_word;
    use polyvirt_plan::honoured::{fields_in_use, ignored, provider};
    use serde_json::Value;

    /// The objects of a file of samples.
    fn objects(path: &Path) -> Vec<Value> {
        let text = fs::read_to_string(path).expect("a sample");
        let documents = text.split("\n---\n");
        let parsed = documents.map(|d| serde_saphyr::from_str::<Value>(d).expect("YAML"));
        parsed.filter(|object| !object.is_null()).collect()
    }

    fn of<K: serde::de::DeserializeOwned>(objects: &[Value], kind: &str) -> Vec<K> {
        let ours = |o: &&Value| {
            let group = o["apiVersion"].as_str().unwrap_or_default();
            o["kind"] == kind && group.starts_with("infra.virtrigaud.io/")
        };
        let found = objects.iter().filter(ours);
        found
            .map(|o| serde_json::from_value(o.clone()).expect("an object"))
            .collect()
    }

    fn features(provider: &Provider) -> Features {
        let kind = type_word(provider.spec.type_);
        let all = super::providers();
        let own = all
            .iter()
            .find(|(name, _)| *name == kind)
            .expect("a provider of ours");
        Features {
            provider_type: kind.to_owned(),
            honoured_fields: Some(own.1.iter().map(ToString::to_string).collect()),
            extensions: [polyvirt_contract::Extension::Inventory].into(),
            ..Features::default()
        }
    }

    fn named<K: kube::Resource>(all: &[K], name: &str) -> Option<usize> {
        all.iter()
            .position(|o| o.meta().name.as_deref() == Some(name))
    }

    /// What has no effect in the samples of one file.
    fn idle(objects: &[Value]) -> Vec<String> {
        let providers: Vec<Provider> = of(objects, "Provider");
        let classes: Vec<VMClass> = of(objects, "VMClass");
        let networks: Vec<VMNetworkAttachment> = of(objects, "VMNetworkAttachment");
        let mut found = Vec::new();
        for object in &providers {
            let mode = provider::mode(object, None);
            found.extend(provider::ignored(object, mode, Some(&features(object))));
        }
        for vm in of::<VirtualMachine>(objects, "VirtualMachine") {
            let spec = &vm.spec;
            let Some(at) = named(&providers, &spec.provider_ref.name) else {
                continue;
            };
            let class = spec
                .class_ref
                .as_ref()
                .and_then(|c| named(&classes, &c.name));
            let cards = spec.networks.iter().enumerate().filter_map(|(i, card)| {
                let at = named(&networks, &card.network_ref.as_ref()?.name)?;
                Some((i, &networks[at].spec))
            });
            let cards: Vec<_> = cards.collect();
            let in_use = fields_in_use(spec, class.map(|c| &classes[c].spec), &cards);
            found.extend(ignored(&in_use, &features(&providers[at])));
        }
        found
    }

    #[test]
    fn our_samples_set_no_field_that_has_no_effect() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/samples");
        let mut seen = 0;
        for entry in fs::read_dir(folder).expect("the samples") {
            let path = entry.expect("a file").path();
            let objects = objects(&path);
            seen += of::<VirtualMachine>(&objects, "VirtualMachine").len();
            assert_eq!(idle(&objects), Vec::<String>::new(), "{}", path.display());
        }
        assert!(seen >= 3, "The samples were not read: {seen} VMs");
    }
}
