//! Every reason that a condition or an event can carry, in one place, with what a person should do about it.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {
        /// The reason of a condition or an event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name),+
        }

        impl Reason {
            /// All reasons, in the order of the reference page.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The word in the condition.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),+ }
            }

            /// What it means and what to do, for the reference page.
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+)),+ }
            }

            /// The reason of that word.
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|r| r.as_str() == word)
            }
        }

        impl std::fmt::Display for Reason {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

reasons! {
    /// The VM, or the object, is as declared.
    ReconcileSuccess,
    /// A host was chosen for the VM.
    Placed,
    /// No host can take the VM; the message counts what is against them, and `polyvirt vm explain` tells it of each. Looked at again when a VM goes and with growing pauses.
    Unschedulable,
    /// The VM is being created on the hypervisor.
    Creating,
    /// The VM was created on the hypervisor.
    Created,
    /// The VM runs.
    Running,
    /// The VM is off, as declared.
    Stopped,
    /// The VM is being started.
    PoweringOn,
    /// The VM is being stopped without asking the guest.
    PoweringOff,
    /// The guest was asked to shut down; after the timeout the VM is stopped hard.
    ShuttingDown,
    /// The guest did not shut down in time and was stopped hard.
    GracefulTimeout,
    /// The VM is being restarted.
    Rebooting,
    /// The VM is being paused: its memory stays, its processors stop.
    Pausing,
    /// A reboot was asked for while the VM was off or paused; there is nothing to reboot.
    RebootSkipped,
    /// Size, disks or networks are being changed.
    Reconfiguring,
    /// Size, disks or networks were changed.
    Reconfigured,
    /// A change is stored and takes effect at the next restart. Restart the VM, or set spec.reconfigurePolicy.restart to WhenNeeded.
    RestartRequired,
    /// A task of the provider is at work.
    TaskInProgress,
    /// A task of the provider failed; it is tried again with growing pauses.
    TaskFailed,
    /// The VM is being deleted on the hypervisor.
    Deleting,
    /// The VM is gone from the hypervisor, and that was proved.
    Deleted,
    /// The object is gone and the VM stays, as spec.deletionPolicy or the annotation virtrigaud.io/orphan-on-delete says.
    Retained,
    /// The object was deleted by force; the VM may still be on the hypervisor.
    ForceDeleted,
    /// The object is gone; the VM under its name is somebody else's and was not touched.
    NotOurs,
    /// The pause annotation is set; remove virtrigaud.io/paused to go on.
    Paused,
    /// Something that the object refers to does not exist yet. Create it or correct the name.
    WaitingForDependencies,
    /// The Provider, class or image is in another namespace and not shared with this one. Its spec.consumerNamespaceSelector must match the namespace; looked at again every minute.
    ConsumerNotAllowed,
    /// The image is being brought to the provider.
    WaitingForImage,
    /// The image cannot be had on this provider. See the VMImage.
    ImageFailed,
    /// There is no Provider of that name.
    ProviderNotFound,
    /// The provider or its hypervisor cannot be reached; nothing is lost, work goes on when it answers.
    ProviderUnavailable,
    /// The provider answered with an error; it is tried again with growing pauses.
    ProviderError,
    /// The provider did not answer in time; it is tried again with growing pauses.
    ProviderTimeout,
    /// The provider refused the request as it is; change the field that the message names.
    InvalidRequest,
    /// A field of the object is wrong; change the field that the message names.
    InvalidSpec,
    /// A Secret that the object names does not exist or lacks the key.
    SecretInvalid,
    /// The user data is not valid cloud-init or Ignition.
    UserDataInvalid,
    /// A VM of that name is on the hypervisor and is not ours. Rename one of them.
    NameConflict,
    /// The VM carries the identity of another object, or two objects carry one identity.
    IdentityConflict,
    /// The VM's state forbids the change for now.
    PreconditionFailed,
    /// The provider cannot do this at all.
    UnsupportedByProvider,
    /// The hypervisor refused the credentials. Correct the Secret of the Provider.
    CredentialsRefused,
    /// The hypervisor forbids this to our account. Give it the right.
    PermissionDenied,
    /// No capacity or quota is left on the hypervisor.
    CapacityExhausted,
    /// The caller gave up.
    Cancelled,
    /// The provider no longer knows what we asked about.
    NotFound,
    /// Describe and ListVMs of the provider say different things of a VM. What Describe says counts.
    ProviderContradicts,
    /// This version does not implement the kind. The message says what to do instead.
    NotImplemented,
    /// The VM was deleted on the hypervisor by somebody else.
    VmMissing,
    /// The VM was deleted by somebody else and is created anew, as spec.driftPolicy.deletion says.
    Recreating,
    /// Somebody changed the VM on the hypervisor. spec.driftPolicy says whether that is corrected.
    DriftDetected,
    /// The VM is again as declared.
    DriftResolved,
    /// The provider does not say whether the VM runs.
    PowerUnknown,
    /// An adopted VM whose id is not known yet.
    WaitingForAdoption,
    /// All fields that are set act on this provider.
    AllFieldsHonoured,
    /// Some fields that are set have no effect: on this provider, in this runtime mode, or because they were edited after they were
    /// read. The message names them.
    FieldsIgnored,
    /// The hypervisor reports a fault of the VM.
    VmFault,
    /// The object is being deleted but is still in use; the message names the users.
    InUse,
    /// The provider is connected and answers.
    Connected,
    /// The provider is being connected to.
    Connecting,
    /// The Provider's settings are wrong; the message names the field.
    InvalidConfiguration,
    /// This way of running a provider is not available in this manager.
    RuntimeUnsupported,
    /// The provider's pods are as they are to be.
    PodsReady,
    /// The provider's pods do not answer yet; the message says why. See the Deployment and its pods.
    PodsNotReady,
    /// Manager and provider prove who they are with certificates that the manager makes and renews.
    CertificatesIssued,
    /// Manager and provider prove who they are with the certificates of a Secret.
    CertificatesFromSecret,
    /// The provider's certificate is not looked at, as the Provider says. Set insecureSkipVerify to false.
    ServerUnverified,
    /// Nothing is encrypted, as the Provider says: whoever reaches the provider controls the VMs. Set tls.enabled to true.
    PlainText,
    /// Capabilities were read from the provider.
    CapabilitiesFetched,
    /// Capabilities could not be read from the provider.
    CapabilitiesUnavailable,
    /// The image is ready.
    Prepared,
    /// The image is being imported.
    Importing,
    /// Nobody uses the image yet; it is brought to a provider when a VM needs it.
    WaitingForUse,
    /// The image is not on the provider and spec.prepare.onMissing says not to import it.
    MissingOnProvider,
    /// The bytes of the image do not have the checksum that was given.
    ChecksumMismatch,
    /// The snapshot is being taken.
    SnapshotCreating,
    /// The snapshot is on the hypervisor and can be gone back to.
    SnapshotReady,
    /// The snapshot could not be taken; the message says why. Unless it was refused for what it asks, it is tried again with growing pauses.
    SnapshotFailed,
    /// The age that spec.retentionPolicy.maxAge allows is reached; the snapshot is deleted after gracePeriod.
    SnapshotExpired,
    /// The snapshot was deleted on the hypervisor by somebody else. Delete the object.
    SnapshotMissing,
    /// The snapshot is being deleted on the hypervisor.
    SnapshotDeleting,
    /// The snapshot is gone from the hypervisor, and that was proved.
    SnapshotDeleted,
    /// The schedule is in force; the message tells when the next snapshot is taken.
    Scheduled,
    /// The schedule rests. Set spec.schedule.enabled to true and suspend to false to go on.
    ScheduleSuspended,
    /// The schedule has made a VMSnapshot for one of its times.
    SnapshotMade,
    /// A time of the schedule passed without a snapshot; the message says why.
    SnapshotLeftOut,
    /// The schedule has deleted one of its snapshots, because it keeps no more, or for a later one.
    SnapshotPruned,
    /// The guest had written its buffers out when the snapshot was taken.
    Quiesced,
    /// The guest could not be asked to write its buffers out: it was off, or has no agent.
    NotQuiesced,
    /// The VM goes back to a snapshot.
    Reverting,
    /// The VM is back at the snapshot that spec.snapshot.revertToRef names.
    Reverted,
    /// There is no VMSnapshot of the name in spec.snapshot.revertToRef. Create it or correct the name.
    SnapshotNotFound,
    /// The snapshot in spec.snapshot.revertToRef cannot be used yet; see its status. Work goes on when it is Ready.
    SnapshotNotReady,
    /// The snapshot in spec.snapshot.revertToRef is of another VM. Name one of this VM.
    SnapshotOfAnotherVm,
    /// The provider will not go back to that snapshot; the message says why. Name another one, or none.
    RevertRefused,
    /// An action of spec.lifecycle is under way, or is tried again.
    HookRunning,
    /// An action of spec.lifecycle ended well; the message shows the first line of what it said.
    HookSucceeded,
    /// An action of spec.lifecycle failed; the message says why. Correct it, or set its failurePolicy to Ignore.
    HookFailed,
    /// There is no template or MachineClass of the name in spec.template or spec.instanceType. Use small, medium or large, or make a MachineClass.
    TemplateNotFound,
    /// The MachineClass in spec.machineClass does not exist, is switched off, or is not for this provider.
    MachineClassError,
    /// A NetworkConfiguration or NetworkNamespace that the Machine names does not exist. Create it or correct the name.
    NetworkConfigurationNotFound,
    /// The cluster has no StorageClass of the name in spec.disks. Correct the name, or make it.
    StorageClassNotFound,
    /// No node has room for the VM. Add nodes, or ask for less.
    InsufficientResources,
    /// KubeVirt, or the way to it, answered with an error; the message says which.
    KubeVirtApiError,
    /// It cannot be said in which cluster the Machine is to run. Name a KubevirtConfig in the annotation vitistack.io/kubevirt-config.
    KubevirtConfigNotFound,
    /// Clusters have different versions of KubeVirt; the message says which.
    KubevirtVersionsDiffer,
    /// The KubevirtConfig for the Machine was chosen and written down.
    KubevirtConfigAssigned,
    /// The VM of the Machine is being made.
    VMCreating,
    /// The VM of the Machine exists.
    VMCreated,
    /// The VM of the Machine cannot be made, or failed.
    VMFailed,
    /// The disks of the Machine are there.
    PVCBound,
    /// The disks of the Machine are not there yet.
    PVCPending,
    /// The networks of the Machine are known.
    NetworkConfigured,
    /// A network of the Machine is not known.
    NetworkFailed,
    /// The object is valid.
    Valid,
    /// It cannot be said which Provider runs the VM of NovaCron. Name one in the annotation novacron.io/provider.
    NodeSelectionFailed,
    /// The VM of NovaCron cannot be made as it is written; the message names the field, or what the provider said.
    CreateFailed,
    /// The VM of NovaCron failed; the message says why. Its disks are kept.
    Failed,
    /// The VM of NovaCron is being started.
    Starting,
    /// The VM of NovaCron runs, and what was wrong with it is over.
    Healthy,
    /// The VM of NovaCron runs, but something is wrong with it or it cannot be seen; the message says what.
    Unhealthy,
    /// The VM moves to another host.
    Migrating,
    /// The VM could not move to another host; the message says why and where it is. Make another VMMigration to try again.
    MigrationFailed,
    /// The VM is on the host that it was to move to.
    Migrated,
    /// The move was stopped before its end; the message says why and where the VM is.
    MigrationCancelled,
    /// The provider was asked to stop the move, and what comes of it is awaited.
    MigrationStopping,
    /// Another VMMigration moves the same VM; this one goes on when that has ended.
    MigrationQueued,
    /// The move failed and is tried again after a pause, as spec.options.retryPolicy says.
    MigrationRetrying,
    /// A VMMigration to another Provider, or under another name: not supported yet. Name the Provider that the VM is on, or delete the object.
    MigrationUnsupported,
    /// The VM is being changed, or is off: it is moved when that is over.
    VmBusy,
    /// The VM of NovaCron is gone and is made anew.
    Recovering,
    /// spec.migrationPolicy allows the VM to move while it runs.
    MigrationEnabled,
    /// spec.migrationPolicy does not allow the VM to move while it runs.
    MigrationDisabled,
}

impl From<polyvirt_contract::ErrorKind> for Reason {
    fn from(kind: polyvirt_contract::ErrorKind) -> Self {
        // Every kind's word is a reason; the test below holds that.
        Self::parse(kind.reason()).unwrap_or(Self::ProviderError)
    }
}

#[cfg(test)]
mod tests {
    use polyvirt_contract::ErrorKind;

    use super::*;

    #[test]
    fn every_error_kind_has_a_reason() {
        for kind in ErrorKind::ALL {
            assert_eq!(Reason::from(kind).as_str(), kind.reason());
        }
    }

    #[test]
    fn words_are_unique_and_explained() {
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.as_str()), Some(*reason));
            assert!(reason.explanation().trim().ends_with('.'), "{reason}");
        }
    }
}
