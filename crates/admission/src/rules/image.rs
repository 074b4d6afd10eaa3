//! VMImages.

use polyvirt_api::infra::{VMImage, VMImageSource};
use polyvirt_engine::runtime::key::ObjectKey;
use polyvirt_engine::runtime::vm_index::Target;
use polyvirt_plan::Problem;
use polyvirt_plan::image::prepare_request;

use super::{Judged, checksum, references};
use crate::facts::Facts;

impl Judged for VMImage {
    fn problems(&self, _: &dyn Facts) -> Vec<Problem> {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let request = prepare_request(namespace, name, &self.spec).err();
        let digests = checksum::problems("spec.source", &self.spec.source);
        request.into_iter().chain(digests).collect()
    }

    fn warnings(&self, old: Option<&Self>, facts: &dyn Facts) -> Vec<String> {
        let mut found: Vec<_> = unverified("spec.source", &self.spec.source)
            .into_iter()
            .collect();
        found.extend(without_login(self, facts));
        if old.is_some_and(|old| old.spec.source != self.spec.source) {
            found.extend(users_keep_theirs(self, facts));
        }
        found
    }
}

fn without_login(image: &VMImage, facts: &dyn Facts) -> Option<String> {
    let login = image.spec.source.http.as_ref()?.authentication.as_ref()?;
    let basic = login
        .basic_auth
        .as_ref()
        .map(|b| ("basicAuth", &b.secret_ref));
    let bearer = login.bearer.as_ref().map(|b| ("bearer", &b.secret_ref));
    let (word, reference) = basic.or(bearer)?;
    let own = image.metadata.namespace.as_deref().unwrap_or_default();
    let field = format!("spec.source.http.authentication.{word}.secretRef");
    references::secret(&field, &references::local(own, reference), facts)
}

/// A download that anybody on the way may replace.
fn unverified(field: &str, source: &VMImageSource) -> Option<String> {
    let http = source.http.as_ref().map(|s| (s.url.as_str(), &s.checksum));
    let libvirt = source
        .libvirt
        .as_ref()
        .and_then(|s| Some((s.url.as_deref()?, &s.checksum)));
    let vsphere = source
        .vsphere
        .as_ref()
        .and_then(|s| Some((s.ova_url.as_deref()?, &s.checksum)));
    let open = [http, libvirt, vsphere]
        .into_iter()
        .flatten()
        .any(|(url, checksum)| {
            !url.starts_with("https://") && checksum.as_ref().is_none_or(String::is_empty)
        });
    open.then(|| format!("{field}: an image that comes in plain text and has no checksum can be replaced on its way; give checksum, or use https://"))
}

fn users_keep_theirs(image: &VMImage, facts: &dyn Facts) -> Option<String> {
    let users = facts.users(&Target::Image(ObjectKey::of(image)))?;
    (users.count > 0).then(|| {
        format!(
            "spec.source: {} VirtualMachines were made from the old image and keep their disks",
            users.count
        )
    })
}
