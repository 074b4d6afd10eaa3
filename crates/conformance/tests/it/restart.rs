//! A provider that restarts while it creates a VM, under a manager that knows `provider.v1` only and under our own.

use std::sync::Arc;
use std::time::Duration;

use polyvirt_contract::wire::v1::provider_client::ProviderClient;
use polyvirt_contract::wire::v1::{CreateRequest, DescribeRequest, TaskRef, TaskStatusRequest};
use polyvirt_contract::{ErrorKind, TaskId};
use polyvirt_provider_mock::{Mock, MockConfig, TaskMode, Times};
use tonic::transport::Channel;

use crate::wire::both_services;

fn slow() -> Arc<Mock> {
    Mock::new(MockConfig {
        tasks: TaskMode::Async,
        times: Times {
            create: Duration::from_mins(10),
            ..Times::default()
        },
        ..MockConfig::default()
    })
}

fn web() -> CreateRequest {
    CreateRequest {
        name: "web".into(),
        class_json: r#"{"CPU":1,"MemoryMiB":512}"#.into(),
        image_json: r#"{"TemplateName":"debian"}"#.into(),
        networks_json: "null".into(),
        disks_json: "null".into(),
        ..CreateRequest::default()
    }
}

async fn status(manager: &mut ProviderClient<Channel>, task: &str) -> Result<bool, tonic::Code> {
    let task = Some(TaskRef { id: task.into() });
    let answer = manager.task_status(TaskStatusRequest { task }).await;
    let answer = answer.map_err(|status| status.code())?.into_inner();
    assert_eq!(answer.error, "");
    Ok(answer.done)
}

#[tokio::test]
async fn restart_in_mid_create_under_a_v1_client() {
    let mock = slow();
    let wire = both_services(mock.clone()).await;
    let url = format!("http://{}", wire.address);
    let mut manager = ProviderClient::connect(url).await.expect("connected");
    let created = manager.create(web()).await.expect("accepted").into_inner();
    let task = created.task.expect("a task").id;
    assert_eq!(status(&mut manager, &task).await, Ok(false));

    mock.restart();
    // A manager that knows `provider.v1` only polls on NotFound indefinitely.
    assert_eq!(status(&mut manager, &task).await, Ok(true));
    let request = DescribeRequest { id: created.id };
    let vm = manager.describe(request).await.expect("an answer");
    assert!(!vm.into_inner().exists, "what was half created is undone");
    let again = manager.create(web()).await.expect("accepted").into_inner();
    let task = again.task.expect("a task").id;
    assert_eq!(status(&mut manager, &task).await, Ok(false));

    let never = status(&mut manager, "no-task-of-ours").await;
    assert_eq!(never, Err(tonic::Code::NotFound));
}

#[tokio::test]
async fn our_manager_learns_that_a_task_is_forgotten() {
    let wire = both_services(slow()).await;
    let answer = wire.client.task_status(&TaskId::from("task-0-7")).await;
    assert_eq!(answer.map_err(|error| error.kind), Err(ErrorKind::NotFound));
}
