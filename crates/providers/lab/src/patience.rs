//! Asking a provider for something, and waiting until it has come to pass.

use std::time::{Duration, Instant};

use bytes::Bytes;
use polyvirt_contract::model::{
    CreateVm, ExecRequest, MigrateVm, PowerOp, PowerState, VmRef, VmState,
};
use polyvirt_contract::watch::TaskState;
use polyvirt_contract::{Provider, Result, TaskId};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(150);

/// Whoever has a provider.
#[allow(async_fn_in_trait, reason = "only tests call it, on one thread each")]
pub trait Patience {
    /// The provider.
    fn provider(&self) -> &dyn Provider;

    /// More bytes than there are to send beside the guest's memory.
    fn luggage(&self) -> u64;

    /// Makes the VM, starts it, and waits until its guest is up.
    async fn boots(&self, desired: CreateVm) -> VmRef {
        let provider = self.provider();
        let created = provider.create(desired.clone()).await.expect("accepted");
        self.ended(Ok(created.task)).await.expect("made");
        let vm = VmRef {
            id: created.id,
            owner: desired.owner,
        };
        let on = provider.power(&vm, PowerOp::On.into()).await;
        self.ended(on).await.expect("on");
        self.until(&vm, "the guest to be up", |state| {
            state.power == PowerState::On && !state.ips.is_empty()
        })
        .await;
        vm
    }

    /// How the task ended that was begun, if one was. A provider that is away meanwhile is waited for.
    async fn ended(&self, answer: Result<Option<TaskId>>) -> Result<()> {
        let Some(task) = answer? else { return Ok(()) };
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.provider().task_status(&task).await {
                Ok(TaskState::Succeeded) => return Ok(()),
                Ok(TaskState::Failed(error)) => return Err(error),
                running => assert!(Instant::now() < deadline, "too slow: {running:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Moves the VM, and waits for the end of that.
    async fn migrate(&self, vm: &VmRef, request: MigrateVm) -> Result<()> {
        let answer = self.provider().migrate(vm, request).await;
        self.ended(answer).await
    }

    /// A move that is under way, with the guest's memory on the wire.
    async fn sends(&self, vm: &VmRef, request: MigrateVm) -> TaskId {
        let provider = self.provider();
        let answer = provider.migrate(vm, request).await;
        let task = answer.expect("accepted").expect("a task");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let progress = provider.migration_progress(&task).await.expect("told");
            let total = progress.total_bytes.unwrap_or(0);
            if total > self.luggage() {
                return task;
            }
            let state = provider.task_status(&task).await.expect("known");
            assert!(matches!(state, TaskState::Running { .. }), "{state:?}");
            assert!(Instant::now() < deadline, "it sends nothing: {progress:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// How the VM is.
    async fn state(&self, vm: &VmRef) -> VmState {
        let state = self.provider().describe(&vm.id).await;
        state.expect("answers").expect("there")
    }

    /// Looks until the VM is as wanted.
    async fn until(&self, vm: &VmRef, what: &str, wanted: impl Fn(&VmState) -> bool) -> VmState {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let state = self.provider().describe(&vm.id).await;
            if let Ok(Some(state)) = &state
                && wanted(state)
            {
                return state.clone();
            }
            assert!(Instant::now() < deadline, "in vain for {what}: {state:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// What a command of the guest writes. Who has just come up may need a moment to find the agent.
    async fn run(&self, vm: &VmRef, script: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = ExecRequest {
                command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
                stdin: Bytes::new(),
                timeout: Duration::from_secs(60),
            };
            match self.provider().guest_exec(vm, request).await {
                Ok(output) => {
                    assert_eq!(output.exit_code, 0, "{script}");
                    return String::from_utf8_lossy(&output.stdout).trim().to_owned();
                }
                Err(error) => assert!(Instant::now() < deadline, "{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}
