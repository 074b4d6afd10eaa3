//! Which room of the code asks the API server for what. A room that asks for more says so here, or it is refused.

mod dialects;
mod engine;
mod kubevirt;
mod runtimes;
mod servers;

use super::Verb::{self, Create, Delete, Get, List, Patch, Update, Watch};
use super::{Names, Right, Role, Room, Switch};

/// What keeps a cache of objects asks for.
const SEEN: &[Verb] = &[List, Watch];
/// What keeps a cache, and marks the objects as in its care.
const KEPT: &[Verb] = &[List, Watch, Patch];
/// What makes objects for others, looks whether they are still its own, and removes them.
const MADE: &[Verb] = &[Get, Create, Patch, Delete];
/// What makes objects and keeps a cache of them.
const WHOLE: &[Verb] = &[Get, List, Watch, Create, Patch, Delete];

const CORE: &str = "";
const INFRA: &str = polyvirt_api::names::GROUP;

/// All of them.
pub fn rooms() -> impl Iterator<Item = &'static Room> {
    [
        engine::ROOMS,
        dialects::ROOMS,
        runtimes::ROOMS,
        servers::ROOMS,
        kubevirt::ROOMS,
    ]
    .into_iter()
    .flatten()
}
