//! Two hosts, each a process of its own in a network name space of its own, and one fleet in front of them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use polyvirt_contract::grpc::{self, Listen, ServeOptions, ServerCheck, ServerTls};
use polyvirt_contract::model::{CreateVm, Placement, VmRef};
use polyvirt_contract::{Credentials, Provider};
use polyvirt_provider_lab::Patience;
use polyvirt_provider_lab::wire::{Tap, Wire};
use polyvirt_provider_qemu::{Fleet, FleetConfig, Qemu, QemuConfig};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::lab::{guest_image, kill_machines, share_knowledge};

/// Ports on which moves come in.
const PORTS: std::ops::RangeInclusive<u16> = 49320..=49325;
/// One of them, for who comes without us.
pub const BARE_PORT: u16 = 49325;
/// The port of the providers.
const PORT: u16 = 9443;
const PATIENCE: Duration = Duration::from_secs(150);
/// Says to this program that it is a host, and which.
const ENDPOINT: &str = "POLYVIRT_TEST_HOST_ENDPOINT";
const CERTIFICATES: &str = "POLYVIRT_TEST_HOST_TLS";
const BIND: &str = "POLYVIRT_TEST_HOST_BIND";

/// Who signs all certificates of a pair.
fn authority() -> (Issuer<'static, KeyPair>, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("sound");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "hosts");
    let pem = params.self_signed(&key).expect("signed").pem();
    (Issuer::new(params, key), pem)
}

/// The three files of one side, by their names.
fn certificates(
    authority: &(Issuer<'static, KeyPair>, String),
    name: &str,
) -> [(&'static str, String); 3] {
    let (issuer, ca) = authority;
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("sound");
    params.distinguished_name.push(DnType::CommonName, name);
    let signed = params.signed_by(&key, issuer).expect("signed").pem();
    [
        ("ca.crt", ca.clone()),
        ("tls.crt", signed),
        ("tls.key", key.serialize_pem()),
    ]
}

/// A host: a folder, and a process that can be killed.
pub struct Host {
    pub folder: tempfile::TempDir,
    space: String,
    bind: String,
    endpoint: String,
    process: Option<Child>,
}

impl Host {
    fn new(name: &str, space: &str, bind: &str, move_address: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        share_knowledge(&state.join("accel.json"));
        let images = guest_image().parent().expect("a folder").display();
        let (first, last) = (PORTS.start(), PORTS.end());
        let endpoint = format!(
            "qemu://{}?host={name}&imageDir={images}&moveAddress={move_address}&moveListen={bind}&movePorts={first}-{last}&moveStall=5",
            state.display()
        );
        Self {
            folder,
            space: space.to_owned(),
            bind: bind.to_owned(),
            endpoint,
            process: None,
        }
    }

    fn write(&self, files: &[(&str, String)]) {
        let folder = self.folder.path().join("tls");
        std::fs::create_dir_all(&folder).expect("made");
        for (name, text) in files {
            std::fs::write(folder.join(name), text).expect("written");
        }
    }

    /// Starts the provider of this host.
    pub fn run(&mut self) {
        let program = std::env::current_exe().expect("this program");
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.path().join("log"))
            .expect("a log");
        let child = Command::new("ip")
            .args(["netns", "exec", &self.space])
            .arg(program)
            .args(["--exact", "hosts::a_host_serves", "--nocapture"])
            .env(ENDPOINT, &self.endpoint)
            .env(BIND, format!("{}:{PORT}", self.bind))
            .env(CERTIFICATES, self.folder.path().join("tls"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("cloned"))
            .stderr(log)
            .spawn();
        self.process = Some(child.expect("ip runs"));
    }

    /// Ends the provider as a fault does. Its VMs go on.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("killed");
            process.wait().expect("ended");
        }
    }

    pub fn vm_folder(&self, vm: &VmRef) -> PathBuf {
        self.folder.path().join("state/vms").join(vm.id.as_str())
    }

    /// The process of a VM that runs here.
    pub fn pid(&self, vm: &VmRef) -> i32 {
        let file = self.vm_folder(vm).join("run/qemu.pid");
        let text = std::fs::read_to_string(file).expect("a process");
        text.trim().parse().expect("a number")
    }

    fn runs(&self, vm: &VmRef) -> bool {
        let file = self.vm_folder(vm).join("run/qemu.pid");
        let pid = std::fs::read_to_string(file).unwrap_or_default();
        Path::new(&format!("/proc/{}/stat", pid.trim())).exists() && !pid.is_empty()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.folder.path().join("log"));
            let log = log.unwrap_or_default();
            let _ = writeln!(std::io::stderr(), "{}: {log}", self.endpoint);
        }
        self.kill();
        kill_machines(self.folder.path());
    }
}

/// The process of a host: this program again, told to be one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_serves() {
    let Ok(endpoint) = std::env::var(ENDPOINT) else {
        let hosts = Hosts::start("nothing").await;
        let names = hosts.fleet.inventory().await.expect("told").hosts;
        let names: Vec<_> = names.into_iter().map(|host| host.name).collect();
        assert_eq!(names, ["hv-a", "hv-b"]);
        return;
    };
    let config = QemuConfig::from_url(&endpoint).expect("readable");
    let provider = Qemu::open(config).await.expect("opened");
    let address = std::env::var(BIND).expect("given").parse().expect("sound");
    let mut options = ServeOptions::new(Listen::Address(address));
    let certificates = std::env::var(CERTIFICATES).expect("given");
    options.tls = Some(ServerTls::in_directory(certificates));
    grpc::serve(provider, options, std::future::pending())
        .await
        .expect("served");
}

/// Both hosts, and what is between them.
pub struct Hosts {
    pub a: Host,
    pub b: Host,
    pub fleet: Arc<dyn Provider>,
    pub to_a: Arc<Tap>,
    pub to_b: Arc<Tap>,
    pub wire: Wire,
    credentials: Credentials,
}

impl Patience for Hosts {
    fn provider(&self) -> &dyn Provider {
        &*self.fleet
    }

    fn luggage(&self) -> u64 {
        190 << 20
    }
}

impl Hosts {
    pub async fn start(marker: &str) -> Self {
        let wire = Wire::lay(PORTS);
        let authority = authority();
        let mut hosts = [0, 1].map(|place| {
            let name = ["hv-a", "hv-b"][place];
            let (inside, seen) = (wire.inside(place), wire.seen(place));
            let host = Host::new(name, wire.name(place), &inside, &seen);
            host.write(&certificates(&authority, &inside));
            host
        });
        hosts.iter_mut().for_each(Host::run);
        let credentials = certificates(&authority, "manager").into_iter().collect();
        let (to_b, to_a) = (wire.tap(0, 1, marker), wire.tap(1, 0, marker));
        let [a, b] = hosts;
        let pair = Self {
            fleet: open(&wire, &credentials),
            a,
            b,
            to_a,
            to_b,
            wire,
            credentials,
        };
        pair.answers().await;
        pair
    }

    /// Waits until both hosts answer.
    pub async fn answers(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if self.fleet.list_vms().await.is_ok() && self.fleet.validate().await.is_ok() {
                return;
            }
            assert!(Instant::now() < deadline, "the hosts do not answer");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Another life of the fleet: the one that was is gone.
    pub fn restart_fleet(&mut self) {
        self.fleet = open(&self.wire, &self.credentials);
    }

    /// Waits until the move is settled: exactly one host has the VM, it runs there, and the other has nothing of it.
    pub async fn only_at(&self, vm: &VmRef, host: &str) {
        let (has, other) = if host == "hv-a" {
            (&self.a, &self.b)
        } else {
            (&self.b, &self.a)
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let record = std::fs::read_to_string(has.vm_folder(vm).join("vm.json"));
            let settled = record.is_ok_and(|text| !text.contains("\"moving\""));
            if settled && has.runs(vm) && !other.vm_folder(vm).exists() {
                break;
            }
            assert!(Instant::now() < deadline, "{host}: it is never settled");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(!has.vm_folder(vm).join("run/move").exists(), "no key stays");
        let all = self.fleet.list_vms().await.expect("listed");
        let hosts: Vec<_> = all.iter().map(|state| state.host.as_str()).collect();
        assert_eq!(hosts, [host]);
    }
}

/// The same on the host `hv-a`.
pub fn on_first(request: CreateVm) -> CreateVm {
    CreateVm {
        placement: Some(Placement {
            host: "hv-a".to_owned(),
            ..Placement::default()
        }),
        ..request
    }
}

fn open(wire: &Wire, credentials: &Credentials) -> Arc<dyn Provider> {
    let address = |place| format!("qemu+tls://{}:{PORT}", wire.inside(place));
    let url = format!("{},{}", address(0), address(1));
    let config = FleetConfig::from_url(&url, credentials, ServerCheck::Full);
    Fleet::open(config.expect("readable")).expect("opened")
}
