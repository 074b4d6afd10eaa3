//! Which host a new VM goes to. Pure.

use polyvirt_contract::{ErrorKind, ProviderError, Result};

/// A host as it is known now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name; empty as long as it has never answered.
    pub name: String,
    /// Why it cannot be asked; `None` if it can.
    pub down: Option<ProviderError>,
    /// Memory that no VM has and that none is being made with. Below zero where more was promised than there is.
    pub free_mib: i64,
}

/// The place in the list of the host that was asked for, else of the one with most free memory.
pub fn choose(hosts: &[Candidate], asked: &str) -> Result<usize> {
    if asked.is_empty() {
        return roomiest(hosts);
    }
    let found = hosts.iter().position(|host| host.name == asked);
    match found.map(|place| (place, &hosts[place].down)) {
        Some((place, None)) => Ok(place),
        Some((_, Some(why))) => Err(why.clone()),
        None => Err(no_such_host(hosts, asked)),
    }
}

/// The same for a VM that is to leave a host; `None` if it is asked to go where it is. A target that is away is a reason not to
/// move, and not one to be asked the same again: whoever asks keeps the VM from all else meanwhile.
pub fn choose_other(hosts: &[Candidate], leaves: usize, asked: &str) -> Result<Option<usize>> {
    let chosen = other(hosts, leaves, asked).map_err(|error| refused(error).at("targetHost"))?;
    Ok((chosen != leaves).then_some(chosen))
}

fn refused(error: ProviderError) -> ProviderError {
    if error.kind.is_unanswered() {
        let text = format!("No host can take the VM now: {}", error.message);
        return ProviderError::new(ErrorKind::Precondition, text);
    }
    error
}

fn other(hosts: &[Candidate], leaves: usize, asked: &str) -> Result<usize> {
    if !asked.is_empty() {
        return choose(hosts, asked);
    }
    let mut others = hosts.to_vec();
    others[leaves].down = Some(unavailable(
        "No other host of this provider answers".to_owned(),
    ));
    // What is told is why none of the others can be had.
    others.rotate_left(leaves + 1);
    let chosen = roomiest(&others)?;
    Ok((chosen + leaves + 1) % hosts.len())
}

fn roomiest(hosts: &[Candidate]) -> Result<usize> {
    let up = hosts
        .iter()
        .enumerate()
        .filter(|(_, host)| host.down.is_none());
    // Of equals the first, so that the same question has the same answer.
    let best = up.min_by_key(|(place, host)| (-host.free_mib, *place));
    let why = || hosts.iter().find_map(|host| host.down.clone());
    best.map(|(place, _)| place)
        .ok_or_else(|| why().unwrap_or_else(|| unavailable("No host answers".to_owned())))
}

/// A host that has never answered may be the one that is meant.
fn no_such_host(hosts: &[Candidate], asked: &str) -> ProviderError {
    if let Some(why) = hosts
        .iter()
        .find(|host| host.name.is_empty())
        .and_then(|host| host.down.clone())
    {
        return why;
    }
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    let message = format!(
        "There is no host {asked}; this provider has {}",
        names.join(", ")
    );
    ProviderError::invalid("spec.placement.host", message)
}

/// Nobody who could do it answers.
pub fn unavailable(message: String) -> ProviderError {
    ProviderError::new(ErrorKind::Unavailable, message)
}

/// A name that two hosts have.
pub fn shared_name(names: &[String]) -> Option<&str> {
    let twice = |(place, name): &(usize, &String)| names[..*place].contains(name);
    names
        .iter()
        .enumerate()
        .find(twice)
        .map(|(_, name)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, free_mib: i64) -> Candidate {
        Candidate {
            name: name.to_owned(),
            down: None,
            free_mib,
        }
    }

    fn down(name: &str) -> Candidate {
        Candidate {
            down: Some(unavailable(format!("{name} is away"))),
            ..host(name, 9999)
        }
    }

    #[test]
    fn the_host_that_was_asked_for_or_the_roomiest_that_answers() {
        let hosts = [host("a", 100), host("b", 300), down("c"), host("d", 300)];
        for (asked, expected) in [("", Ok(1)), ("a", Ok(0)), ("d", Ok(3))] {
            assert_eq!(choose(&hosts, asked), expected, "{asked}");
        }
        let error = choose(&hosts, "c").expect_err("away");
        assert_eq!(error.kind, ErrorKind::Unavailable);
        let error = choose(&hosts, "x").expect_err("unknown");
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains("a, b, c, d"), "{error}");
        assert_eq!(choose(&[host("a", -5), host("b", -1)], ""), Ok(1));
        let error = choose(&[down("a"), down("b")], "").expect_err("all away");
        assert_eq!(error.message, "a is away");
    }

    #[test]
    fn a_vm_leaves_for_another_host_only() {
        let hosts = [host("a", 900), host("b", 100), host("c", 300)];
        for (asked, expected) in [("", Some(2)), ("b", Some(1)), ("a", None)] {
            assert_eq!(choose_other(&hosts, 0, asked), Ok(expected), "{asked}");
        }
        assert_eq!(choose_other(&hosts, 2, ""), Ok(Some(0)));
        let error = choose_other(&hosts, 0, "x").expect_err("unknown");
        assert_eq!(error.field.as_deref(), Some("targetHost"));
        for asked in ["", "b"] {
            let error = choose_other(&[host("a", 9), down("b")], 0, asked).expect_err("away");
            assert!(error.message.ends_with("b is away"), "{error}");
            let told = (error.kind, error.field.as_deref());
            assert_eq!(told, (ErrorKind::Precondition, Some("targetHost")));
        }
    }

    #[test]
    fn a_host_that_never_answered_may_be_the_one_that_is_meant() {
        let mut nameless = down("b");
        nameless.name.clear();
        let error = choose(&[host("a", 1), nameless], "b").expect_err("not known yet");
        assert_eq!(error.kind, ErrorKind::Unavailable);
    }

    #[test]
    fn a_name_that_two_hosts_have_is_found() {
        let names = ["a", "b", "a"].map(str::to_owned);
        assert_eq!(shared_name(&names), Some("a"));
        assert_eq!(shared_name(&names[..2]), None);
    }
}
