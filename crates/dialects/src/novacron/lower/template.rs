//! Labels and annotations of the template.

use std::collections::BTreeMap;

use polyvirt_api::novacron::VirtualMachine;

/// What others of ours read on a VirtualMachine: nobody sets it by the way of a template.
const RESERVED: [&str; 3] = ["virtrigaud.io", "polyvirt.io", "novacron.io"];

/// Those that go on to the VirtualMachine.
pub(super) fn allowed(words: BTreeMap<String, String>) -> BTreeMap<String, String> {
    words.into_iter().filter(|(key, _)| !is_ours(key)).collect()
}

/// The fields of those that do not.
pub fn reserved(vm: &VirtualMachine) -> Vec<String> {
    let Some(meta) = &vm.spec.template.metadata else {
        return Vec::new();
    };
    let words = [("labels", &meta.labels), ("annotations", &meta.annotations)];
    let fields = words.iter().flat_map(|(part, words)| {
        let ours = words.keys().filter(|key| is_ours(key));
        ours.map(move |key| format!("spec.template.metadata.{part}[{key}]"))
    });
    fields.collect()
}

fn is_ours(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    RESERVED
        .iter()
        .any(|r| domain == *r || domain.ends_with(&format!(".{r}")))
}
