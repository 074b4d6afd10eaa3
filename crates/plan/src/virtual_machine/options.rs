//! A digest of the options that only the hypervisor understands. No VM shows them, so it is remembered what was sent.

use std::fmt::Write as _;

use polyvirt_contract::model::Firmware;
use serde_json::json;

use crate::digest;
use crate::virtual_machine::facts::Desired;

impl Desired {
    /// What only the hypervisor understands, and the firmware and the tags beside it, in a form that can be compared and stored;
    /// `None` for a class without such options.
    pub fn options(&self) -> Option<String> {
        let class = &self.vm.class;
        if class.extra_config.is_empty() {
            return None;
        }
        let secure = class.security.as_ref().is_some_and(|s| s.secure_boot);
        Some(digest::of(&json!({
            "extraConfig": class.extra_config,
            "uefi": class.firmware == Firmware::Uefi,
            "secureBoot": secure,
            "tags": self.vm.tags,
        })))
    }

    /// Whether these are the options that were sent, by the digest that was stored then. The form of earlier releases counts too,
    /// so that an upgrade sends nothing.
    pub fn has_options(&self, stored: Option<&str>) -> bool {
        stored == self.options().as_deref()
            || stored.is_some_and(|s| digest::is_legacy(s) && s == self.legacy_options())
    }

    fn legacy_options(&self) -> String {
        let class = &self.vm.class;
        let secure = class.security.as_ref().is_some_and(|s| s.secure_boot);
        let mut text = format!("{:?} {:?} {secure}", class.extra_config, class.firmware);
        if !self.vm.tags.is_empty() {
            let _ = write!(text, " {:?}", self.vm.tags);
        }
        digest::legacy(&text)
    }
}
