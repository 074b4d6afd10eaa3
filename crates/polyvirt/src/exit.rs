//! How the program ends.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | it failed, or `polyvirt status` is not healthy |
//! | 2 | the command line cannot be understood |
//! | 3 | the object does not exist |
//! | 4 | it was not done within the time |

use std::process::ExitCode;

/// Failures that have an exit code of their own. `polyvirt vm exec` and `ssh` end with the code of the program that they ran.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The user has been told already.
    #[error("Not all is well")]
    Said,
    /// What was named does not exist.
    #[error("{0}")]
    NotFound(String),
    /// It was not done within the time.
    #[error("{0}")]
    TimedOut(String),
    /// A program that we ran for the user ended with this code.
    #[error("The program ended with code {0}")]
    Program(u8),
}

/// Whether the user knows of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It has been shown.
    Already,
    /// It is still to be shown.
    NotYet,
}

/// The exit code for a failure, and whether it still has to be told.
pub fn code(error: &anyhow::Error) -> (ExitCode, Told) {
    match error.downcast_ref::<Failure>() {
        Some(Failure::Said) => (ExitCode::from(1), Told::Already),
        Some(Failure::NotFound(_)) => (ExitCode::from(3), Told::NotYet),
        Some(Failure::TimedOut(_)) => (ExitCode::from(4), Told::NotYet),
        Some(Failure::Program(code)) => (ExitCode::from(*code), Told::Already),
        None => (ExitCode::FAILURE, Told::NotYet),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_survive_context() {
        let missing = Failure::NotFound("gone".to_owned());
        let wrapped = anyhow::Error::from(missing).context("while looking");
        assert_eq!(code(&wrapped), (ExitCode::from(3), Told::NotYet));
        let other = anyhow::anyhow!("broken");
        assert_eq!(code(&other), (ExitCode::FAILURE, Told::NotYet));
        let program = Failure::Program(42).into();
        assert_eq!(code(&program), (ExitCode::from(42), Told::Already));
    }
}
