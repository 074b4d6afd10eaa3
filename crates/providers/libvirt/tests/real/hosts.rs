//! Several hosts as one provider: VMs are spread, and one host that is away takes nothing with it.

use std::sync::Arc;

use polyvirt_contract::model::{
    ClassSpec, CreateVm, HostHealth, ImageSource, Placement, PowerState, VmRef, VmState,
};
use polyvirt_contract::watch::VmEvent;
use polyvirt_contract::{ErrorKind, Provider, TaskId};
use polyvirt_provider_libvirt::{LibvirtConfig, open_all};

use crate::host::Host;
use crate::lab::{guest_image, next, owner, told};

struct Hosts {
    a: Host,
    b: Host,
    provider: Arc<dyn Provider>,
}

impl Hosts {
    fn start() -> Self {
        let (a, b) = (Host::start(), Host::start());
        for host in [&a, &b] {
            let images = host.path("images");
            std::fs::create_dir_all(&images).expect("made");
            std::fs::copy(guest_image(), images.join("guest.qcow2")).expect("copied");
            host.pool("images", &images);
        }
        let provider = open_all(configs(&a, &b));
        Self { a, b, provider }
    }

    /// By volume, for it has another path on each host.
    fn desired(name: &str, number: u32, host: &str) -> CreateVm {
        CreateVm {
            owner: Some(owner(name, number)),
            name: name.to_owned(),
            class: ClassSpec {
                cpu: 1,
                memory_mib: 192,
                ..ClassSpec::default()
            },
            image: ImageSource {
                path: "images/guest.qcow2".to_owned(),
                ..ImageSource::default()
            },
            placement: Some(Placement {
                host: host.to_owned(),
                ..Placement::default()
            }),
            ..CreateVm::default()
        }
    }

    async fn create(&self, name: &str, number: u32, host: &str) -> VmRef {
        let desired = Self::desired(name, number, host);
        let created = self.provider.create(desired.clone()).await;
        let created = created.expect("accepted");
        self.done(created.task).await;
        VmRef {
            id: created.id,
            owner: desired.owner,
        }
    }

    async fn done(&self, task: Option<TaskId>) {
        use polyvirt_contract::watch::TaskState;
        let Some(task) = task else { return };
        loop {
            match self.provider.task_status(&task).await.expect("known") {
                TaskState::Running { .. } => {}
                TaskState::Succeeded => return,
                TaskState::Failed(error) => panic!("{error:?}"),
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    async fn state(&self, vm: &VmRef) -> VmState {
        let state = self.provider.describe(&vm.id).await;
        state.expect("answers").expect("there")
    }
}

fn configs(a: &Host, b: &Host) -> Vec<LibvirtConfig> {
    let urls = format!("{}&host=hv-a,{}&host=hv-b", a.url(), b.url());
    LibvirtConfig::list_from_url(&urls).expect("readable")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vms_are_spread_and_a_host_that_is_away_takes_nothing_with_it() {
    let hosts = Hosts::start();
    hosts.provider.validate().await.expect("both answer");
    let inventory = hosts.provider.inventory().await.expect("told");
    let names: Vec<_> = inventory.hosts.iter().map(|h| h.name.as_str()).collect();
    assert_eq!(names, ["hv-a", "hv-b"]);

    // Asked for by name, then by room: the second goes where less was given away.
    let placed = hosts.create("named", 1, "hv-b").await;
    let roomy = hosts.create("roomy", 2, "").await;
    assert_eq!(hosts.state(&placed).await.host, "hv-b");
    assert_eq!(hosts.state(&roomy).await.host, "hv-a");
    assert_eq!(hosts.b.virsh(&["list", "--all", "--name"]), "named");
    let error = hosts.provider.create(Hosts::desired("x", 9, "hv-c")).await;
    assert_eq!(error.expect_err("no such host").kind, ErrorKind::Invalid);
    // The same VM again is the same VM, wherever it is asked for.
    let again = hosts.create("named", 1, "hv-a").await;
    assert_eq!(again.id, placed.id);
    // A name is taken on all hosts.
    let other = hosts
        .provider
        .create(Hosts::desired("named", 3, "hv-a"))
        .await;
    assert_eq!(other.expect_err("taken").kind, ErrorKind::NameConflict);

    let mut stream = hosts.provider.watch().await.expect("watched");
    let mut seen = 0;
    loop {
        match next(&mut stream).await {
            VmEvent::State(_) => seen += 1,
            VmEvent::Synced => break,
            _ => {}
        }
    }
    assert_eq!(seen, 2, "all hosts are in before it is whole");

    hosts.b.kill();
    let listed = hosts
        .provider
        .list_vms()
        .await
        .expect("the other host answers");
    let power = |vm: &VmRef| listed.iter().find(|s| s.id == vm.id).map(|s| s.power);
    assert_eq!(power(&placed), Some(PowerState::Unknown), "not gone");
    assert_eq!(power(&roomy), Some(PowerState::Off));
    let unknown = told(&mut stream, |state| state.power == PowerState::Unknown).await;
    assert_eq!(unknown.id, placed.id);
    let error = hosts.provider.describe(&placed.id).await;
    assert_eq!(error.expect_err("unknown").kind, ErrorKind::Unavailable);
    let inventory = hosts.provider.inventory().await.expect("told");
    assert_eq!(inventory.hosts[1].health, HostHealth::Down);
    hosts.provider.validate().await.expect("one answers");
    // The other goes on, with new VMs too; the VM of the host that is away is made nowhere else.
    let fresh = hosts.create("fresh", 4, "").await;
    assert_eq!(hosts.state(&fresh).await.host, "hv-a");
    let error = hosts.provider.create(Hosts::desired("named", 1, "")).await;
    assert_eq!(error.expect_err("there").kind, ErrorKind::Unavailable);

    // Whoever begins now has never heard of that host: nothing is said about what it has not told.
    let later = open_all(configs(&hosts.a, &hosts.b));
    let error = later.list_vms().await.expect_err("not all are known");
    assert_eq!(error.kind, ErrorKind::Unavailable);
    let error = later.create(Hosts::desired("named", 1, "hv-a")).await;
    assert_eq!(
        error.expect_err("may be there").kind,
        ErrorKind::Unavailable
    );
    assert_eq!(
        hosts.a.virsh(&["list", "--all", "--name"]).lines().count(),
        2
    );

    hosts.b.run();
    told(&mut stream, |state| {
        state.id == placed.id && state.power == PowerState::Off
    })
    .await;
    for vm in [&placed, &roomy, &fresh] {
        let task = hosts.provider.delete(vm).await.expect("accepted");
        hosts.done(task).await;
        assert_eq!(hosts.provider.describe(&vm.id).await, Ok(None));
    }
}
