//! Who is to be looked at when Hosts and HostPools change, and when what they show does.

use polyvirt_api::infra::{Host, HostPool};

use super::{Dispatcher, Source, urgency};
use crate::host::rules::hosts_of;
use crate::runtime::key::{Kind, ObjectKey};
use crate::runtime::store::Change;

impl Dispatcher {
    /// A Host changed: it may be open again, or have other labels.
    pub fn host_changed(&self, change: &Change<Host>, source: Source) {
        let (old, new) = sides(change);
        let Some(any) = new.or(old) else { return };
        let edited = match (old, new) {
            (Some(old), Some(new)) => old.metadata.generation != new.metadata.generation,
            _ => true,
        };
        if edited {
            self.wake(Kind::Host, &ObjectKey::of(any), urgency(source));
            for host in [old, new].into_iter().flatten() {
                self.rules_changed(
                    host.spec.provider_ref.as_ref(),
                    host.metadata.namespace.as_ref(),
                );
            }
        }
        for host in [old, new].into_iter().flatten() {
            let own = host.metadata.namespace.as_deref().unwrap_or_default();
            if let Some(pool) = &host.spec.pool_ref {
                self.wake_later(Kind::HostPool, &ObjectKey::new(own, &pool.name));
            }
        }
    }

    /// A HostPool changed: its hosts may promise more.
    pub fn pool_changed(&self, change: &Change<HostPool>, source: Source) {
        let (old, new) = sides(change);
        let Some(any) = new.or(old) else { return };
        let edited = match (old, new) {
            (Some(old), Some(new)) => old.metadata.generation != new.metadata.generation,
            _ => true,
        };
        if edited {
            self.wake(Kind::HostPool, &ObjectKey::of(any), urgency(source));
            self.rules_changed(
                any.spec.provider_ref.as_ref(),
                any.metadata.namespace.as_ref(),
            );
        }
    }

    fn rules_changed(
        &self,
        provider: Option<&polyvirt_api::infra::CoreRef>,
        namespace: Option<&String>,
    ) {
        if let (Some(provider), Some(namespace)) = (provider, namespace) {
            self.hosts_changed(&ObjectKey::new(namespace, &provider.name));
        }
    }

    /// A Provider reported its hosts, or VMs came to them or left.
    pub(super) fn wake_hosts_of(&self, provider: &ObjectKey) {
        for name in hosts_of(&self.stores, provider).keys() {
            self.wake_later(Kind::Host, &ObjectKey::new(provider.namespace(), name));
        }
    }
}

fn sides<K>(change: &Change<K>) -> (Option<&K>, Option<&K>) {
    match change {
        Change::Added(new) => (None, Some(&**new)),
        Change::Updated { old, new } => (Some(&**old), Some(&**new)),
        Change::Removed(old) => (Some(&**old), None),
    }
}
