//! The programs that are real: Kubernetes' own controllers and scheduler, and KubeVirt's virt-api and virt-controller.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

pub type Failure = Box<dyn std::error::Error>;

/// A program that runs until it is dropped, or until we die in any way.
pub struct Program {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn start(
        name: &'static str,
        program: &Path,
        state: &Path,
        flags: &[String],
    ) -> Result<Self, Failure> {
        let log = state.join(format!("{name}.log"));
        let output = File::create(&log)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command.args(flags).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        let child = command.spawn()?;
        Ok(Self { name, child, log })
    }

    /// Says why if it has ended.
    pub fn check(&mut self) -> Result<(), Failure> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                let log = self.log.display();
                Err(format!("{} has ended ({status}): see {log}", self.name).into())
            }
        }
    }
}

/// Where things are.
pub struct Places {
    /// Folder with Kubernetes' programs.
    pub assets: PathBuf,
    /// Folder with KubeVirt's programs.
    pub kubevirt: PathBuf,
    /// Folder for kubeconfigs, certificates and logs.
    pub state: PathBuf,
    /// Folder with the certificates of the API server.
    pub cluster_pki: PathBuf,
    pub virt_api_port: u16,
    pub virt_handler_port: u16,
}

impl Places {
    pub fn pki(&self) -> PathBuf {
        self.state.join("pki")
    }

    fn config(&self, who: &str) -> String {
        let path = self.state.join(format!("{who}.kubeconfig"));
        format!("--kubeconfig={}", path.display())
    }

    fn cluster_file(&self, flag: &str, name: &str) -> String {
        format!("--{flag}={}", self.cluster_pki.join(name).display())
    }

    fn file(&self, flag: &str, name: &str) -> String {
        format!("--{flag}={}", self.pki().join(name).display())
    }
}

pub fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Has KubeVirt's own code write its objects and certificates.
pub fn objects(places: &Places) -> Result<Vec<Value>, Failure> {
    fs::create_dir_all(places.pki())?;
    let mut command = Command::new(places.kubevirt.join("objects"));
    command
        .arg(places.pki())
        .arg(places.virt_api_port.to_string());
    if !command.status()?.success() {
        return Err("KubeVirt's objects could not be written".into());
    }
    let text = fs::read(places.pki().join("objects.json"))?;
    let mut list: Value = serde_json::from_slice(&text)?;
    Ok(serde_json::from_value(list["items"].take())?)
}

/// Writes the kubeconfig of the administrator as one for an account of KubeVirt, with the rights of that account only.
pub fn kubeconfig(places: &Places, admin: &str, account: &str) -> Result<(), Failure> {
    let mut config: Value = serde_json::from_str(admin)?;
    let user = &mut config["users"][0]["user"];
    user["as"] = json!(format!("system:serviceaccount:kubevirt:{account}"));
    user["as-groups"] = json!([
        "system:serviceaccounts",
        "system:serviceaccounts:kubevirt",
        "system:authenticated",
    ]);
    let path = places.state.join(format!("{account}.kubeconfig"));
    Ok(fs::write(path, config.to_string())?)
}

/// Kubernetes' controllers and scheduler. There are no real nodes to watch over.
pub fn kubernetes(places: &Places) -> Result<Vec<Program>, Failure> {
    let common = [
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=300",
        "--kube-api-burst=500",
    ];
    let common = common.map(str::to_owned);
    let mut flags = vec![
        places.config("admin"),
        "--controllers=*,-node-lifecycle-controller,-node-ipam-controller,-cloud-node-lifecycle-controller".to_owned(),
        places.cluster_file("service-account-private-key-file", "service-account.key"),
        places.cluster_file("root-ca-file", "ca.crt"),
    ];
    flags.extend(common.clone());
    let controllers = "kube-controller-manager";
    let controllers = Program::start(
        controllers,
        &places.assets.join(controllers),
        &places.state,
        &flags,
    )?;
    let mut flags = vec![places.config("admin")];
    flags.extend(common);
    let scheduler = "kube-scheduler";
    let scheduler = Program::start(
        scheduler,
        &places.assets.join(scheduler),
        &places.state,
        &flags,
    )?;
    Ok(vec![controllers, scheduler])
}

pub fn virt_api(places: &Places) -> Result<Program, Failure> {
    let flags = [
        places.config("kubevirt-apiserver"),
        "--listen=127.0.0.1".to_owned(),
        format!("--port={}", places.virt_api_port),
        format!("--console-server-port={}", places.virt_handler_port),
        places.file("tls-cert-file", "virt-api.crt"),
        places.file("tls-key-file", "virt-api.key"),
        places.file("handler-cert-file", "virt-handler-client.crt"),
        places.file("handler-key-file", "virt-handler-client.key"),
    ];
    Program::start(
        "virt-api",
        &places.kubevirt.join("virt-api"),
        &places.state,
        &flags,
    )
}

pub fn virt_controller(places: &Places) -> Result<Program, Failure> {
    let flags = [
        places.config("kubevirt-controller"),
        "--listen=127.0.0.1".to_owned(),
        format!("--port={}", free_port()?),
        "--launcher-image=played".to_owned(),
        "--exporter-image=played".to_owned(),
        places.file("prom-cert-file", "virt-controller.crt"),
        places.file("prom-key-file", "virt-controller.key"),
    ];
    let program = places.kubevirt.join("virt-controller");
    Program::start("virt-controller", &program, &places.state, &flags)
}
