//! What a person with `kubectl get vm --watch` would see, and when.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context;
use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use polyvirt_api::infra::{PowerState, VirtualMachine};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// One VM as its status has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    pub ready: bool,
    pub power: Option<PowerState>,
}

/// All VMs, and counts that need no look at each.
#[derive(Debug, Default)]
pub struct Picture {
    vms: HashMap<String, Shown>,
    /// VMs with Ready=True.
    pub ready: usize,
    /// VMs whose status says that they are off.
    pub off: usize,
}

impl Picture {
    /// One VM.
    pub fn vm(&self, name: &str) -> Shown {
        self.vms.get(name).copied().unwrap_or_default()
    }

    fn put(&mut self, name: String, shown: Shown) {
        let before = self.vms.insert(name, shown).unwrap_or_default();
        self.ready = self.ready + usize::from(shown.ready) - usize::from(before.ready);
        self.off = self.off + usize::from(is_off(shown)) - usize::from(is_off(before));
    }
}

fn is_off(shown: Shown) -> bool {
    shown.power == Some(PowerState::Off)
}

/// The watch and what it has shown.
pub struct Screen {
    picture: watch::Receiver<Picture>,
    task: JoinHandle<()>,
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Screen {
    /// Watches the VMs of a namespace.
    pub fn open(client: Client, namespace: &str) -> Self {
        let (sender, picture) = watch::channel(Picture::default());
        let task = tokio::spawn(follow(Api::namespaced(client, namespace), sender));
        Self { picture, task }
    }

    /// When the picture shows it. Fails if it does not within the limit.
    pub async fn until(
        &self,
        what: &str,
        limit: Duration,
        shows: impl FnMut(&Picture) -> bool,
    ) -> anyhow::Result<Instant> {
        let mut picture = self.picture.clone();
        let seen = timeout(limit, picture.wait_for(shows)).await;
        let now = Instant::now();
        let (ready, off) = self.counts();
        let late = || {
            format!(
                "Not seen within {} s: {what} (now {ready} are ready and {off} are off)",
                limit.as_secs()
            )
        };
        seen.with_context(late)?.context("The watch ended")?;
        Ok(now)
    }

    /// How many VMs are ready and how many are off, now.
    pub fn counts(&self) -> (usize, usize) {
        let picture = self.picture.borrow();
        (picture.ready, picture.off)
    }
}

async fn follow(api: Api<VirtualMachine>, sender: watch::Sender<Picture>) {
    let config = watcher::Config::default().any_semantic().page_size(500);
    let mut stream = watcher(api, config).default_backoff().boxed();
    while let Some(event) = stream.next().await {
        match event {
            Ok(watcher::Event::Apply(vm) | watcher::Event::InitApply(vm)) => show(&sender, &vm),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the bench's watch broke; it is opened again"),
        }
    }
}

fn show(sender: &watch::Sender<Picture>, vm: &VirtualMachine) {
    let name = vm.metadata.name.clone().unwrap_or_default();
    let status = vm.status.as_ref();
    let ready = status.is_some_and(|s| {
        s.conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True")
    });
    let shown = Shown {
        ready,
        power: status.and_then(|s| s.power_state),
    };
    sender.send_modify(|picture| picture.put(name, shown));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_the_vms() {
        let mut picture = Picture::default();
        picture.put(
            "a".into(),
            Shown {
                ready: true,
                power: Some(PowerState::On),
            },
        );
        picture.put(
            "b".into(),
            Shown {
                ready: true,
                power: Some(PowerState::On),
            },
        );
        picture.put(
            "a".into(),
            Shown {
                ready: false,
                power: Some(PowerState::Off),
            },
        );
        picture.put(
            "a".into(),
            Shown {
                ready: false,
                power: Some(PowerState::Off),
            },
        );
        assert_eq!((picture.ready, picture.off), (1, 1));
        assert_eq!(picture.vm("c"), Shown::default());
    }
}
