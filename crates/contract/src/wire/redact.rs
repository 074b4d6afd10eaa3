//! `Debug` of the messages that carry credentials: a log line must not hold them.

use std::fmt;

use super::v1::{ExportDiskRequest, ImportDiskRequest};

impl fmt::Debug for ExportDiskRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExportDiskRequest")
            .field("vm_id", &self.vm_id)
            .field("disk_id", &self.disk_id)
            .field("destination_url", &self.destination_url)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ImportDiskRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportDiskRequest")
            .field("source_url", &self.source_url)
            .field("target_name", &self.target_name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_shown() {
        let credentials: std::collections::BTreeMap<_, _> =
            [("secretAccessKey".to_owned(), "hunter2".to_owned())].into();
        let export = ExportDiskRequest {
            credentials: credentials.clone(),
            ..Default::default()
        };
        let import = ImportDiskRequest {
            credentials,
            ..Default::default()
        };
        assert!(!format!("{export:?} {import:?}").contains("hunter2"));
    }
}
