use polyvirt_contract::model::{DiskState, NicState, SnapshotState};

use super::*;

fn complaints() -> Complaints {
    Complaints::new("team/hv")
}

fn modest(vm: VmState) -> VmState {
    modest_vm(vm, &complaints()).expect("a usable id")
}

#[test]
fn what_is_true_of_a_vm_is_left_alone() {
    let nic = NicState {
        ip: "10.0.0.1/24".into(),
        ..NicState::default()
    };
    let vm = VmState {
        id: "default/web".into(),
        name: "web".into(),
        ips: vec!["10.0.0.1".into(), "fd00::1".into(), "fe80::1%eth0".into()],
        console_url: "https://console.example.com/web?token=a%20b".into(),
        fault: "The image is broken".into(),
        disks: Some(vec![DiskState::default(); 3]),
        nics: Some(vec![nic]),
        details: [("cpu".to_owned(), "host".to_owned())].into(),
        ..VmState::default()
    };
    assert_eq!(modest(vm.clone()), vm);
}

#[test]
fn a_flood_is_cut_down() {
    let flood = "ü".repeat(1 << 20);
    let disk = DiskState {
        path: flood.clone(),
        ..DiskState::default()
    };
    let vm = modest(VmState {
        name: flood.clone(),
        fault: flood.clone(),
        ips: vec!["10.0.0.1".to_owned(); 1000],
        disks: Some(vec![disk; 4]),
        snapshots: Some(vec![SnapshotState::default(); 10_000]),
        details: (0..1000)
            .map(|n| (n.to_string(), "x".repeat(9999)))
            .collect(),
        ..VmState::default()
    });
    assert!(vm.name.len() <= NAME && vm.fault.len() <= TEXT);
    assert_eq!(vm.ips.len(), FEW);
    assert!(vm.disks.is_some_and(|d| d[0].path.len() <= TEXT));
    assert_eq!(vm.snapshots.map(|s| s.len()), Some(MANY));
    assert!(vm.details.len() == FEW && vm.details.values().all(|v| v.len() <= TEXT));
}

#[test]
fn ids_that_cannot_be_kept_are_refused() {
    for id in ["x".repeat(3 << 20), "vm\u{1b}[2J".to_owned()] {
        let created = Created {
            id: VmId::from(id.as_str()),
            task: None,
        };
        let error = created.modest(&complaints()).expect_err("refused");
        assert_eq!(error.kind, ErrorKind::IdentityConflict);
        assert!(error.message.len() < 200, "{error}");
        let vm = VmState {
            id: VmId::from(id.as_str()),
            ..VmState::default()
        };
        let list = vec![vm.clone(), VmState::default()];
        let list = list.modest(&complaints()).expect("the others");
        assert_eq!(list.len(), 1);
        assert_eq!(Some(vm).modest(&complaints()), Ok(None));
        let task = Some(TaskId::from(id.as_str()));
        assert!(task.modest(&complaints()).is_err());
    }
}

#[test]
fn links_that_run_something_are_dropped() {
    for (url, kept) in [
        ("https://host/console", true),
        ("VNC://host:5900", true),
        ("spice://host", true),
        ("wss://host", true),
        ("javascript:alert(1)", false),
        ("javascript://host/%0aalert(1)", false),
        ("file:///etc/passwd", false),
        ("data:text/html,x", false),
        ("host:5900", false),
    ] {
        let vm = modest(VmState {
            console_url: url.to_owned(),
            ..VmState::default()
        });
        assert_eq!(vm.console_url == url, kept, "{url}");
        assert!(kept || vm.console_url.is_empty(), "{url}");
    }
}

#[test]
fn what_is_no_address_is_dropped() {
    let nic = NicState {
        ip: "<script>".to_owned(),
        ..NicState::default()
    };
    let vm = modest(VmState {
        ips: ["10.0.0.1", "not-an-ip", "", "999.1.1.1", "fd00::2"]
            .map(str::to_owned)
            .into(),
        nics: Some(vec![nic]),
        ..VmState::default()
    });
    assert_eq!(vm.ips, ["10.0.0.1", "fd00::2"]);
    assert_eq!(vm.nics.expect("there")[0].ip, "");
}

#[test]
fn errors_speak_in_plain_text() {
    let mut error = ProviderError::new(ErrorKind::Internal, "Boom\u{1b}[31m\n\u{7}!");
    error.field = Some("spec.\u{0}x".to_owned());
    let error = modest_error(error);
    assert_eq!(error.message, "Boom [31m  !");
    assert_eq!(error.field.as_deref(), Some("spec. x"));
    let task = TaskState::Failed(ProviderError::new(ErrorKind::Internal, "a\nb"));
    let Ok(TaskState::Failed(error)) = task.modest(&complaints()) else {
        panic!("it failed");
    };
    assert_eq!(error.message, "a b");
}

#[tokio::test]
async fn a_stream_tells_only_what_can_be_kept() {
    let bad = || VmId::from("x".repeat(9999).as_str());
    let events = vec![
        Ok(VmEvent::State(VmState {
            id: bad(),
            ..VmState::default()
        })),
        Ok(VmEvent::Gone {
            id: bad(),
            identity: None,
            revision: 1,
        }),
        Ok(VmEvent::Synced),
        Err(ProviderError::new(ErrorKind::Internal, "a\u{1b}b")),
    ];
    let stream = futures::stream::iter(events).boxed();
    let stream = stream.modest(&complaints()).expect("a stream");
    let heard: Vec<_> = stream.collect().await;
    let error = ProviderError::new(ErrorKind::Internal, "a b");
    assert_eq!(heard, [Ok(VmEvent::Synced), Err(error)]);
}
