//! From what the system says to what the contract knows.

use std::io;
use std::path::Path;

use polyvirt_contract::{ErrorKind, ProviderError};
use polyvirt_provider_kit::check;

/// Words by which programs say that the disk is full.
const FULL: &str = "No space left on device";
/// Words by which programs say that the host has no memory for them.
const NO_MEMORY: &str = "Cannot allocate memory";

/// A defect, or a failure that nobody foresaw.
pub(crate) fn internal(message: impl Into<String>) -> ProviderError {
    ProviderError::new(ErrorKind::Internal, message)
}

/// The VM's present state forbids it.
pub(crate) fn precondition(message: impl Into<String>) -> ProviderError {
    ProviderError::new(ErrorKind::Precondition, message)
}

/// The datastore has no room left.
pub(crate) fn disk_full(what: impl std::fmt::Display) -> ProviderError {
    let message =
        format!("{what} found no room on the datastore; free space there, then it is tried again");
    ProviderError::new(ErrorKind::Exhausted, message)
}

/// A file or folder could not be used; `doing` says for what, as in "Writing the record".
pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> ProviderError {
    if error.kind() == io::ErrorKind::StorageFull || error.kind() == io::ErrorKind::QuotaExceeded {
        return disk_full(doing);
    }
    internal(format!("{doing} failed at {}: {error}", path.display()))
}

/// A program ended badly; the last line that it wrote says why.
pub(crate) fn program(doing: &str, output: &str) -> ProviderError {
    if output.contains(FULL) {
        return disk_full(doing);
    }
    if output.contains(NO_MEMORY) {
        let state = format!("{doing} failed: the host has too little free memory for the VM");
        return check::too_large(&state);
    }
    let said = output.lines().rev().find(|line| !line.trim().is_empty());
    internal(format!(
        "{doing} failed: {}",
        said.unwrap_or("it gave no reason").trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_no_defect() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = file("Writing the record", Path::new("/x"), &full);
        assert_eq!(error.kind, ErrorKind::Exhausted);
        let said = "qemu-img: error while writing: No space left on device\n";
        assert_eq!(program("The copy", said).kind, ErrorKind::Exhausted);
    }

    #[test]
    fn a_host_without_memory_is_no_defect() {
        let said = "cannot set up guest memory 'ram': Cannot allocate memory\n";
        let error = program("The start of QEMU", said);
        assert_eq!(error.kind, ErrorKind::Exhausted);
        assert_eq!(error.field.as_deref(), Some("class.memory"));
    }

    #[test]
    fn the_last_line_of_a_program_is_its_reason() {
        let error = program("The copy", "first\nqemu-img: no such file\n\n");
        assert_eq!(error.message, "The copy failed: qemu-img: no such file");
    }
}
