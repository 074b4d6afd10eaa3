//! Hooks that take long take their time beside everything else.

use std::time::{Duration, Instant};

use polyvirt_api::infra::{HookState, PowerState, VirtualMachine};
use polyvirt_provider_mock::{MockConfig, Rpc};
use serde_json::json;
use tokio::net::TcpListener;

use crate::snapshots::calls;
use crate::support::look::{id, runs};
use crate::support::world::eventually;
use crate::support::{World, vm};

const PLACES: usize = 4;
const SLOW: usize = 2 * PLACES;
/// Far less than a hook may take here.
const AT_ONCE: Duration = Duration::from_secs(60);

fn is_trying(vm: &VirtualMachine) -> bool {
    let hooks = vm.status.as_ref().and_then(|status| status.hooks.as_ref());
    let run = hooks.and_then(|hooks| hooks.post_start.as_ref());
    run.is_some_and(|run| run.state == HookState::Running)
}

/// More hooks than the provider has places for passes, and a server that never answers.
#[tokio::test]
async fn slow_hooks_hold_up_nobody_else() {
    let mut world = World::empty("hook-slow").await;
    let mock = world.furnish(MockConfig::default()).await;
    world.may_call("127.0.0.1");
    world.at_most(PLACES);
    world.start().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = silent.local_addr().expect("a port").port();
    let get = json!({"host": "127.0.0.1", "port": port});
    let hooks = json!({"postStart": {"httpGet": get, "timeoutSeconds": 300}});
    for number in 0..SLOW {
        let slow = vm(&format!("slow-{number}"));
        world.create(slow.spec(json!({ "lifecycle": hooks }))).await;
    }
    for number in 0..SLOW {
        let name = format!("slow-{number}");
        world.vm(&name, "is trying its hook", is_trying).await;
    }
    let begin = Instant::now();
    world.create(vm("other")).await;
    let id = id(&world.vm("other", "runs", runs).await);
    mock.out_of_band().power_off(&id).expect("switched off");
    let is_seen = |vm: &VirtualMachine| {
        vm.status.as_ref().and_then(|s| s.power_state) == Some(PowerState::Off)
    };
    world.vm("other", "is seen to be off", is_seen).await;
    world.delete::<VirtualMachine>("slow-0").await;
    world.gone::<VirtualMachine>("slow-0").await;
    world
        .edit_spec("slow-1", json!({"powerState": "Off"}))
        .await;
    world.vm("slow-1", "is off", is_seen).await;
    assert!(begin.elapsed() < AT_ONCE, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_slow_hook_is_run_once_by_one_manager_and_again_by_the_next() {
    let (mut world, mock) = World::furnished("hook-again", MockConfig::default()).await;
    let slow = json!({"exec": {"command": ["sleep", "600"]}, "timeoutSeconds": 300});
    let hooks = json!({"lifecycle": {"postStart": slow}});
    world.create(vm("web").spec(hooks)).await;
    world.vm("web", "is trying its hook", is_trying).await;
    world.reconciled_again("web").await;
    assert_eq!(calls(&mock, Rpc::GuestExec), 1, "it is under way");
    world.stop().await;
    world.start().await;
    let again = || calls(&mock, Rpc::GuestExec) == 2;
    eventually("the hook is run by the next manager", again).await;
    let vm = world.vm("web", "is trying its hook", is_trying).await;
    let hooks = vm.status.and_then(|status| status.hooks);
    let run = hooks.and_then(|hooks| hooks.post_start).expect("a try");
    assert_eq!(run.tries, 2, "tries are counted across managers");
}
