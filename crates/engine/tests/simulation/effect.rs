//! The effects of the manager on the world, and what can befall each of them.

/// One call that leaves the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Finalizer and identity onto a VirtualMachine.
    Claim,
    /// The intent to create, into a VirtualMachine's status.
    Intent,
    /// A VirtualMachine's status.
    Status,
    /// The finalizer off a VirtualMachine.
    Release,
    /// Finalizers of an image.
    ImageMark,
    /// An image's status.
    ImageStatus,
    /// Finalizers and status of classes and networks.
    SharedWrite,
    /// Reading a Secret.
    Secret,
    Create,
    Delete,
    Power,
    Reconfigure,
    Describe,
    Find,
    ListVms,
    TaskStatus,
    ImagePrepare,
}

impl Effect {
    pub const ALL: [Self; 17] = [
        Self::Claim,
        Self::Intent,
        Self::Status,
        Self::Release,
        Self::ImageMark,
        Self::ImageStatus,
        Self::SharedWrite,
        Self::Secret,
        Self::Create,
        Self::Delete,
        Self::Power,
        Self::Reconfigure,
        Self::Describe,
        Self::Find,
        Self::ListVms,
        Self::TaskStatus,
        Self::ImagePrepare,
    ];

    /// Whether it goes to Kubernetes; else to the provider.
    pub const fn is_api(self) -> bool {
        matches!(
            self,
            Self::Claim
                | Self::Intent
                | Self::Status
                | Self::Release
                | Self::ImageMark
                | Self::ImageStatus
                | Self::SharedWrite
                | Self::Secret
        )
    }
}

/// On which side of an effect something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    Before,
    After,
}

/// What befalls one effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// It happens and is answered.
    Happens,
    /// It is refused and does not happen.
    Refused,
    /// It happens, and the answer is lost.
    AnswerLost,
    /// No answer in time; it happened or not.
    TimesOut(Side),
    /// It is answered with a timeout, and happens later: a server that works on though its client has gone.
    HappensLater,
    /// The manager dies on this side of it.
    Crash(Side),
    /// The manager dies; the request is under way and happens later.
    CrashInFlight,
}
