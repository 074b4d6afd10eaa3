//! The whole way: a user, a real API server that knows roles, the gateway, a guest of the mock.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::header::{
    CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::{Request, StatusCode};
use futures::{SinkExt, StreamExt};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client};
use polyvirt_contract::Provider;
use polyvirt_contract::model::{ClassSpec, CreateVm, Owner, PowerOp, VmRef};
use polyvirt_gateway::{
    CONSOLE_PROTOCOL, ExecAnswer, ExecBody, Gateway, Machines, Place, Reach, Refusal, path,
};
use polyvirt_pki::{Keeper, Lifetimes, Source};
use polyvirt_provider_mock::{Mock, MockConfig};
use polyvirt_testkit::ControlPlane;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::sync::CancellationToken;

/// Five years in less than half a minute.
const SHORT: Lifetimes = Lifetimes {
    authority: Duration::from_secs(24),
    leaf: Duration::from_secs(6),
    spread: Duration::from_secs(2),
};

/// One VM, known as `default/web`.
struct One {
    mock: Arc<Mock>,
    vm: VmRef,
}

impl Machines for One {
    fn find(&self, namespace: &str, name: &str) -> Result<(Arc<dyn Provider>, VmRef), Refusal> {
        if (namespace, name) != ("default", "web") {
            let text = format!("There is no VirtualMachine {namespace}/{name}");
            return Err(Refusal::NotFound(text));
        }
        Ok((self.mock.clone(), self.vm.clone()))
    }
}

async fn one_vm() -> One {
    let mock = Mock::new(MockConfig::default());
    let owner = Owner {
        identity: "identity-of-web".into(),
        namespace: "default".to_owned(),
        name: "web".to_owned(),
    };
    let request = CreateVm {
        owner: Some(owner.clone()),
        name: "web".to_owned(),
        class: ClassSpec {
            cpu: 1,
            memory_mib: 512,
            ..ClassSpec::default()
        },
        ..CreateVm::default()
    };
    let id = mock.create(request).await.unwrap().id;
    let owner = Some(owner);
    let vm = VmRef { id, owner };
    mock.power(&vm, PowerOp::On.into()).await.unwrap();
    One { mock, vm }
}

struct World {
    plane: ControlPlane,
    mock: Arc<Mock>,
    vm: VmRef,
    gateway: u16,
    stop: CancellationToken,
}

async fn world() -> World {
    world_of(Lifetimes::default()).await
}

async fn world_of(lifetimes: Lifetimes) -> World {
    let plane = ControlPlane::builder().ephemeral().start().await.unwrap();
    let one = one_vm().await;
    let (mock, vm) = (one.mock.clone(), one.vm.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = Place {
        namespace: "polyvirt-system".to_owned(),
        service: "polyvirt-gateway".to_owned(),
        port,
        reach: Reach::Host("localhost".to_owned()),
        order: polyvirt_gateway::Order::ByName,
    };
    let stop = CancellationToken::new();
    let gateway = prepared(&plane.client().unwrap(), Arc::new(one), address, lifetimes).await;
    tokio::spawn(gateway.serve(listener, stop.clone()));
    let world = World {
        plane,
        mock,
        vm,
        gateway: port,
        stop,
    };
    world.until_served().await;
    world
}

/// The API server publishes its certificates a moment after it is ready.
async fn prepared(
    client: &Client,
    machines: Arc<dyn Machines>,
    place: Place,
    lifetimes: Lifetimes,
) -> Gateway {
    let keeper = Keeper::new(client.clone(), &place.namespace, lifetimes);
    let own = Source::Own(Arc::new(keeper));
    for _ in 0..100 {
        let (machines, place) = (machines.clone(), place.clone());
        match Gateway::prepare(client.clone(), machines, place, own.clone()).await {
            Ok(gateway) => return gateway,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    panic!("the gateway cannot be prepared");
}

impl World {
    async fn until_served(&self) {
        let client = self.plane.client().unwrap();
        for _ in 0..300 {
            let get = Request::get("/apis/subresources.polyvirt.io/v1").body(Vec::new());
            if client.request_text(get.unwrap()).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the API server does not find the gateway");
    }

    fn nobody(&self) -> Client {
        let groups = ["system:authenticated"];
        self.plane.client_as("nobody", &groups).unwrap()
    }

    async fn end(self) {
        self.stop.cancel();
        self.plane.stop().await.unwrap();
    }
}

async fn exec(client: &Client, name: &str, words: &[&str]) -> Result<ExecAnswer, u16> {
    let body = ExecBody {
        command: words.iter().map(|&word| word.to_owned()).collect(),
        ..ExecBody::default()
    };
    let post = Request::post(path("default", name, "exec"));
    let post = post.header("content-type", "application/json");
    let post = post.body(serde_json::to_vec(&body).unwrap()).unwrap();
    match client.request_text(post).await {
        Ok(text) => Ok(serde_json::from_str(&text).unwrap()),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(other) => panic!("{other}"),
    }
}

async fn log(client: &Client) -> Result<String, u16> {
    let get = Request::get(path("default", "web", "log")).body(Vec::new());
    match client.request_text(get.unwrap()).await {
        Ok(text) => Ok(text),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(other) => panic!("{other}"),
    }
}

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

async fn attach(client: &Client, part: &str) -> Result<Socket, StatusCode> {
    let request = Request::get(path("default", "web", part))
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, generate_key())
        .header(SEC_WEBSOCKET_PROTOCOL, CONSOLE_PROTOCOL)
        .body(Body::empty())
        .unwrap();
    let response = client.send(request).await.unwrap();
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(response.status());
    }
    let protocol = response.headers().get(SEC_WEBSOCKET_PROTOCOL).cloned();
    assert_eq!(protocol.unwrap(), CONSOLE_PROTOCOL);
    let upgraded = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    Ok(WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await)
}

/// Reads until the text has been shown; fails if the console ends before.
async fn shown(socket: &mut Socket, text: &str) {
    let mut all = String::new();
    while !all.contains(text) {
        let next = tokio::time::timeout(Duration::from_secs(20), socket.next()).await;
        if let Message::Binary(bytes) = next.unwrap().unwrap().unwrap() {
            all.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
}

/// Lets a user do one thing to one part.
async fn grant(client: &Client, user: &str, part: &str, verb: &str) {
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": {"name": format!("{user}-{part}")},
        "rules": [{
            "apiGroups": ["subresources.polyvirt.io"],
            "resources": [format!("virtualmachines/{part}")],
            "verbs": [verb],
        }],
    }))
    .unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": format!("{user}-{part}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": format!("{user}-{part}")},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }))
    .unwrap();
    let params = PostParams::default();
    Api::all(client.clone())
        .create(&params, &role)
        .await
        .unwrap();
    Api::all(client.clone())
        .create(&params, &binding)
        .await
        .unwrap();
}

#[tokio::test]
async fn roles_decide_who_gets_into_a_guest() {
    let world = world().await;
    let admin = world.plane.client().unwrap();
    let nobody = world.nobody();

    let answer = exec(&admin, "web", &["hostname"]).await.unwrap();
    assert_eq!((answer.exit_code, &answer.stdout.0[..]), (0, &b"web\n"[..]));
    assert_eq!(exec(&admin, "web", &["false"]).await.unwrap().exit_code, 1);
    assert_eq!(exec(&admin, "gone", &["true"]).await, Err(404));
    assert_eq!(exec(&admin, "web", &[]).await, Err(400));
    assert!(log(&admin).await.unwrap().contains("boot 1 of web"));

    assert_eq!(exec(&nobody, "web", &["hostname"]).await, Err(403));
    assert_eq!(log(&nobody).await, Err(403));
    assert_eq!(
        attach(&nobody, "console").await.err(),
        Some(StatusCode::FORBIDDEN)
    );

    grant(&admin, "nobody", "log", "get").await;
    while log(&nobody).await == Err(403) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(log(&nobody).await.is_ok(), "one permission was given");
    assert_eq!(
        exec(&nobody, "web", &["hostname"]).await,
        Err(403),
        "no other was"
    );
    world.end().await;
}

#[tokio::test]
async fn a_console_carries_keys_and_ends_with_its_vm() {
    let world = world().await;
    let admin = world.plane.client().unwrap();
    let mut socket = attach(&admin, "console").await.unwrap();
    shown(&mut socket, "boot 1 of web").await;
    socket
        .send(Message::Binary("echo hello\r".into()))
        .await
        .unwrap();
    shown(&mut socket, "hello\r\nhello\r\n").await;

    world
        .mock
        .power(&world.vm, PowerOp::Off.into())
        .await
        .unwrap();
    let mut last = None;
    while let Some(Ok(message)) = socket.next().await {
        last = Some(message);
    }
    let Some(Message::Close(Some(frame))) = last else {
        panic!("a reason was expected, not {last:?}");
    };
    assert_eq!(frame.reason.as_str(), "The VM has stopped");
    assert_eq!(
        attach(&admin, "console").await.err(),
        Some(StatusCode::CONFLICT)
    );
    world.end().await;
}

async fn trusted(client: &Client) -> Vec<u8> {
    let services: Api<APIService> = Api::all(client.clone());
    let found = services.get("v1.subresources.polyvirt.io").await.unwrap();
    found.spec.unwrap().ca_bundle.unwrap().0
}

#[tokio::test]
async fn neither_a_renewal_nor_another_authority_fails_a_request_or_ends_a_console() {
    let world = world_of(SHORT).await;
    let admin = world.plane.client().unwrap();
    let begun_with = trusted(&admin).await;
    let mut socket = attach(&admin, "console").await.unwrap();
    let deadline = Instant::now() + SHORT.authority + SHORT.spread * 2;
    while Instant::now() < deadline {
        let told = log(&admin).await;
        assert!(told.is_ok(), "no request fails for a renewal: {told:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let now = String::from_utf8(trusted(&admin).await).unwrap();
    let first = String::from_utf8(begun_with).unwrap();
    assert!(
        !now.contains(first.trim()),
        "the first authority is forgotten"
    );
    let keys = Message::Binary("echo still here\r".into());
    socket.send(keys).await.unwrap();
    shown(&mut socket, "still here\r\nstill here\r\n").await;
    world.end().await;
}

#[tokio::test]
async fn headers_are_believed_only_from_the_api_server() {
    let world = world().await;
    let url = format!("https://127.0.0.1:{}", world.gateway);
    let mut config = kube::Config::new(url.parse().unwrap());
    config.accept_invalid_certs = true;
    let stranger = Client::try_from(config.clone()).unwrap();
    let post = |client: Client| async move {
        let request = Request::post(path("default", "web", "exec"))
            .header("X-Remote-User", "polyvirt-admin")
            .header("X-Remote-Group", "system:masters")
            .body(br#"{"command":["hostname"]}"#.to_vec());
        client.request_text(request.unwrap()).await
    };
    let Err(kube::Error::Api(status)) = post(stranger).await else {
        panic!("a stranger was let in");
    };
    assert_eq!(status.code, 401);

    // A certificate of another authority does not even get through the handshake.
    config.auth_info = world.plane.config().auth_info;
    let imposter = Client::try_from(config).unwrap();
    let refused = post(imposter).await.unwrap_err();
    assert!(!matches!(refused, kube::Error::Api(_)), "{refused}");
    world.end().await;
}
