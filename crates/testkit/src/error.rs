use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// One of the programs that a control plane consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// The store.
    Etcd,
    /// The Kubernetes API server.
    ApiServer,
}

impl Component {
    /// The name of its program, and of its log without `.log`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a control plane could not be started or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No folder holds all the programs.
    #[error(
        "No etcd and kube-apiserver found (looked in {}): run `make tools`, or set \
         KUBEBUILDER_ASSETS to a folder that holds both", in_words(.looked_in)
    )]
    AssetsMissing {
        /// Every folder that was tried, in order.
        looked_in: Vec<PathBuf>,
    },

    /// Another process runs a control plane from the same folder.
    #[error(
        "Another process runs a control plane from {}: stop it, or choose another folder", .dir.display()
    )]
    InUse {
        /// The state folder.
        dir: PathBuf,
    },

    /// A program ended while it was needed.
    #[error("{component} ended with {status}; its log is {}, which ends with:\n{log_tail}", .log.display())]
    Exited {
        /// Which one.
        component: Component,
        /// How it ended.
        status: ExitStatus,
        /// Its whole log.
        log: PathBuf,
        /// The last lines of that log.
        log_tail: String,
    },

    /// Nothing is kept where something was to be removed.
    #[error("etcd keeps nothing at /registry/{place}")]
    NotStored {
        /// The place.
        place: String,
    },

    /// A process that was to stay has ended.
    #[error("{name} has ended; its log is {}, which ends with:\n{log_tail}", .log.display())]
    Ended {
        /// Which one.
        name: String,
        /// Its whole log.
        log: PathBuf,
        /// The last lines of that log.
        log_tail: String,
    },

    /// Somebody else listens where a component has to.
    #[error(
        "Port {port} of 127.0.0.1, which {name} needs, is taken by {holder}: stop that, or choose \
         another port"
    )]
    PortTaken {
        /// The component.
        name: String,
        /// The port.
        port: u16,
        /// Who has it, as far as we can see.
        holder: String,
        /// What the system said.
        source: std::io::Error,
    },

    /// The API server runs but does not become ready.
    #[error(
        "The API server is not ready after {} s ({reason}); its log is {}, which ends with:\n{log_tail}",
        .waited.as_secs(), .log.display()
    )]
    NotReady {
        /// How long it was given.
        waited: Duration,
        /// What the last question for its health gave.
        reason: String,
        /// Its whole log.
        log: PathBuf,
        /// The last lines of that log.
        log_tail: String,
    },

    /// The component was asked something while it does not run.
    #[error("{component} does not run: start it first")]
    NotRunning {
        /// Which one.
        component: Component,
    },

    /// A resource definition was accepted but is not served.
    #[error("The resource definition {name} is not served after {} s: {reason}", .waited.as_secs())]
    CrdNotServed {
        /// The name of the definition.
        name: String,
        /// How long it was given.
        waited: Duration,
        /// What the server said last.
        reason: String,
    },

    /// A file or a process of the machine.
    #[error("Cannot {doing}: {source}")]
    Io {
        /// What was tried, as a verb and its object.
        doing: String,
        /// What the system said.
        source: std::io::Error,
    },

    /// A state file that cannot be read as what it should be.
    #[error("{} is damaged ({source}): remove it", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        source: serde_json::Error,
    },

    /// The certificates could not be made.
    #[error("Cannot make the certificates: {0}")]
    Certificates(#[from] rcgen::Error),

    /// The kubeconfig that was just written does not work.
    #[error("The kubeconfig is not usable: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),

    /// The API server does not say by which certificate others know it.
    #[error(
        "The API server does not publish requestheader-client-ca-file in kube-system/extension-apiserver-authentication: \
         start it with --requestheader-client-ca-file"
    )]
    NoFrontProxy,

    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),

    /// An object of ours is not what the API server takes.
    #[error("Cannot write an object: {0}")]
    Object(#[from] serde_json::Error),

    /// What the API server answered.
    #[error("The API server refused: {0}")]
    Kube(#[from] kube::Error),
}

impl Error {
    /// True if a new attempt on other ports may succeed.
    pub(crate) fn is_port_taken(&self) -> bool {
        matches!(self, Self::Exited { log_tail, .. } if log_tail.contains("address already in use"))
    }
}

/// Adds what was tried to an I/O error.
pub(crate) trait Doing<T> {
    fn doing(self, verb: &str, path: &Path) -> Result<T, Error>;
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, verb: &str, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::Io {
            doing: format!("{verb} {}", path.display()),
            source,
        })
    }
}

fn in_words(folders: &[PathBuf]) -> String {
    let names: Vec<_> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    if names.is_empty() {
        "no folder: HOME is not set".to_owned()
    } else {
        names.join(", ")
    }
}
