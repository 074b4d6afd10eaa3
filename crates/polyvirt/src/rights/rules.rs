//! Rules of roles: what several rooms ask for, together.

use std::collections::BTreeSet;

use super::table::rooms;
use super::{Names, Right, Role, Room, Switch, Verb};

/// One rule of a role, and the rooms that ask for it.
#[derive(Debug)]
pub struct Rule {
    /// Where to read why.
    pub rooms: BTreeSet<&'static str>,
    /// The API group.
    pub group: &'static str,
    /// Its resources.
    pub resources: Vec<&'static str>,
    /// Which objects of them.
    pub names: Names,
    /// What is done with them.
    pub verbs: BTreeSet<Verb>,
}

impl Rule {
    fn of(room: &Room, right: &Right, resource: &'static str) -> Self {
        Self {
            rooms: BTreeSet::from([room.path]),
            group: right.group,
            resources: vec![resource],
            names: right.names,
            verbs: right.verbs.iter().copied().collect(),
        }
    }

    fn is_about_the_same(&self, other: &Self) -> bool {
        let key = |rule: &Self| (rule.group, rule.names);
        key(self) == key(other) && self.resources == other.resources
    }

    fn differs_in_resources_only(&self, other: &Self) -> bool {
        let key = |rule: &Self| (rule.group, rule.names);
        key(self) == key(other) && self.verbs == other.verbs && self.rooms == other.rooms
    }

    fn covers(&self, other: &Self) -> bool {
        self.is_about_the_same(other) && self.verbs.is_superset(&other.verbs)
    }
}

/// Which rooms a role is for.
pub type Meant = fn(&Room) -> bool;

/// Every room.
pub const ALL_ROOMS: Meant = |_| true;

/// What a switch adds to a role, beyond what it grants always.
pub fn rules(role: Role, switch: Switch, meant: Meant) -> Vec<Rule> {
    let mut rules = merged(role, switch, meant);
    if switch != Switch::Always {
        let always = merged(role, Switch::Always, meant);
        rules.retain(|rule| !always.iter().any(|wider| wider.covers(rule)));
    }
    grouped(rules)
}

/// One rule a resource.
fn merged(role: Role, switch: Switch, meant: Meant) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for rule in asked(role, switch, meant) {
        match rules
            .iter_mut()
            .find(|known| known.is_about_the_same(&rule))
        {
            Some(known) => {
                known.verbs.extend(&rule.verbs);
                known.rooms.extend(&rule.rooms);
            }
            None => rules.push(rule),
        }
    }
    rules
}

fn asked(role: Role, switch: Switch, meant: Meant) -> impl Iterator<Item = Rule> {
    rooms()
        .filter(move |room| meant(room))
        .flat_map(move |room| {
            let rights = room.rights.iter();
            let ours = rights.filter(move |right| right.role == role && right.switch == switch);
            ours.flat_map(move |right| {
                let resources = right.resources.iter();
                resources.map(move |resource| Rule::of(room, right, resource))
            })
        })
}

/// Resources that the same rooms use in the same way are one rule.
fn grouped(each: Vec<Rule>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for rule in each {
        match rules
            .iter_mut()
            .find(|known| known.differs_in_resources_only(&rule))
        {
            Some(known) => known.resources.extend(rule.resources),
            None => rules.push(rule),
        }
    }
    rules
}
