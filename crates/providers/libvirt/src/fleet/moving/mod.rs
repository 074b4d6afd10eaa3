//! Moving a VM from one host of the fleet to another while its guest goes on.
//!
//! ```text
//!   asked ─► look, refuse ─► source: leaves ─► pack ─► begin ─► prepare ─► perform ─► finish ─► confirm ─► settle ─► at the target
//!                               (written)   volumes   source    target     source     target    source       │
//!                                              └────────┴──────────┴──────────┴─────────┴──────────┴─────────┴────► at the source
//! ```
//!
//! We are libvirt's client on both hosts and ask for each step ourselves (docs/adr/0010). Who has the VM in the end is decided in
//! one place, [`settle`], by looking at both hosts, whether the way was gone to its end or not:
//!
//! * A step fails, or somebody stops the move: libvirt's own undoing, then `settle`.
//! * The source's daemon dies: the target's half is removed. QEMU goes on, and the daemon finds it when it is back.
//! * The target's daemon dies: the guest is called back at once. If it dies between the last byte and its answer, nobody knows
//!   whether the guest runs there; the source's stands still until the target is back and says so.
//! * The link is cut: nothing moves any more, and after `moveStall` the guest is called back.
//! * This process dies: libvirt notices that the connections are closed, and undoes. The next life finds the marks, waits until
//!   libvirt is done with that, and settles. The VM has not moved then, and may be asked to again.
//! * The target is taken out of the endpoint meanwhile: a guest that runs at the source stays there. One that stands still may run
//!   at the target, so nothing is done, and its VM says how to go on ([`left`]).
//!
//! While it moves, the source tells of the VM as it was and the target says nothing. So whoever watches sees one VM, and in the
//! end another host.

mod carry;
mod description;
mod follow;
mod left;
mod luggage;
mod settle;
mod stopwatch;
mod wish;

use std::sync::Arc;

use polyvirt_contract::model::{MigrateVm, MigrationMode, PowerState, VmRef};
use polyvirt_contract::{Result, TaskId};
use polyvirt_provider_kit::fleet::running::Running;
use polyvirt_provider_kit::fleet::{choice, moves};
use polyvirt_provider_kit::guest::Told;
use polyvirt_provider_kit::tasks::Progress;
use polyvirt_provider_kit::turns;
use polyvirt_provider_kit::uuid::Uuid;

use super::Fleet;
use crate::core::{Core, Vm};
use crate::create::{must_be_whole, set_marks};
use crate::domain::{Machine, Marks, Moving};
use crate::errors;
use crate::power::{remember, served};
use crate::rpc::{Domain, flags};
use crate::xml::{Element, parse};
use carry::Trip;
pub(crate) use left::keep_settled;
use luggage::{Both, Luggage};
use settle::{Verdict, came_to_nothing, settle, unsettled};

/// From where to where.
struct Route {
    source: Arc<Core>,
    target: Arc<Core>,
    source_host: String,
    target_host: String,
    uuid: Uuid,
    /// Where the guest was before it left: it does not get other addresses by moving.
    told: Told,
}

impl Fleet {
    /// Moves the VM. One that is there already is moved.
    pub(super) async fn move_vm(&self, vm: &VmRef, request: MigrateVm) -> Result<Option<TaskId>> {
        wish::check(&request)?;
        let from = self.place_of(&vm.id).await?;
        let source = self.hosts[from].core.clone();
        let found = source.allowed(vm).await?;
        if served(&found, request.request.as_ref()) {
            return Ok(None);
        }
        let asked = request.request.as_ref();
        if let Some(begun) = self.moves.under_way(&source.tasks, found.uuid, asked)? {
            return moves::told(begun).await;
        }
        let candidates = self.candidates().await;
        let to = choice::choose_other(&candidates, from, &request.target_host)?;
        let Some(to) = to else {
            remember(&source, &found, request.request.as_ref()).await?;
            return Ok(None);
        };
        let route = Route {
            source,
            target: self.hosts[to].core.clone(),
            source_host: candidates[from].name.clone(),
            target_host: candidates[to].name.clone(),
            uuid: found.uuid,
            told: found.asking().told(),
        };
        self.begin_move(route, request).await
    }

    async fn begin_move(&self, route: Route, request: MigrateVm) -> Result<Option<TaskId>> {
        let hosts = (route.source_host.clone(), route.target_host.clone());
        let running = Running::new(route.uuid, request.request.clone(), hosts);
        let source = route.source.clone();
        let office = (&source.tasks, source.stop.clone());
        let carry = |running: Arc<Running>, progress: Progress| async move {
            route.carry(&request, &running, &progress).await
        };
        self.moves.begin(office, running, carry).await
    }
}

impl Route {
    async fn carry(
        &self,
        request: &MigrateVm,
        running: &Running,
        progress: &Progress,
    ) -> Result<()> {
        let (vm, there) = (self.source.entry(self.uuid), self.target.entry(self.uuid));
        // Another migration may go the other way between the same hosts.
        let _alone = turns::both(&vm.change, &there.change).await;
        let seen = self.source.look(&vm).await?;
        let was = seen.ok_or_else(|| errors::no_vm(self.uuid))?.power;
        must_be_whole(&vm)?;
        if served(&vm, request.request.as_ref()) {
            return Ok(());
        }
        let both = Both {
            here: self.source.session().await?,
            there: self.target.session().await?,
        };
        refuse_live(request, was)?;
        self.refuse(&both, &vm, was).await?;
        let machine = vm.live().map_or_else(|| vm.config(), Ok)?;
        let luggage = Luggage::of(&both, &self.target, &machine).await?;
        let marks = vm.config()?.marks.unwrap_or_default();
        let trip = Trip {
            route: self,
            request,
            was,
            marks: &marks,
            luggage: &luggage,
            running,
            progress,
        };
        let travel = (vm.travel(), there.travel());
        let gone = self.leave(&trip, &both, &vm).await;
        drop(travel);
        match (settle(self).await, gone) {
            (Verdict::Target, _) => Ok(()),
            (_, Err(error)) => Err(error),
            (_, Ok(())) => Err(came_to_nothing(self.uuid)),
        }
    }

    /// Written down first, so that whatever is made from here on is found again.
    async fn leave(&self, trip: &Trip<'_>, both: &Both, vm: &Arc<Vm>) -> Result<()> {
        let leaves = Marks {
            moving: Some(Moving::To {
                host: self.target_host.clone(),
                was: trip.was,
                copied: trip.luggage.copied(),
            }),
            ..trip.marks.clone()
        };
        set_marks(&self.source, self.uuid, &leaves, flags::CONFIG).await?;
        self.source.look(vm).await?;
        trip.go(both, vm).await
    }

    /// What cannot be moved, or not now.
    async fn refuse(&self, both: &Both, vm: &Vm, was: PowerState) -> Result<()> {
        let domain = Domain::of(self.uuid);
        let snapshots = vm.state().snapshots.map_or(0, |list| list.len());
        if snapshots > 0 {
            return Err(errors::precondition(format!(
                "The VM has {snapshots} snapshots, which libvirt does not take to another host; delete them first"
            )));
        }
        if both.there.by_uuid(self.uuid).await?.is_some() {
            return Err(errors::precondition(format!(
                "The host {} has a domain with the UUID {} already, which is not touched; see what it is, and undefine it",
                self.target_host, self.uuid
            )));
        }
        let stored = both.here.xml(&domain, flags::INACTIVE).await?;
        held_back(&parse(&stored)?.root, was)
    }
}

/// What of a VM, as it is stored, cannot come along.
fn held_back(stored: &Element, was: PowerState) -> Result<()> {
    // By its address another device is meant at the target, or none. libvirt sees to that for a guest that runs only.
    if has_devices_of_host(stored) {
        return Err(errors::precondition(
            "The VM has devices of its host, which cannot come along; take them away first",
        ));
    }
    let outside =
        stored.at("devices/tpm").is_some() || Machine::of(stored).facts.firmware == "UEFI";
    if was == PowerState::Off && outside {
        return Err(errors::precondition(
            "The VM is off, and its UEFI variables or its TPM lie outside of all storage pools, where only a running guest takes them along; start it, then move it",
        ));
    }
    Ok(())
}

/// Devices of whatever kind, also those that are network cards.
fn has_devices_of_host(domain: &Element) -> bool {
    let Some(devices) = domain.at("devices") else {
        return false;
    };
    let card = |card: &Element| card.get("type").as_deref() == Some("hostdev");
    devices.all("hostdev").next().is_some() || devices.all("interface").any(card)
}

/// A guest that does not run has nothing to go on with.
fn refuse_live(request: &MigrateVm, was: PowerState) -> Result<()> {
    if was == PowerState::Off && request.mode == MigrationMode::Live {
        return Err(errors::precondition(
            "The VM is off, and only a guest that runs moves live; start it, or move it cold",
        ));
    }
    if was == PowerState::Unknown {
        return Err(errors::precondition(
            "Its host does not say how the VM is; wait until it does",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use polyvirt_contract::ErrorKind;

    use super::*;

    #[test]
    fn what_belongs_to_the_host_stays_there() {
        let pci = "<hostdev mode='subsystem' type='pci'><source><address bus='0x3' slot='0x0' function='0x1'/></source></hostdev>";
        let usb = "<hostdev mode='subsystem' type='usb'/>";
        let function = "<interface type='hostdev'/>";
        let bridge = "<interface type='bridge'/>";
        let tpm = "<tpm model='tpm-crb'/>";
        let table = [
            (PowerState::Off, pci, false),
            (PowerState::On, pci, false),
            (PowerState::Off, usb, false),
            (PowerState::Off, function, false),
            (PowerState::Off, bridge, true),
            (PowerState::Off, tpm, false),
            (PowerState::On, tpm, true),
        ];
        for (was, device, moves) in table {
            let xml = format!("<domain><devices>{device}</devices></domain>");
            let refused = held_back(&parse(&xml).expect("XML").root, was).err();
            let expected = (!moves).then_some(ErrorKind::Precondition);
            assert_eq!(refused.map(|e| e.kind), expected, "{was:?} {device}");
        }
    }
}
