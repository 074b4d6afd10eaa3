//! What is sent to do harm.

use std::fmt::Write;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use polyvirt_pki::AUTHORITY_SECRET;
use serde_json::json;

use crate::wire::Wire;
use crate::world::{World, refusal, vm};

async fn authority(world: &World) -> Vec<u8> {
    let api: Api<Secret> = Api::namespaced(world.client.clone(), &world.home());
    let secret = api.get(AUTHORITY_SECRET).await.expect("the Secret");
    secret.data.expect("data")["ca.crt"].0.clone()
}

/// Ten to the fortieth words, in a few hundred bytes.
fn laughs() -> String {
    let mut text = "#cloud-config\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..40 {
        let last = i - 1;
        let refs = vec![format!("*a{last}"); 10].join(", ");
        writeln!(text, "a{i}: &a{i} [{refs}]").expect("text");
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn bombs_go_off_harmlessly() {
    let world = World::furnished("bombs").await;
    let begin = Instant::now();
    let bomb = json!({"userData": {"cloudInit": {"inline": laughs()}}});
    let status = refusal(world.create("VirtualMachine", "bomb", vm(bomb)).await);
    assert!(
        status.message.contains("spec.userData.cloudInit.inline"),
        "{}",
        status.message
    );
    assert!(
        status.message.contains("nested or repeated beyond any use"),
        "{}",
        status.message
    );

    let roots = authority(&world).await;
    let connect = async || Wire::connect(world.port, &roots).await.expect("connected");
    let deep = format!("{{\"request\": {{\"object\": {}", "[".repeat(1_000_000));
    for (path, body, code) in [
        ("/validate", deep, 400),
        ("/validate", "x".repeat(5 << 20), 413),
        ("/mutate", "{}".to_owned(), 400),
        ("/validate", String::new(), 400),
        ("/elsewhere", "{}".to_owned(), 404),
    ] {
        let length = body.len();
        let answer = connect().await.post(path, body).await;
        // One that is too long is answered before it was read, so the answer may be lost.
        let refused = answer.is_ok_and(|answer| answer.status() == code);
        assert!(refused || code == 413, "{path} with {length} bytes");
    }
    assert!(
        begin.elapsed() < Duration::from_secs(20),
        "{:?}",
        begin.elapsed()
    );
    assert!(world.reviews("verdict=\"unreadable\"") >= 3);
    world
        .create("VirtualMachine", "ok", vm(json!({})))
        .await
        .expect("it still answers");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_bombs_delays_others_little() {
    let world = World::furnished("flood").await;
    let bomb = json!({"userData": {"cloudInit": {"inline": laughs()}}});
    let (world, bomb) = (&world, &bomb);
    let flood = (0..64).map(|i| async move {
        let name = format!("b{i}");
        world
            .create("VirtualMachine", &name, vm(bomb.clone()))
            .await
    });
    let others = async {
        for i in 0..8 {
            let made = world
                .create("VirtualMachine", &format!("ok{i}"), vm(json!({})))
                .await;
            made.expect("made");
        }
    };
    let (refused, ()) = futures::join!(futures::future::join_all(flood), others);
    assert!(refused.into_iter().all(|one| one.is_err()));
}
