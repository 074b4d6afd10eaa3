//! Into the guest.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use polyvirt_contract::model::{ConsoleKind, ExecRequest};
use polyvirt_contract::{ErrorKind, Extension};
use tokio::time::Instant;

use crate::check::{Check, Checked, Failure, Need, check, ensure};
use crate::lab::Lab;

const EXEC: Need = Need::Extension(Extension::GuestExec);
const CONSOLE: Need = Need::Extension(Extension::Console);
const COMMAND: Need = Need::Given("command for the guest", |profile| profile.command.is_some());

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(
            "guest-exec",
            "A command of the guest runs to its end.",
            &[EXEC, COMMAND],
            exec
        ),
        check!(
            "guest-exec-off",
            "A guest that is off runs nothing, and says so.",
            &[EXEC, COMMAND],
            exec_off
        ),
        check!(
            "console",
            "A console of a running VM gives bytes.",
            &[CONSOLE],
            console
        ),
    ]
}

fn command(lab: &Lab) -> ExecRequest {
    ExecRequest {
        command: lab.profile().command.clone().unwrap_or_default(),
        stdin: Bytes::new(),
        timeout: Duration::from_secs(30),
    }
}

/// A guest that still boots is asked again.
async fn exec(lab: &Lab) -> Checked {
    let vm = lab.running().await?;
    let deadline = Instant::now() + lab.patience();
    let output = loop {
        match lab.provider().guest_exec(&vm, command(lab)).await {
            Ok(output) => break output,
            Err(error) if error.kind != ErrorKind::Precondition => return Err(error.into()),
            Err(error) => ensure!(Instant::now() < deadline, "the guest is never up: {error}"),
        }
        tokio::time::sleep(lab.profile().interval).await;
    };
    ensure!(output.exit_code == 0, "it ended with {}", output.exit_code);
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(text.contains("conformance"), "it wrote {text:?}");
    Ok(())
}

async fn exec_off(lab: &Lab) -> Checked {
    let vm = lab.vm().await?;
    let answer = lab.provider().guest_exec(&vm, command(lab)).await;
    lab.refused(
        answer,
        ErrorKind::Precondition,
        "a command for a guest that is off",
    )?;
    Ok(())
}

async fn console(lab: &Lab) -> Checked {
    let vm = lab.running().await?;
    let mut session = lab.provider().console(&vm, ConsoleKind::Serial).await?;
    let next = tokio::time::timeout(lab.patience(), session.output.next()).await;
    let bytes = match next {
        Err(_) => return Err(Failure::new("the console is silent".to_owned())),
        Ok(None) => return Err(Failure::new("the console ended at once".to_owned())),
        Ok(Some(bytes)) => bytes?,
    };
    ensure!(!bytes.is_empty(), "the console gave nothing");
    Ok(())
}
