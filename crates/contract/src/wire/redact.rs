//! `Debug` of the messages that carry credentials: a log line must not hold them.

use std::fmt;

use super::ext::{Handover, PackVmResponse, ReceiveVmRequest};
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

impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handover")
            .field("id", &self.id)
            .field("wish", &self.wish)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PackVmResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackVmResponse").finish_non_exhaustive()
    }
}

impl fmt::Debug for ReceiveVmRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiveVmRequest")
            .field("handover", &self.handover)
            .field("address", &self.address)
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
        let description = bytes::Bytes::from_static(b"hunter2");
        let handover = Handover {
            secret: description.clone(),
            ..Default::default()
        };
        let packed = PackVmResponse {
            description: description.clone(),
        };
        let received = ReceiveVmRequest {
            handover: Some(handover),
            description,
            ..Default::default()
        };
        assert!(!format!("{packed:?} {received:?}").contains("hunter2"));
    }
}
