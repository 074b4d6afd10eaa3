//! Tables: what a request becomes, and what KubeVirt's answers mean. Every object is held against what KubeVirt's webhooks
//! refuse.
#![allow(
    clippy::needless_pass_by_value,
    reason = "tables read better without references"
)]

mod cards;
mod disks;
mod machine;
mod seats;
mod states;

use polyvirt_api::kubevirt::KubevirtOptions;
use polyvirt_contract::model::{ClassSpec, CreateVm, ImageSource, NicSpec, Owner};
use polyvirt_testkit::kubevirt_sim::refusal;
use serde_json::Value;

use crate::kinds::VmKey;
use crate::map::cards::cards;
use crate::map::cloud_init::Seed;
use crate::map::layout::Layout;
use crate::map::seat::Seat;
use crate::map::to_kubevirt::{Hot, Making, Run, Wish};

pub(super) fn key() -> VmKey {
    VmKey::new("team", "web")
}

pub(super) fn nic(name: &str) -> NicSpec {
    NicSpec {
        name: name.to_owned(),
        ..NicSpec::default()
    }
}

pub(super) fn request() -> CreateVm {
    CreateVm {
        owner: Some(Owner {
            identity: "id-1".into(),
            namespace: "team".to_owned(),
            name: "web".to_owned(),
        }),
        name: "web".to_owned(),
        class: ClassSpec {
            cpu: 4,
            memory_mib: 2048,
            ..ClassSpec::default()
        },
        image: ImageSource {
            format: "blank".to_owned(),
            ..ImageSource::default()
        },
        networks: vec![nic("net")],
        ..CreateVm::default()
    }
}

/// The VirtualMachine, which KubeVirt must take.
pub(super) fn built(
    request: &CreateVm,
    options: &KubevirtOptions,
    live: Option<&Value>,
    hot: Hot,
) -> Value {
    let key = key();
    let layout = Layout::of(request, options, &key).expect("a layout");
    let cards = cards(&request.networks, options, "id-1").expect("cards");
    let seed = Seed::of(request, &cards, options.cloud_init.unwrap_or_default());
    let wish = Wish {
        key: &key,
        request,
        options,
        layout: &layout,
        cards: &cards,
        seed: seed.as_ref(),
        run: Run::Halted,
        making: Making::Done,
        live,
        seat: Seat::of(request, options, None),
        hot,
        leaving: &[],
        cluster: "here",
    };
    let vm = wish.virtual_machine().expect("an object");
    assert_eq!(refusal(&vm), None, "{vm:#}");
    vm
}

pub(super) fn with(change: impl FnOnce(&mut CreateVm, &mut KubevirtOptions)) -> Value {
    let (mut request, mut options) = (request(), KubevirtOptions::default());
    change(&mut request, &mut options);
    built(&request, &options, None, Hot::Stopped)
}

/// What one change of the request must put where.
pub(super) fn says(what: &str, vm: &Value, expected: &[(&str, Value)]) {
    for (path, value) in expected {
        let pointer = path
            .replace("DOMAIN", "/spec/template/spec/domain")
            .replace("POD", "/spec/template/spec");
        let found = vm.pointer(&pointer).cloned().unwrap_or_default();
        assert_eq!(found, *value, "{what}: {path} of {vm:#}");
    }
}
