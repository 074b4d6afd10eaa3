//! The promises, by theme.

mod basics;
mod clones;
mod create;
mod disks;
mod guest;
mod images;
mod migration;
mod power;
mod reconfigure;
mod snapshots;
mod watch;

use crate::check::Check;

pub(crate) fn all() -> Vec<Check> {
    [
        basics::checks(),
        create::checks(),
        power::checks(),
        reconfigure::checks(),
        watch::checks(),
        snapshots::checks(),
        clones::checks(),
        images::checks(),
        disks::checks(),
        guest::checks(),
        migration::checks(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn no_two_checks_have_one_name() {
        let all = super::all();
        let names: BTreeSet<_> = all.iter().map(|check| check.name).collect();
        assert_eq!(names.len(), all.len());
    }
}
