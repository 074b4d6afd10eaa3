//! Two hosts, each in a network name space of its own, and one provider of both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use polyvirt_contract::model::{
    ClassSpec, CreateVm, ExecRequest, ImageSource, MigrateVm, Placement, PowerOp, PowerState,
    VmRef, VmState,
};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{Provider, Result, TaskId};
use polyvirt_provider_libvirt::{LibvirtConfig, open_all};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::host::Host;
use crate::lab::{guest_image, nic, owner};
use crate::link::{Tap, Way, ip};

const PATIENCE: Duration = Duration::from_secs(120);

/// The two ends and what is between them.
pub struct Pair {
    pub a: Host,
    pub b: Host,
    pub provider: Arc<dyn Provider>,
    pub to_a: Arc<Tap>,
    pub to_b: Arc<Tap>,
    pub way: Way,
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

impl Pair {
    /// Two hosts, with an image on each, and one provider of both.
    pub async fn start(marker: &str) -> Self {
        let way = Way::lay();
        let authority = authority();
        let host = |place: usize| {
            let outside = way.address(place);
            let names = [outside, way.inside(place)];
            let uuid = format!("5e9d6e1c-0000-4000-8000-00000000000{place}");
            Host::within(&way.names[place], &uuid, &certificates(&authority, &names))
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
        let (to_b, to_a) = (way.tap(0, 1, marker), way.tap(1, 0, marker));
        let pair = Self {
            provider: open_all(configs(&way, &a, &b, "")),
            a,
            b,
            to_a,
            to_b,
            way,
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
        self.provider = open_all(configs(&self.way, &self.a, &self.b, options));
        self.provider.validate().await.expect("both answer");
    }

    /// Cuts the wire of the host `hv-a`, or mends it.
    pub fn link(&self, state: &str) {
        ip(&format!("link set v{} {state}", self.way.names[0]));
    }

    pub async fn boot(&self, name: &str, number: u32, pool: &str) -> VmRef {
        self.boots(desired(name, number, pool)).await
    }

    /// A guest that is up, as it is desired.
    pub async fn boots(&self, desired: CreateVm) -> VmRef {
        let created = self
            .provider
            .create(desired.clone())
            .await
            .expect("accepted");
        self.ended(Ok(created.task)).await.expect("made");
        let vm = VmRef {
            id: created.id,
            owner: desired.owner,
        };
        let on = self.provider.power(&vm, PowerOp::On.into()).await;
        self.ended(on).await.expect("on");
        self.until(&vm, "the guest to be up", |state| {
            state.power == PowerState::On && !state.ips.is_empty()
        })
        .await;
        vm
    }

    pub async fn ended(&self, answer: Result<Option<TaskId>>) -> Result<()> {
        let Some(task) = answer? else { return Ok(()) };
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.provider.task_status(&task).await.expect("known") {
                TaskState::Succeeded => return Ok(()),
                TaskState::Failed(error) => return Err(error),
                TaskState::Running { .. } => assert!(Instant::now() < deadline, "too slow"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn migrate(&self, vm: &VmRef, request: MigrateVm) -> Result<()> {
        let answer = self.provider.migrate(vm, request).await;
        self.ended(answer).await
    }

    /// A move that is under way, with the guest's memory on the wire.
    pub async fn sends(&self, vm: &VmRef, request: MigrateVm) -> TaskId {
        let answer = self.provider.migrate(vm, request).await;
        let task = answer.expect("accepted").expect("a task");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let progress = self.provider.migration_progress(&task).await.expect("told");
            // Beside the disk there is memory to send.
            if progress.total_bytes.is_some_and(|bytes| bytes > 150 << 20) {
                return task;
            }
            let state = self.provider.task_status(&task).await.expect("known");
            assert!(matches!(state, TaskState::Running { .. }), "{state:?}");
            assert!(Instant::now() < deadline, "it sends nothing: {progress:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub async fn state(&self, vm: &VmRef) -> VmState {
        let state = self.provider.describe(&vm.id).await;
        state.expect("answers").expect("there")
    }

    pub async fn until(
        &self,
        vm: &VmRef,
        what: &str,
        wanted: impl Fn(&VmState) -> bool,
    ) -> VmState {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let state = self.provider.describe(&vm.id).await;
            if let Ok(Some(state)) = &state
                && wanted(state)
            {
                return state.clone();
            }
            assert!(Instant::now() < deadline, "in vain for {what}: {state:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// What a command of the guest writes. A daemon that has just come up may need a moment to find the agent.
    pub async fn run(&self, vm: &VmRef, script: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = ExecRequest {
                command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
                stdin: Bytes::new(),
                timeout: Duration::from_secs(60),
            };
            match self.provider.guest_exec(vm, request).await {
                Ok(output) => {
                    assert_eq!(output.exit_code, 0, "{script}");
                    return String::from_utf8_lossy(&output.stdout).trim().to_owned();
                }
                Err(error) => assert!(Instant::now() < deadline, "{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
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

fn configs(way: &Way, a: &Host, b: &Host, options: &str) -> Vec<LibvirtConfig> {
    let url = |host: &Host, name: &str, place: usize| {
        let address = way.address(place);
        format!(
            "{}&host={name}&moveAddress={address}&moveStall=5",
            host.url()
        )
    };
    let urls = format!("{},{}{options}", url(a, "hv-a", 0), url(b, "hv-b", 1));
    LibvirtConfig::list_from_url(&urls).expect("readable")
}
