//! Control planes with our definitions.

use kube::Client;
use polyvirt_testkit::{ControlPlane, install_crds, shared};
use tokio::sync::OnceCell;

/// The one that everybody shares. Nobody restarts it.
pub async fn everybodys() -> &'static ControlPlane {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let plane = shared().await.expect("a control plane");
    INSTALLED.get_or_init(|| install(plane)).await;
    plane
}

/// One for the caller alone.
pub async fn own(builder: polyvirt_testkit::Builder) -> ControlPlane {
    let plane = builder.start().await.expect("a control plane");
    install(&plane).await;
    plane
}

async fn install(plane: &ControlPlane) {
    let client: Client = plane.client().expect("a client");
    install_crds(&client, &polyvirt_api::crds())
        .await
        .expect("served");
}
