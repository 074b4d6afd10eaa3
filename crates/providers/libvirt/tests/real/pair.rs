//! Two hosts, each in a network name space of its own, and one provider of both.

use std::collections::BTreeMap;
use std::sync::Arc;

use polyvirt_contract::Provider;
use polyvirt_contract::model::{ClassSpec, CreateVm, ImageSource, Placement, VmRef};
use polyvirt_provider_lab::Patience;
use polyvirt_provider_lab::wire::{Tap, Wire};
use polyvirt_provider_libvirt::{LibvirtConfig, open_all};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::host::Host;
use crate::lab::{guest_image, nic, owner};

/// Ports that libvirt gives out for moves.
const PORTS: std::ops::RangeInclusive<u16> = 49152..=49159;

/// The two ends and what is between them.
pub struct Pair {
    pub a: Host,
    pub b: Host,
    pub provider: Arc<dyn Provider>,
    pub to_a: Arc<Tap>,
    pub to_b: Arc<Tap>,
    pub wire: Wire,
    /// What both hosts see.
    pub shared: tempfile::TempDir,
}

/// Certificates of one host, good for its addresses, by the names that QEMU knows them by.
fn certificates(
    authority: &(Issuer<'static, KeyPair>, String),
    names: &[String],
) -> Vec<(&'static str, String)> {
    let (issuer, ca) = authority;
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(names.to_vec()).expect("sound");
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, names[0].as_str());
    let signed = params.signed_by(&key, issuer).expect("signed").pem();
    vec![
        ("ca-cert.pem", ca.clone()),
        ("server-cert.pem", signed.clone()),
        ("server-key.pem", key.serialize_pem()),
        ("client-cert.pem", signed),
        ("client-key.pem", key.serialize_pem()),
    ]
}

fn authority() -> (Issuer<'static, KeyPair>, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("sound");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "moves");
    let pem = params.self_signed(&key).expect("signed").pem();
    (Issuer::new(params, key), pem)
}

impl Patience for Pair {
    fn provider(&self) -> &dyn Provider {
        &*self.provider
    }

    fn luggage(&self) -> u64 {
        150 << 20
    }
}

impl Pair {
    /// Two hosts, with an image on each, and one provider of both.
    pub async fn start(marker: &str) -> Self {
        let wire = Wire::lay(PORTS);
        let authority = authority();
        let host = |place: usize| {
            let outside = wire.seen(place);
            let names = [outside, wire.inside(place)];
            let uuid = format!("5e9d6e1c-0000-4000-8000-00000000000{place}");
            Host::within(wire.name(place), &uuid, &certificates(&authority, &names))
        };
        let (a, b) = (host(0), host(1));
        let shared = tempfile::tempdir().expect("a folder");
        for host in [&a, &b] {
            host.pool("shared", shared.path());
            let images = host.path("images");
            std::fs::create_dir_all(&images).expect("made");
            std::fs::copy(guest_image(), images.join("guest.qcow2")).expect("copied");
            host.pool("images", &images);
        }
        let (to_b, to_a) = (wire.tap(0, 1, marker), wire.tap(1, 0, marker));
        let pair = Self {
            provider: open_all(configs(&wire, &a, &b, "")),
            a,
            b,
            to_a,
            to_b,
            wire,
            shared,
        };
        pair.provider.validate().await.expect("both answer");
        pair
    }

    /// Another life of the provider: the one that was is gone.
    pub async fn restart(&mut self) {
        self.restart_with("").await;
    }

    /// The same with more options for the second host.
    pub async fn restart_with(&mut self, options: &str) {
        let urls = LibvirtConfig::list_from_url("qemu:///system?socket=/nowhere").expect("sound");
        drop(std::mem::replace(&mut self.provider, open_all(urls)));
        self.provider = open_all(configs(&self.wire, &self.a, &self.b, options));
        self.provider.validate().await.expect("both answer");
    }

    fn split(&self, host: &str) -> (&Host, &Host) {
        if host == "hv-a" {
            (&self.a, &self.b)
        } else {
            (&self.b, &self.a)
        }
    }

    /// Exactly one host has the VM, and it runs there.
    pub fn runs_only_at(&self, vm: &VmRef, host: &str) {
        let (has, other) = self.split(host);
        let lists = BTreeMap::from([
            ("runs", has.virsh(&["list", "--state-running", "--uuid"])),
            ("other", other.virsh(&["list", "--all", "--uuid"])),
        ]);
        assert!(lists["runs"].contains(vm.id.as_str()), "{host}: {lists:?}");
        assert!(
            !lists["other"].contains(vm.id.as_str()),
            "{host}: {lists:?}"
        );
    }

    /// The same, and the other has nothing of it, which had its disk in a pool of its own.
    pub fn only_at(&self, vm: &VmRef, host: &str) {
        self.runs_only_at(vm, host);
        let (has, other) = self.split(host);
        let of_vm = |host: &Host| {
            host.virsh(&["pool-refresh", "default"]);
            let all = host.volumes("default").into_iter();
            all.filter(|name| name.starts_with(vm.id.as_str())).count()
        };
        assert_eq!(of_vm(other), 0, "nothing is left behind");
        assert!(of_vm(has) >= 2, "the disk and the seed are there");
        let uri = "https://polyvirt.io/schema/libvirt/1";
        let marks = has.virsh(&["metadata", "--config", vm.id.as_str(), uri]);
        assert!(!marks.contains("<move"), "it is settled: {marks}");
    }
}

/// A small VM of the test guest on the first host.
pub fn desired(name: &str, number: u32, pool: &str) -> CreateVm {
    CreateVm {
        owner: Some(owner(name, number)),
        name: name.to_owned(),
        class: ClassSpec {
            cpu: 1,
            memory_mib: 192,
            ..ClassSpec::default()
        },
        image: ImageSource {
            path: "images/guest.qcow2".to_owned(),
            ..ImageSource::default()
        },
        placement: Some(Placement {
            host: "hv-a".to_owned(),
            datastore: pool.to_owned(),
            ..Placement::default()
        }),
        networks: vec![nic("eth0")],
        ..CreateVm::default()
    }
}

fn configs(wire: &Wire, a: &Host, b: &Host, options: &str) -> Vec<LibvirtConfig> {
    let url = |host: &Host, name: &str, place: usize| {
        let address = wire.seen(place);
        format!(
            "{}&host={name}&moveAddress={address}&moveStall=5",
            host.url()
        )
    };
    let urls = format!("{},{}{options}", url(a, "hv-a", 0), url(b, "hv-b", 1));
    LibvirtConfig::list_from_url(&urls).expect("readable")
}
