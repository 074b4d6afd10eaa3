//! Our server under a manager of VirtRigaud's release after v0.3.11: owners, hosts and images travel in the messages.

use std::sync::Arc;

use polyvirt_contract::model::{ImageOrigin, Owner};
use polyvirt_contract::wire::v1::provider_client::ProviderClient;
use polyvirt_contract::wire::v1::*;
use tonic::Code;
use tonic::transport::Channel;

use crate::fixtures;
use crate::recorder::{Recorder, Seen};
use crate::support::Running;

async fn start() -> (Arc<Recorder>, Running, ProviderClient<Channel>) {
    let recorder = Arc::new(Recorder::with_vms(vec![fixtures::vm_state()]));
    let server = Running::start(recorder.clone()).await;
    let url = format!("http://{}", server.address);
    let manager = ProviderClient::connect(url).await.unwrap();
    (recorder, server, manager)
}

fn identity(uid: &str) -> ObjectIdentity {
    ObjectIdentity {
        uid: uid.into(),
        namespace: "team-a".into(),
        name: "web".into(),
    }
}

fn owner(uid: &str) -> Owner {
    Owner {
        identity: uid.into(),
        namespace: "team-a".into(),
        name: "web".into(),
    }
}

#[tokio::test]
async fn the_owner_of_a_message_is_the_owner_of_the_vm() {
    let (recorder, _server, mut manager) = start().await;
    let create = CreateRequest {
        name: "web".into(),
        target_host_id: "hv-2".into(),
        owner: Some(identity("u-1")),
        ..Default::default()
    };
    manager.create(create).await.unwrap();
    let clone = CloneRequest {
        source_vm_id: "vm-7".into(),
        target_name: "copy".into(),
        target_vm: Some(identity("u-2")),
        ..Default::default()
    };
    ProviderClient::clone(&mut manager, clone).await.unwrap();
    let delete = DeleteRequest {
        id: "vm-7".into(),
        owner: Some(identity("u-3")),
        ..Default::default()
    };
    manager.delete(delete).await.unwrap();
    let [Seen::Create(vm), Seen::Clone(copy), Seen::Delete(gone)] = &recorder.seen()[..] else {
        panic!("not these calls");
    };
    assert_eq!(vm.owner, Some(owner("u-1")));
    assert_eq!(vm.placement.as_ref().unwrap().host, "hv-2");
    assert_eq!(copy.owner, Some(owner("u-2")));
    assert_eq!(gone.owner, Some(owner("u-3")));
}

#[tokio::test]
async fn a_name_without_a_uid_owns_nothing() {
    let (recorder, _server, mut manager) = start().await;
    let create = CreateRequest {
        owner: Some(identity("")),
        ..Default::default()
    };
    manager.create(create).await.unwrap();
    assert!(matches!(&recorder.seen()[..], [Seen::Create(vm)] if vm.owner.is_none()));
}

#[tokio::test]
async fn a_vm_on_another_host_is_not_touched() {
    let (recorder, _server, mut manager) = start().await;
    let on = |host: &str| DeleteRequest {
        id: "vm-7".into(),
        target_host_id: host.into(),
        ..Default::default()
    };
    let refused = manager.delete(on("hv-9")).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert!(!recorder.seen().iter().any(|s| matches!(s, Seen::Delete(_))));
    manager.delete(on("hv-1")).await.unwrap();
    let elsewhere = DescribeRequest {
        id: "vm-7".into(),
        target_host_id: "hv-9".into(),
        ..Default::default()
    };
    let answer = manager.describe(elsewhere).await.unwrap().into_inner();
    assert!(!answer.exists);
}

#[tokio::test]
async fn describe_tells_nothing_of_the_vm_of_another_owner() {
    let (recorder, _server, mut manager) = start().await;
    let own = recorder.vms.lock().unwrap()[0].owner.clone().unwrap();
    for (uid, exists) in [(own.identity.as_str(), true), ("stranger", false)] {
        let request = DescribeRequest {
            id: "vm-7".into(),
            owner: Some(identity(uid)),
            ..Default::default()
        };
        let answer = manager.describe(request).await.unwrap().into_inner();
        assert_eq!(answer.exists, exists, "{uid}");
        assert_eq!(answer.vcpus > 0 && answer.max_memory_mib > 0, exists);
    }
}

#[tokio::test]
async fn hosts_are_those_of_the_inventory() {
    let (_recorder, _server, mut manager) = start().await;
    let hosts = manager.list_hosts(ListHostsRequest {}).await.unwrap();
    let hosts = hosts.into_inner().hosts;
    let first = hosts.first().expect("a host").clone();
    assert!(first.allocatable_cpu > 0 && first.allocatable_mem_mib > 0);
    let one = GetHostInfoRequest {
        host_id: first.id.clone(),
    };
    assert_eq!(
        manager.get_host_info(one).await.unwrap().into_inner(),
        first
    );
    let none = GetHostInfoRequest {
        host_id: "nowhere".into(),
    };
    let status = manager.get_host_info(none).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn an_image_is_known_by_its_uid_and_digest_and_not_by_a_name() {
    let (recorder, _server, mut manager) = start().await;
    let request = |uid: &str, digest: &str| ImagePrepareRequest {
        image_json: r#"{"source":{"http":{"url":"https://x.example/y.qcow2"}}}"#.into(),
        image: Some(identity(uid)),
        source_digest: digest.into(),
        ..Default::default()
    };
    let mut names = Vec::new();
    for (uid, digest) in [
        ("u-1", "sha256:aa"),
        ("u-1", "sha256:bb"),
        ("u-2", "sha256:aa"),
    ] {
        let answer = manager.image_prepare(request(uid, digest)).await.unwrap();
        let artifact = answer.into_inner().artifact.expect("an artifact");
        assert_eq!(artifact.image, Some(identity(uid)));
        assert_eq!(artifact.source_digest, digest);
        names.push(artifact.name);
    }
    let seen = recorder.seen();
    let asked: Vec<_> = seen
        .iter()
        .map(|seen| match seen {
            Seen::ImagePrepare(image) => {
                assert!(matches!(image.origin, ImageOrigin::Http { .. }));
                image.target_name.clone()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(asked, names);
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3, "each has a name of its own");
}

#[tokio::test]
async fn a_change_that_waits_for_a_restart_is_reported_as_such() {
    let (recorder, _server, mut manager) = start().await;
    for waits in [true, false] {
        let fields = if waits {
            vec!["spec.resources".to_owned()]
        } else {
            Vec::new()
        };
        recorder.vms.lock().unwrap()[0].restart_required = fields;
        let request = ReconfigureRequest {
            id: "vm-7".into(),
            desired_json: r#"{"Name":"a","Class":{"CPU":1}}"#.into(),
            ..Default::default()
        };
        let answer = manager.reconfigure(request).await.unwrap().into_inner();
        assert_eq!(answer.restart_required, waits);
    }
}
