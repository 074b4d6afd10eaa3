//! `polyvirt vm exec`.

use std::io::{Read, Write};

use anyhow::Context;
use axum::http::Request;
use axum::http::header::CONTENT_TYPE;
use k8s_openapi::ByteString;
use polyvirt_gateway::{ExecAnswer, ExecBody};

use super::options::Exec;
use super::socket::request;
use super::{Cluster, print_bytes};
use crate::exit::Failure;

/// Runs a command in the guest, and ends with its exit code.
pub async fn run(cluster: &Cluster, options: &Exec) -> anyhow::Result<()> {
    let body = ExecBody {
        command: options.command.clone(),
        stdin: options.stdin.then(stdin).transpose()?,
        timeout_seconds: Some(options.timeout.as_secs()),
    };
    let path = polyvirt_gateway::path(&cluster.namespace, &options.name, "exec");
    let post = Request::post(path).header(CONTENT_TYPE, "application/json");
    let post = post.body(serde_json::to_vec(&body)?);
    let text = request(cluster, &options.name, post.context("No such name")?).await?;
    let answer: ExecAnswer = serde_json::from_str(&text).context("The answer cannot be read")?;
    print_bytes(&answer.stdout.0);
    let _ = std::io::stderr().write_all(&answer.stderr.0);
    match answer.exit_code {
        0 => Ok(()),
        code => Err(Failure::Program(u8::try_from(code).unwrap_or(u8::MAX)).into()),
    }
}

fn stdin() -> anyhow::Result<ByteString> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().read_to_end(&mut bytes);
    read.context("Standard input cannot be read")?;
    Ok(ByteString(bytes))
}
