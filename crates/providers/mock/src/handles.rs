//! What tests and people use to disturb a mock.

use polyvirt_contract::model::HostHealth;
use polyvirt_contract::{Result, VmId};

use crate::faults::{FaultError, Rule};
use crate::mock::Mock;
use crate::state::Meddling;

/// Makes things go wrong.
#[derive(Clone, Copy, Debug)]
pub struct FaultsHandle<'a>(pub(crate) &'a Mock);

impl FaultsHandle<'_> {
    /// Adds a rule.
    pub fn add(self, rule: Rule) {
        self.0.lock().state.faults.add(rule);
    }

    /// Adds rules from text: `fail=Create:Unavailable:3 lose=Power:10%`, parted by spaces or `&`.
    pub fn parse(self, text: &str) -> std::result::Result<(), FaultError> {
        let words = text.split([' ', '\n', '&']).filter(|word| !word.is_empty());
        let rules: Vec<Rule> = words
            .map(str::parse)
            .collect::<std::result::Result<_, _>>()?;
        for rule in rules {
            self.add(rule);
        }
        Ok(())
    }

    /// From now on nothing goes wrong.
    pub fn clear(self) {
        self.0.lock().state.faults.clear();
    }

    /// Ends all watch streams with an error.
    pub fn break_watches(self) {
        self.0
            .lock()
            .hub
            .break_all("The mock was told to break the watch; open a new one");
    }

    /// The guest no longer obeys requests to shut down and runs no commands, until it is stopped.
    pub fn hang_guest(self, vm: &VmId) -> Result<()> {
        self.0.change(|inner, _| inner.state.hang_guest(vm, true))
    }

    /// The guest listens again.
    pub fn wake_guest(self, vm: &VmId) -> Result<()> {
        self.0.change(|inner, _| inner.state.hang_guest(vm, false))
    }

    /// The image of this template name, path or URL is not there.
    pub fn lose_image(self, source: &str) {
        self.0
            .change(|inner, _| inner.state.image_missing(source, true));
    }

    /// Its origin has other bytes from now on.
    pub fn change_image(self, source: &str) {
        self.0.change(|inner, _| inner.state.image_changed(source));
    }

    /// The image is there again.
    pub fn return_image(self, source: &str) {
        self.0
            .change(|inner, _| inner.state.image_missing(source, false));
    }
}

/// Does what people do behind a provider's back. Nothing of it is counted or disturbed by faults.
#[derive(Clone, Copy, Debug)]
pub struct OutOfBand<'a>(pub(crate) &'a Mock);

impl OutOfBand<'_> {
    /// Starts the VM.
    pub fn power_on(self, vm: &VmId) -> Result<()> {
        self.0
            .change(|inner, now| inner.state.meddle(now, vm, Meddling::Start))
    }

    /// Pulls the plug.
    pub fn power_off(self, vm: &VmId) -> Result<()> {
        self.0
            .change(|inner, now| inner.state.meddle(now, vm, Meddling::Stop))
    }

    /// Deletes the VM.
    pub fn delete(self, vm: &VmId) -> Result<()> {
        self.0
            .change(|inner, now| inner.state.meddle(now, vm, Meddling::Delete))
    }

    /// Gives the VM another size at once.
    pub fn resize(self, vm: &VmId, cpu: u32, memory_mib: u64) -> Result<()> {
        self.0
            .change(|inner, _| inner.state.resize_behind(vm, cpu, memory_mib))
    }

    /// Gives the VM another name.
    pub fn rename(self, vm: &VmId, name: &str) -> Result<()> {
        self.0
            .change(|inner, _| inner.state.rename_behind(vm, name))
    }

    /// Makes a VM that nobody marked.
    pub fn create_stranger(self, name: &str) -> Result<VmId> {
        self.0
            .change(|inner, _| inner.state.stranger(name, 1, 1024))
    }

    /// Takes a host out of service, or back.
    pub fn host_health(self, host: &str, health: HostHealth) -> Result<()> {
        self.0
            .change(|inner, _| inner.state.host_health(host, health))
    }
}
