//! The end of one life and the beginning of the next: what outlives the process, and what does not.

use crate::state::tasks::Due;
use crate::state::vm::{Power, Stage};
use crate::state::{Change, Happened, Numbers, State, Vm, vm};

impl State {
    /// Takes the VMs of an earlier life. What was half made is undone, what was half deleted stays.
    pub(crate) fn load(&mut self, numbers: Numbers, vms: impl IntoIterator<Item = Vm>) {
        self.vms.clear();
        self.by_identity.clear();
        self.by_name.clear();
        self.hosts.empty();
        self.numbers = numbers;
        self.tasks.set_life(numbers.life);
        for vm in vms {
            self.numbers.vm = self.numbers.vm.max(vm.key.0);
            self.revision = self.revision.max(vm.revision);
            self.recover(vm);
        }
    }

    fn recover(&mut self, mut vm: Vm) {
        let key = vm.key;
        vm.volatile = vm::Volatile {
            hung: vm.volatile.hung,
            ..vm::Volatile::default()
        };
        if vm.power == Power::Booting {
            let up = Due::GuestUp(key, vm.boots);
            self.tasks.later(self.journal.now + self.times.boot, up);
        }
        match vm.stage {
            Stage::Creating => {
                self.revision += 1;
                let identity = vm.owner.map(|owner| owner.identity);
                self.changes
                    .push(Change::Gone(key, identity, self.revision));
            }
            Stage::Ready => self.index(vm),
            Stage::Deleting => {
                vm.stage = Stage::Ready;
                self.index(vm);
                self.touch(key, Happened::Recovered);
            }
        }
    }

    /// The process dies and starts again: tasks are lost, VMs stay.
    pub(crate) fn crash(&mut self) {
        self.tasks.crash();
        self.images.crash();
        let numbers = Numbers {
            life: self.tasks.life(),
            ..self.numbers
        };
        let vms = std::mem::take(&mut self.vms);
        self.load(numbers, vms.into_values().map(|vm| *vm));
    }
}
