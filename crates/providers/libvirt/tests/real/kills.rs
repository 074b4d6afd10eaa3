//! The daemon dies in the middle of things.

use std::time::Duration;

use polyvirt_contract::model::{PowerOp, PowerState, VmRef};
use polyvirt_contract::{ErrorKind, Provider as _};

use crate::lab::{Lab, told};

/// Asks again for as long as the daemon is away, as a manager does.
async fn again<T>(mut ask: impl AsyncFnMut() -> polyvirt_contract::Result<T>) -> T {
    for _ in 0..300 {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(
                matches!(
                    error.kind,
                    ErrorKind::Unavailable
                        | ErrorKind::Precondition
                        | ErrorKind::NotFound
                        | ErrorKind::Internal
                ),
                "{error:?}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("it never went well");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_dies_loses_nothing_and_leaves_nothing() {
    let lab = Lab::new().await;
    let calm = lab.create(&lab.desired("calm", 1)).await;
    lab.power(&calm, PowerOp::On).await;
    let mut stream = lab.watch().await;
    for (number, wait) in [(10_u32, 5_u64), (11, 60), (12, 150), (13, 400)] {
        let desired = lab.desired(&format!("vm-{number}"), number);
        let provider = lab.provider.clone();
        let asked = tokio::spawn({
            let desired = desired.clone();
            async move { provider.create(desired).await }
        });
        tokio::time::sleep(Duration::from_millis(wait)).await;
        lab.host.kill();
        // Whatever was answered, the daemon is gone now.
        let _ = asked.await;
        lab.host.run();
        let created = again(async || lab.provider.create(desired.clone()).await).await;
        let vm = VmRef {
            id: created.id.clone(),
            owner: desired.owner.clone(),
        };
        lab.ended(Ok(created.task)).await.expect("made");
        lab.until(&vm, "it to be whole", |state| {
            state.stage == polyvirt_contract::model::Stage::Whole
        })
        .await;
        // Only what starts is whole.
        again(async || lab.provider.power(&vm, PowerOp::On.into()).await).await;
        told(&mut stream, |state| {
            state.id == vm.id && state.power == PowerState::On
        })
        .await;
        again(async || lab.provider.delete(&vm).await).await;
    }
    // A guest does not notice.
    let state = lab.state(&calm).await;
    assert_eq!(state.power, PowerState::On);
    lab.delete(&calm).await;
    let left = lab.host.volumes("default");
    assert!(left.iter().all(|name| name.starts_with("img-")), "{left:?}");
    assert_eq!(lab.host.virsh(&["list", "--all", "--name"]), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_away_is_told_of_and_found_again() {
    let lab = Lab::new().await;
    let vm = lab.create(&lab.desired("seen", 1)).await;
    let mut stream = lab.watch().await;
    lab.host.kill();
    let error = lab.provider.validate().await.expect_err("away");
    assert_eq!(error.kind, ErrorKind::Unavailable);
    let error = lab
        .provider
        .describe(&vm.id)
        .await
        .expect_err("nobody has looked");
    assert_eq!(error.kind, ErrorKind::Unavailable);
    lab.host.run();
    // What happened while nobody listened is told afterwards.
    lab.host.virsh(&["start", "seen"]);
    told(&mut stream, |state| {
        state.id == vm.id && state.power == PowerState::On
    })
    .await;
    lab.provider.validate().await.expect("back");
    lab.delete(&vm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_provider_makes_is_left_to_it() {
    let lab = Lab::new().await;
    for (name, number) in [("theirs", 1), ("ours", 2), ("nobodys", 3)] {
        lab.create(&lab.desired(name, number)).await;
        let uri = "https://polyvirt.io/schema/libvirt/1";
        let text = lab.host.virsh(&["metadata", "--config", name, uri]);
        let maker = match name {
            "nobodys" => String::new(),
            _ => format!(" maker='{name}'"),
        };
        let half = text.replace("stage=\"whole\"", &format!("stage=\"creating\"{maker}"));
        assert_ne!(half, text, "the marks have another form now");
        let set = [
            "metadata", "--config", name, uri, "--key", "polyvirt", "--set", &half,
        ];
        lab.host.virsh(&set);
    }
    // The provider of the lab has no name; another one looks at everything when it begins.
    let named = crate::lab::open(&format!("{}&instance=ours", lab.host.url()));
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    loop {
        let left = lab.host.virsh(&["list", "--all", "--name"]);
        if left == "theirs" {
            break;
        }
        assert!(left.contains("theirs"), "it was another's: {left}");
        assert!(std::time::Instant::now() < deadline, "not removed: {left}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let refused = named
        .create(lab.desired("theirs", 1))
        .await
        .expect_err("not yet");
    assert_eq!(refused.kind, ErrorKind::Precondition);
    assert!(refused.message.contains("another provider"), "{refused}");
}
