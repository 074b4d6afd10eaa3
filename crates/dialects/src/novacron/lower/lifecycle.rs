//! What is done around start and stop.

use polyvirt_api::infra::{ExecAction, HttpGetAction, LifecycleHandler, UriScheme, VMLifecycle};
use polyvirt_api::novacron::{ExecHook, Hook, HttpGetHook, Lifecycle};

use super::error::LowerError;

const ROOT: &str = "spec.template.spec.lifecycle";

/// No action holds up a VM for longer.
const LONGEST: i32 = 300;

/// What is done, and what of it is not.
pub(super) fn resolve(
    lifecycle: Option<&Lifecycle>,
    ignored: &mut Vec<String>,
) -> Result<Option<Box<VMLifecycle>>, LowerError> {
    let Some(lifecycle) = lifecycle else {
        return Ok(None);
    };
    if let Some(hook) = &lifecycle.pre_start {
        before_start(hook)?;
    }
    let lowered = VMLifecycle {
        pre_start: handler("preStart", lifecycle.pre_start.as_ref(), ignored)?,
        post_start: handler("postStart", lifecycle.post_start.as_ref(), ignored)?,
        pre_stop: handler("preStop", lifecycle.pre_stop.as_ref(), ignored)?,
        ..VMLifecycle::default()
    };
    let given = lowered != VMLifecycle::default();
    Ok(given.then(|| Box::new(lowered)))
}

/// There is no guest yet.
fn before_start(hook: &Hook) -> Result<(), LowerError> {
    handler_of("preStart", hook)?;
    if hook.exec.is_some() {
        let message = "A command needs a guest that runs, and before the start there is none. Use httpGet with a host, or postStart";
        return Err(LowerError::invalid(
            format!("{ROOT}.preStart.exec"),
            message,
        ));
    }
    let host = hook.http_get.as_ref().and_then(|get| get.host.as_deref());
    if host.is_none_or(str::is_empty) {
        let message = "Before the start the VM has no address: name the host to call";
        return Err(LowerError::invalid(
            format!("{ROOT}.preStart.httpGet.host"),
            message,
        ));
    }
    Ok(())
}

fn handler(
    name: &str,
    hook: Option<&Hook>,
    ignored: &mut Vec<String>,
) -> Result<Option<LifecycleHandler>, LowerError> {
    let Some(hook) = hook else { return Ok(None) };
    let (field, seconds) = limit(hook);
    if seconds > LONGEST {
        ignored.push(format!("{ROOT}.{name}.{field}"));
    }
    handler_of(name, hook).map(Some)
}

/// How long the action may take, and the field that says so: the command's own, or that of the action.
fn limit(hook: &Hook) -> (&'static str, i32) {
    let own = hook.exec.as_ref().and_then(|exec| exec.timeout_seconds);
    own.map_or(("timeoutSeconds", hook.timeout_seconds), |seconds| {
        ("exec.timeoutSeconds", seconds)
    })
}

fn handler_of(name: &str, hook: &Hook) -> Result<LifecycleHandler, LowerError> {
    let root = format!("{ROOT}.{name}");
    let (field, seconds) = limit(hook);
    if seconds < 1 {
        let message = "Write the seconds that the action may take, 1 or more";
        return Err(LowerError::invalid(format!("{root}.{field}"), message));
    }
    let mut handler = LifecycleHandler {
        timeout_seconds: Some(seconds.min(LONGEST)),
        ..LifecycleHandler::default()
    };
    match (&hook.exec, &hook.http_get) {
        (Some(exec), None) => handler.exec = Some(command(&root, exec)?),
        (None, Some(get)) => handler.http_get = Some(request(&root, get)?),
        _ => {
            return Err(LowerError::invalid(
                root,
                "Give exec or httpGet, one of both",
            ));
        }
    }
    Ok(handler)
}

fn command(root: &str, exec: &ExecHook) -> Result<ExecAction, LowerError> {
    if exec.command.is_empty() {
        let message = "Name the program to run, and behind it its arguments";
        return Err(LowerError::invalid(format!("{root}.exec.command"), message));
    }
    Ok(ExecAction {
        command: exec.command.clone(),
    })
}

fn request(root: &str, get: &HttpGetHook) -> Result<HttpGetAction, LowerError> {
    if !(1..=65_535).contains(&get.port) {
        let message = format!("There is no port {}. Write one from 1 to 65535", get.port);
        return Err(LowerError::invalid(format!("{root}.httpGet.port"), message));
    }
    Ok(HttpGetAction {
        path: Some(get.path.clone()),
        port: get.port,
        host: get.host.clone().filter(|host| !host.is_empty()),
        scheme: scheme(root, get.scheme.as_deref())?,
    })
}

fn scheme(root: &str, word: Option<&str>) -> Result<UriScheme, LowerError> {
    match word.unwrap_or_default().to_ascii_uppercase().as_str() {
        "" | "HTTP" => Ok(UriScheme::Http),
        "HTTPS" => Ok(UriScheme::Https),
        other => {
            let message = format!("There is no scheme {other:?}. Write HTTP or HTTPS");
            Err(LowerError::invalid(
                format!("{root}.httpGet.scheme"),
                message,
            ))
        }
    }
}
