use polyvirt_contract::{ErrorKind, Extension, Features, Provider};
use polyvirt_provider_mock::{Offer, Resize};

use crate::common::{created, for_another, manual, now, owner, request, with};

#[test]
fn all_extensions_are_offered_and_only_what_acts_is_said_to() {
    let mock = manual();
    let features = now(mock.features()).expect("told");
    assert!(
        Extension::ALL
            .into_iter()
            .all(|extension| features.has(extension))
    );
    for path in [
        "spec.networks[].macAddress",
        "spec.disks[].sizeGiB",
        "class.firmware",
        "spec.userData.cloudInit.inline",
    ] {
        assert!(features.honours(path), "{path}");
    }
    for path in [
        "spec.disks[].scsi.controller",
        "class.securityProfile.tpmEnabled",
        "spec.placement.folder",
    ] {
        assert!(!features.honours(path), "{path}");
    }
}

#[test]
fn capabilities_follow_the_configuration() {
    let online = with(|config| config.resize = Resize::Online);
    assert!(now(online.capabilities()).expect("told").reconfigure_online);
    assert!(
        !now(manual().capabilities())
            .expect("told")
            .reconfigure_online
    );
}

#[test]
fn a_basic_mock_knows_no_owners_and_has_no_extensions() {
    let mock = with(|config| config.offer = Offer::Basic);
    assert_eq!(now(mock.features()), Ok(Features::default()));
    let vm = created(&mock, "a");
    let found = now(mock.describe(&vm.id)).expect("asked").expect("there");
    assert_eq!((found.owner, found.revision), (None, 0));
    let error = now(mock.create(request("a"))).expect_err("the name is taken");
    assert_eq!(error.kind, ErrorKind::NameConflict);
    now(mock.delete(&for_another(&vm))).expect("owners are not heard");
    for error in [
        now(mock.find(&owner("a").identity)).expect_err("basic"),
        now(mock.watch()).map(|_| ()).expect_err("basic"),
        now(mock.inventory()).map(|_| ()).expect_err("basic"),
    ] {
        assert_eq!(error.kind, ErrorKind::Unsupported);
    }
}
