//! What an error of the API server means for the way to a provider.

use polyvirt_engine::provider::NoWay;
use polyvirt_plan::Problem;

/// The answers with which the API server says that the question is wrong, not the moment.
const WRONG: [u16; 6] = [400, 403, 404, 405, 413, 422];

/// The problem, as one of the Provider's or of the moment.
pub fn told(error: &kube::Error, problem: Problem) -> NoWay {
    match error {
        kube::Error::Api(status) if WRONG.contains(&status.code) => NoWay::Wrong(problem),
        _ => NoWay::Unknown(problem),
    }
}

/// The words of the API server, without our own around them.
pub fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use polyvirt_plan::Reason;

    use super::*;

    #[test]
    fn what_passes_by_itself_is_not_held_against_the_provider() {
        let problem = || Problem::new(Reason::SecretInvalid, "spec", "text");
        for (code, wrong) in [
            (403, true),
            (422, true),
            (409, false),
            (429, false),
            (500, false),
            (503, false),
        ] {
            let status = Status::failure("no", "Because").with_code(code);
            let told = told(&kube::Error::Api(Box::new(status)), problem());
            assert_eq!(matches!(told, NoWay::Wrong(_)), wrong, "{code}");
        }
    }
}
