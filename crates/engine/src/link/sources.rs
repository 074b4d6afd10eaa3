//! Which call told what of a VM, for providers without revisions: `Describe` and `ListVMs` may differ.
//!
//! ```text
//!   list: A ── describe: X ── list: A again      no news: X is kept, and the VM is asked for once more
//!                 ── describe: X ── list: A      the provider contradicts itself: X is kept, and that is reported once
//!   list: B                                      news: B is taken
//! ```

use std::collections::HashMap;

use polyvirt_contract::VmId;
use polyvirt_contract::model::{PowerState, VmState};

/// Which call told the newest word of a VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// `ListVMs`, or a stream.
    #[default]
    List,
    /// `Describe`.
    Describe,
}

/// What becomes of the word of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is news.
    News,
    /// It is what the list said before, and the VM's own answer says nothing of some of it.
    Beside,
    /// It is what the list said before.
    Known,
    /// It is what the list said before, and not what the VM's own answer said: ask again.
    Doubtful,
    /// It was asked for again, and the answer is the same: the provider contradicts itself.
    Contradiction,
}

/// How often the list has differed from the answers, in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Doubt {
    #[default]
    None,
    Once,
    Sure,
}

#[derive(Default)]
struct Words {
    newest: Source,
    list: Option<VmState>,
    doubt: Doubt,
}

/// What each call has told.
#[derive(Default)]
pub struct Sources(HashMap<VmId, Words>);

impl Sources {
    /// Forgets VMs that are not there any more.
    pub fn keep(&mut self, is_there: impl Fn(&VmId) -> bool) {
        self.0
            .retain(|id, words| is_there(id) || words.doubt != Doubt::None);
    }

    /// The VM is not there any more.
    pub fn forget(&mut self, id: &VmId) {
        self.0.remove(id);
    }

    /// A VM was asked for.
    pub fn described(&mut self, vm: &VmState) {
        let words = self.0.entry(vm.id.clone()).or_default();
        words.newest = Source::Describe;
        let agrees = words
            .list
            .as_ref()
            .is_none_or(|list| differences(vm, list).is_empty());
        if agrees {
            words.doubt = Doubt::None;
        }
    }

    /// The list named a VM of which `known` is the newest word.
    pub fn listed(&mut self, vm: &VmState, known: &VmState) -> Taken {
        let words = self.0.entry(vm.id.clone()).or_default();
        let repeated = words.list.as_ref() == Some(vm);
        if !repeated || words.newest == Source::List {
            *words = Words {
                list: Some(vm.clone()),
                ..Words::default()
            };
            return Taken::News;
        }
        if differences(known, vm).is_empty() {
            words.doubt = Doubt::None;
            if merged(known, vm) == *known {
                return Taken::Known;
            }
            return Taken::Beside;
        }
        let (next, taken) = match words.doubt {
            Doubt::None => (Doubt::Once, Taken::Doubtful),
            Doubt::Once => (Doubt::Sure, Taken::Contradiction),
            Doubt::Sure => (Doubt::Sure, Taken::Known),
        };
        words.doubt = next;
        taken
    }

    /// Which call told the newest word.
    pub fn newest(&self, id: &VmId) -> Source {
        self.0.get(id).map(|words| words.newest).unwrap_or_default()
    }

    /// What the provider contradicts itself in, if that is sure; `known` is the newest word of the VM.
    pub fn contradiction(&self, id: &VmId, known: &VmState) -> Option<String> {
        let words = self.0.get(id).filter(|words| words.doubt == Doubt::Sure)?;
        let differ = differences(known, words.list.as_ref()?);
        (!differ.is_empty()).then(|| differ.join(", "))
    }
}

/// The answer, with what it does not tell from the list.
pub fn merged(answer: &VmState, list: &VmState) -> VmState {
    let mut all = answer.clone();
    if all.power == PowerState::Unknown {
        all.power = list.power;
    }
    if all.cpu == 0 {
        all.cpu = list.cpu;
    }
    if all.memory_mib == 0 {
        all.memory_mib = list.memory_mib;
    }
    all.disks = all.disks.or_else(|| list.disks.clone());
    all.nics = all.nics.or_else(|| list.nics.clone());
    all
}

/// The facts that an answer and a list both tell, and differ in.
fn differences(answer: &VmState, list: &VmState) -> Vec<String> {
    let told = |a: u64, b: u64| a > 0 && b > 0 && a != b;
    let mut found = Vec::new();
    let mut put = |name: &str, a: String, b: String| {
        found.push(format!("{name} (Describe: {a}, ListVMs: {b})"));
    };
    let unknown = |vm: &VmState| vm.power == PowerState::Unknown;
    if answer.power != list.power && !unknown(answer) && !unknown(list) {
        put(
            "power",
            answer.power.wire().to_owned(),
            list.power.wire().to_owned(),
        );
    }
    if told(answer.cpu.into(), list.cpu.into()) {
        put("cpu", answer.cpu.to_string(), list.cpu.to_string());
    }
    if told(answer.memory_mib, list.memory_mib) {
        put(
            "memoryMiB",
            answer.memory_mib.to_string(),
            list.memory_mib.to_string(),
        );
    }
    if let (Some(a), Some(b)) = (&answer.disks, &list.disks)
        && a.len() != b.len()
    {
        put("number of disks", a.len().to_string(), b.len().to_string());
    }
    if let (Some(a), Some(b)) = (&answer.nics, &list.nics)
        && a.len() != b.len()
    {
        put("number of NICs", a.len().to_string(), b.len().to_string());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(cpu: u32) -> VmState {
        VmState {
            id: "vm-1".into(),
            power: PowerState::On,
            cpu,
            ..VmState::default()
        }
    }

    #[test]
    fn a_list_that_says_the_same_again_does_not_overrule_an_answer() {
        let mut sources = Sources::default();
        assert_eq!(sources.listed(&vm(1), &vm(2)), Taken::News);
        sources.described(&vm(2));
        assert_eq!(sources.listed(&vm(1), &vm(2)), Taken::Doubtful);
        sources.described(&vm(2));
        assert_eq!(sources.listed(&vm(1), &vm(2)), Taken::Contradiction);
        let id = VmId::from("vm-1");
        let text = sources.contradiction(&id, &vm(2)).expect("sure");
        assert_eq!(text, "cpu (Describe: 2, ListVMs: 1)");
        assert_eq!(sources.listed(&vm(1), &vm(2)), Taken::Known);
    }

    #[test]
    fn what_an_answer_does_not_tell_comes_from_the_list() {
        let mut sources = Sources::default();
        sources.listed(&vm(1), &vm(1));
        sources.described(&vm(0));
        assert_eq!(sources.listed(&vm(1), &vm(0)), Taken::Beside);
        assert_eq!(merged(&vm(0), &vm(1)), vm(1));
        assert_eq!(merged(&vm(2), &vm(1)), vm(2));
    }

    #[test]
    fn a_list_that_changes_is_news_and_an_answer_that_agrees_ends_the_doubt() {
        let mut sources = Sources::default();
        sources.listed(&vm(1), &vm(1));
        sources.described(&vm(2));
        assert_eq!(sources.listed(&vm(1), &vm(2)), Taken::Doubtful);
        sources.described(&vm(1));
        assert_eq!(sources.listed(&vm(1), &vm(1)), Taken::Known);
        assert!(sources.contradiction(&VmId::from("vm-1"), &vm(1)).is_none());
        assert_eq!(sources.listed(&vm(3), &vm(1)), Taken::News);
        assert_eq!(sources.newest(&VmId::from("vm-1")), Source::List);
    }
}
