//! Hooks that call a web server, from the manager. Where they may go is in [`crate::calls`].

use polyvirt_api::infra::{HttpGetAction, UriScheme};
use polyvirt_plan::virtual_machine::hooks::{Again, Hook, Moment, PAUSE};

use super::hook::{Ended, GUEST_RECHECK, Work};
use super::pass::Pass;
use crate::calls::{Answer, Call, CallError, Certificate};

impl Pass<'_> {
    pub(super) async fn call_work(
        &self,
        moment: Moment,
        get: &HttpGetAction,
        hook: &Hook,
    ) -> Result<Work, Ended> {
        let call = match (get.host.as_deref(), self.first_address()) {
            (Some(host), _) => call(get, host, Certificate::Trusted),
            (None, Some(address)) => call(get, &address, Certificate::Any),
            (None, None) => return Err(without_address(moment)),
        };
        let call = call.map_err(|error| Ended::Badly(error.to_string(), Again::Useless))?;
        let caller = self.ctx.caller().await.map_err(|error| {
            let text = format!("The ranges of the cluster's Services are not known: {error}");
            Ended::NotYet(text, PAUSE)
        })?;
        let (caller, patience) = (caller.clone(), hook.timeout);
        Ok(Box::pin(async move {
            match caller.get(&call, patience).await {
                Ok(answer) => judged(&answer),
                Err(error) => refused(moment, &error),
            }
        }))
    }

    fn first_address(&self) -> Option<String> {
        self.present()?.ips.first().cloned()
    }
}

fn call(get: &HttpGetAction, host: &str, certificate: Certificate) -> Result<Call, CallError> {
    let scheme = match get.scheme {
        UriScheme::Http => "http",
        UriScheme::Https => "https",
    };
    let port = u16::try_from(get.port).unwrap_or_default();
    let path = get.path.as_deref().unwrap_or("/");
    Call::new(scheme, host, port, path, certificate)
}

/// An address comes with the guest, after the start. Before the stop nobody waits for one.
fn without_address(moment: Moment) -> Ended {
    match moment {
        Moment::PreStart => {
            let text = "A VM that does not run yet has no address; give httpGet.host";
            Ended::Badly(text.to_owned(), Again::Useless)
        }
        Moment::PostStart => Ended::NotYet("The VM has no address yet".to_owned(), GUEST_RECHECK),
        Moment::PreStop => Ended::Badly("The VM has no address".to_owned(), Again::Later),
    }
}

fn judged(answer: &Answer) -> Ended {
    let Answer { address, status } = answer;
    let told = format!("{address} answered {status}");
    match status {
        200..400 => Ended::Well(told),
        500..600 => Ended::Badly(told, Again::Later),
        _ => Ended::Badly(told, Again::Perhaps),
    }
}

/// A guest that has just started may not listen yet.
fn refused(moment: Moment, error: &CallError) -> Ended {
    let why = error.to_string();
    match (error, moment) {
        (CallError::Host(_) | CallError::Inside(_), _) => Ended::Badly(why, Again::Useless),
        (CallError::Unreachable { .. }, Moment::PostStart) => Ended::NotYet(why, GUEST_RECHECK),
        (CallError::Unreachable { .. } | CallError::Late { .. }, _) => {
            Ended::Badly(why, Again::Later)
        }
        _ => Ended::Badly(why, Again::Perhaps),
    }
}
