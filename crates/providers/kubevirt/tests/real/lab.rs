//! A cluster with a simulated KubeVirt, and a provider that uses it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use polyvirt_api::kubevirt::{KubevirtOptions, OPTIONS_KEY};
use polyvirt_contract::model::{
    ClassSpec, CreateVm, ImageSource, NicSpec, Owner, PowerOp, PowerState, VmRef, VmState,
};
use polyvirt_contract::watch::{TaskState, VmEvent};
use polyvirt_contract::{Provider, Result, TaskId};
use polyvirt_provider_kubevirt::{KUBECONFIG_KEY, Kubevirt, KubevirtConfig};
use polyvirt_testkit::ControlPlane;
use polyvirt_testkit::kubevirt_sim::{self, Kinds, KubevirtSim, Settings};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// How long anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The same in a cluster with a real KubeVirt. It begins moves in turns of a minute, and Kubernetes keeps a claim that was deleted
/// for half a minute.
const PATIENCE_WITH_REAL: Duration = Duration::from_secs(150);

/// How long anything may take there.
pub fn patience() -> Duration {
    match std::env::var_os(REAL_CLUSTER) {
        Some(_) => PATIENCE_WITH_REAL,
        None => PATIENCE,
    }
}

/// A cluster that a test may use.
pub struct Lab {
    pub client: Client,
    pub provider: Arc<Kubevirt>,
    pub namespace: String,
    _sim: Option<KubevirtSim>,
}

/// The shared control plane; the simulator runs in a thread of its own, for tests have runtimes of their own.
async fn shared() -> &'static ControlPlane {
    static READY: OnceCell<()> = OnceCell::const_new();
    let plane = polyvirt_testkit::shared().await.expect("a control plane");
    READY.get_or_init(|| simulate(plane)).await;
    plane
}

async fn simulate(plane: &'static ControlPlane) {
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let _sim = sim_on(plane).await;
            let _ = tell.send(());
            std::future::pending::<()>().await;
        });
    });
    told.await.expect("the simulator starts");
}

/// A simulator on that control plane.
pub async fn sim_on(plane: &ControlPlane) -> KubevirtSim {
    let client = plane.client().expect("a client");
    let kinds = match std::env::var("POLYVIRT_REAL_CRDS") {
        Ok(folders) => {
            let found: Vec<_> = folders.split(':').flat_map(definitions).collect();
            let installed = polyvirt_testkit::install_crds(&client, &found);
            installed.await.expect("the definitions are served");
            Kinds::AreThere
        }
        Err(_) => Kinds::Own,
    };
    let settings = Settings {
        kinds,
        ..Settings::default()
    };
    let sim = kubevirt_sim::start(client, settings);
    sim.await.expect("the simulator starts")
}

fn definitions(folder: &str) -> Vec<CustomResourceDefinition> {
    let files = std::fs::read_dir(Path::new(folder)).expect("a folder of definitions");
    let read = |file: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("readable");
        serde_saphyr::from_str(&text).expect("a resource definition")
    };
    files.map(read).collect()
}

/// A provider that has only the kubeconfig of that control plane.
pub async fn provider_on(plane: &ControlPlane, url: &str) -> Arc<Kubevirt> {
    let kubeconfig = std::fs::read(plane.kubeconfig_path()).expect("a kubeconfig");
    provider_with(kubeconfig, url).await
}

/// Where the kubeconfig is of a cluster with a real KubeVirt, in place of the simulated one. Tests that make things go wrong
/// need the simulator and fail there.
const REAL_CLUSTER: &str = "POLYVIRT_KUBEVIRT_KUBECONFIG";

/// A provider that has only that kubeconfig.
async fn provider_with(kubeconfig: Vec<u8>, url: &str) -> Arc<Kubevirt> {
    let credentials = BTreeMap::from([(KUBECONFIG_KEY.to_owned(), kubeconfig)]);
    let config = KubevirtConfig::from_url(url).expect("readable");
    let config = config.with_credentials(&credentials).expect("usable");
    Kubevirt::open(config).await.expect("opens")
}

impl Lab {
    /// On the shared control plane, or in the cluster that was named, in a namespace of its own.
    pub async fn new() -> Self {
        if let Ok(path) = std::env::var(REAL_CLUSTER) {
            return Self::in_cluster(Path::new(&path)).await;
        }
        let plane = shared().await;
        let client = plane.client().expect("a client");
        let namespace = polyvirt_testkit::namespace(&client, "kubevirt").await;
        Self {
            provider: provider_on(plane, "kubevirt://kubeconfig").await,
            namespace: namespace.expect("a namespace"),
            client,
            _sim: None,
        }
    }

    /// Another provider of the same cluster.
    pub async fn another(&self, url: &str) -> Arc<Kubevirt> {
        match std::env::var(REAL_CLUSTER) {
            Ok(path) => provider_with(std::fs::read(path).expect("a kubeconfig"), url).await,
            Err(_) => provider_on(shared().await, url).await,
        }
    }

    async fn in_cluster(path: &Path) -> Self {
        let kubeconfig = std::fs::read(path).expect("a kubeconfig");
        let read = kube::config::Kubeconfig::read_from(path).expect("a kubeconfig");
        let options = kube::config::KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(read, &options);
        let provider = provider_with(kubeconfig, "kubevirt://kubeconfig").await;
        let client = Client::try_from(config.await.expect("usable")).expect("a client");
        let namespace = polyvirt_testkit::namespace(&client, "kubevirt").await;
        Self {
            provider,
            namespace: namespace.expect("a namespace"),
            client,
            _sim: None,
        }
    }

    /// On a control plane of the test's own.
    pub async fn on(plane: &ControlPlane) -> Self {
        let client = plane.client().expect("a client");
        let sim = sim_on(plane).await;
        Self {
            provider: provider_on(plane, "kubevirt://kubeconfig").await,
            namespace: polyvirt_testkit::namespace(&client, "kubevirt")
                .await
                .expect("a namespace"),
            client,
            _sim: Some(sim),
        }
    }

    pub fn owner(&self, name: &str) -> Owner {
        Owner {
            identity: format!("{}-{name}", self.namespace).into(),
            namespace: self.namespace.clone(),
            name: name.to_owned(),
        }
    }

    /// A small VM with an empty disk.
    pub fn wish(&self, name: &str) -> CreateVm {
        CreateVm {
            owner: Some(self.owner(name)),
            name: name.to_owned(),
            class: ClassSpec {
                cpu: 2,
                memory_mib: 512,
                ..ClassSpec::default()
            },
            image: ImageSource {
                format: "blank".to_owned(),
                ..ImageSource::default()
            },
            networks: vec![NicSpec {
                name: "net".to_owned(),
                ..NicSpec::default()
            }],
            ..CreateVm::default()
        }
    }

    pub async fn make(&self, wish: CreateVm) -> VmRef {
        let owner = wish.owner.clone();
        let made = self.provider.create(wish).await.expect("made");
        VmRef { id: made.id, owner }
    }

    pub async fn running(&self, wish: CreateVm) -> VmRef {
        let vm = self.make(wish).await;
        self.switch(&vm, PowerOp::On, PowerState::On).await;
        vm
    }

    pub async fn switch(&self, vm: &VmRef, op: PowerOp, power: PowerState) -> VmState {
        let done = self.provider.power(vm, op.into()).await;
        done.expect("switched");
        self.until(vm, |state| state.power == power).await
    }

    pub async fn state(&self, vm: &VmRef) -> VmState {
        let state = self.provider.describe(&vm.id).await.expect("an answer");
        state.expect("it is there")
    }

    pub async fn until(&self, vm: &VmRef, fits: impl Fn(&VmState) -> bool) -> VmState {
        let begin = Instant::now();
        loop {
            let state = self.state(vm).await;
            if fits(&state) {
                return state;
            }
            assert!(begin.elapsed() < patience(), "waited in vain: {state:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for a task to end well.
    pub async fn done(&self, task: Option<TaskId>) {
        let begin = Instant::now();
        while let Some(task) = &task {
            let state = self.provider.task_status(task).await.expect("known");
            if state == TaskState::Succeeded {
                return;
            }
            assert!(begin.elapsed() < patience(), "{state:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Changes KubeVirt's own object.
    pub async fn kubevirt(&self, change: Value) {
        let kind = GroupVersionKind::gvk("kubevirt.io", "v1", "KubeVirt");
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), "kubevirt", &resource);
        let patch = Patch::Merge(change);
        let params = PatchParams::default();
        api.patch("kubevirt", &params, &patch)
            .await
            .expect("changed");
    }

    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version) = match kind {
            "PersistentVolumeClaim" | "Secret" => ("", "v1"),
            "DataVolume" | "DataSource" => ("cdi.kubevirt.io", "v1beta1"),
            "NetworkAttachmentDefinition" => ("k8s.cni.cncf.io", "v1"),
            "VirtualMachineInstancetype" | "VirtualMachinePreference" => {
                ("instancetype.kubevirt.io", "v1beta1")
            }
            _ => ("kubevirt.io", "v1"),
        };
        let mut resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if kind == "NetworkAttachmentDefinition" {
            resource.plural = String::from("network-attachment-definitions");
        }
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    pub async fn names(&self, kind: &str) -> Vec<String> {
        let all = self.api(kind).list(&ListParams::default()).await;
        let all = all.expect("a list").items.into_iter();
        all.filter_map(|object| object.metadata.name).collect()
    }

    pub async fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.api(kind).get(name).await.expect("there");
        serde_json::to_value(found).expect("JSON")
    }

    /// Writes an object as somebody else would.
    pub async fn put(&self, kind: &str, object: Value) {
        let name = object["metadata"]["name"]
            .as_str()
            .expect("a name")
            .to_owned();
        let params = PatchParams::apply("somebody").force();
        let (api, patch) = (self.api(kind), Patch::Apply(object));
        api.patch(&name, &params, &patch).await.expect("written");
    }

    /// Changes an object as somebody else would.
    pub async fn change(&self, kind: &str, name: &str, change: Value) {
        let params = PatchParams::default();
        let (api, patch) = (self.api(kind), Patch::Merge(change));
        api.patch(name, &params, &patch).await.expect("changed");
    }
}

/// A class with options that only KubeVirt knows.
pub fn with_options(mut wish: CreateVm, options: &KubevirtOptions) -> CreateVm {
    let text = options.to_text();
    wish.class.extra_config.insert(OPTIONS_KEY.to_owned(), text);
    wish
}

/// A stream that has told all VMs.
pub async fn synced(provider: &Kubevirt) -> BoxStream<'static, Result<VmEvent>> {
    let mut stream = provider.watch().await.expect("a stream");
    while next(&mut stream).await != VmEvent::Synced {}
    stream
}

/// The next word of a stream.
pub async fn next(stream: &mut BoxStream<'static, Result<VmEvent>>) -> VmEvent {
    let next = tokio::time::timeout(PATIENCE, stream.next()).await;
    next.expect("in time").expect("goes on").expect("an event")
}

/// The first event that fits, and how long it took.
pub async fn first(
    stream: &mut BoxStream<'static, Result<VmEvent>>,
    fits: impl Fn(&VmEvent) -> bool,
) -> (VmEvent, Duration) {
    let begin = Instant::now();
    loop {
        let event = next(stream).await;
        if fits(&event) {
            return (event, begin.elapsed());
        }
    }
}

/// A NetworkAttachmentDefinition of a bridge.
pub fn bridge_network(name: &str) -> Value {
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name},
        "spec": {"config": "{}"},
    })
}
