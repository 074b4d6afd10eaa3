//! New VMs: each on one host, however often it is asked for.

use polyvirt_contract::model::{CreateVm, Created, Owner};
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_provider_kit::fleet::choice::choose;
use polyvirt_provider_kit::fleet::sent::Sent;
use polyvirt_provider_kit::uuid::Uuid;

use super::Fleet;
use super::told::task_of_host;

impl Fleet {
    pub(super) async fn create_somewhere(&self, request: CreateVm) -> Result<Created> {
        let key = key(request.owner.as_ref(), &request.name);
        let _alone = self.book.turn(&key).await;
        if let Some(place) = self.already_at(&key, request.owner.as_ref()).await? {
            return self.send(place, &key, request).await;
        }
        self.check_name(request.owner.as_ref(), &request.name)?;
        let asked = request.placement.as_ref();
        let asked = asked.map_or("", |place| place.host.as_str());
        let place = choose(&self.candidates().await, asked)?;
        self.send(place, &key, request).await
    }

    async fn already_at(&self, key: &str, owner: Option<&Owner>) -> Result<Option<usize>> {
        if let Some(place) = self.book.where_is(key) {
            return Ok(Some(place));
        }
        let Some(owner) = owner else { return Ok(None) };
        let found = self.find_state(&owner.identity).await?;
        Ok(found.map(|(place, _)| place))
    }

    /// Noted first, so that an answer that is lost sends the next attempt to the same host.
    async fn send(&self, place: usize, key: &str, mut request: CreateVm) -> Result<Created> {
        let memory_mib = request.class.memory_mib;
        let sent = Sent {
            host: place,
            memory_mib,
        };
        self.book.send(key, sent);
        if let Some(placement) = &mut request.placement {
            // It was obeyed, or the VM is elsewhere already.
            placement.host.clear();
        }
        let answer = self.members[place].provider.create(request).await;
        self.book.settle(key, &answer);
        answer.map(|created| Created {
            task: created.task.map(|task| task_of_host(place, &task)),
            ..created
        })
    }

    /// A host knows its own names only.
    pub(super) fn check_name(&self, owner: Option<&Owner>, name: &str) -> Result<()> {
        let identity = owner.map(|owner| &owner.identity);
        let all = self.told.states().into_iter();
        let mut taken = all.filter(|state| {
            let theirs = state.owner.as_ref().map(|owner| &owner.identity);
            state.name == name && theirs != identity
        });
        let Some(state) = taken.next() else {
            return Ok(());
        };
        let message = format!(
            "The name {name} is taken by the VM {} on the host {}; rename one of the two, or delete that one",
            state.id, state.host
        );
        Err(ProviderError::new(ErrorKind::NameConflict, message).at("metadata.name"))
    }
}

/// What tells creations apart: the id that the VM will have, else its name.
pub(super) fn key(owner: Option<&Owner>, name: &str) -> String {
    owner.map_or_else(
        || format!("name {name}"),
        |owner| Uuid::of_identity(&owner.identity).vm_id().to_string(),
    )
}
