//! The desired VM.

use bytes::Bytes;

use crate::error::ProviderError;
use crate::ids::VmId;
use crate::model::{CreateVm, Placement, UserData};
use crate::wire::{json, v1};

type Result<T> = std::result::Result<T, ProviderError>;

impl TryFrom<&CreateVm> for v1::CreateRequest {
    type Error = ProviderError;

    fn try_from(vm: &CreateVm) -> Result<Self> {
        let (user_data, user_data_kind) = user_data(vm.user_data.as_ref());
        Ok(Self {
            name: vm.name.clone(),
            user_data,
            class_json: json::write_class(&vm.class)?,
            image_json: json::write_image(&vm.image)?,
            networks_json: json::write_networks(&vm.networks)?,
            disks_json: json::write_disks(&vm.disks)?,
            placement_json: json::write_placement(vm.placement.as_ref())?,
            tags: vm.tags.clone(),
            meta_data: vm.meta_data.clone(),
            user_data_kind: user_data_kind.into(),
            network_data: vm.network_data.clone(),
            owner: vm.owner.as_ref().map(Into::into),
            target_host_id: String::new(),
        })
    }
}

/// An owner in metadata wins over that of the message. A host that is named beside the placement wins over the one in it: no other
/// will do.
impl TryFrom<v1::CreateRequest> for CreateVm {
    type Error = ProviderError;

    fn try_from(request: v1::CreateRequest) -> Result<Self> {
        Ok(Self {
            owner: request.owner.and_then(v1::ObjectIdentity::owner),
            class: json::read_class(&request.class_json)?.unwrap_or_default(),
            image: json::read_image(&request.image_json)?.unwrap_or_default(),
            networks: json::read_networks(&request.networks_json)?,
            disks: json::read_disks(&request.disks_json)?,
            user_data: user_data_of(request.user_data_kind, request.user_data)?,
            meta_data: request.meta_data,
            network_data: request.network_data,
            placement: on_host(
                json::read_placement(&request.placement_json)?,
                request.target_host_id,
            ),
            tags: request.tags,
            name: request.name,
        })
    }
}

fn on_host(placement: Option<Placement>, host: String) -> Option<Placement> {
    if host.is_empty() {
        return placement;
    }
    Some(Placement {
        host,
        chosen: None,
        ..placement.unwrap_or_default()
    })
}

fn user_data(data: Option<&UserData>) -> (Bytes, v1::UserDataKind) {
    match data {
        None => (Bytes::new(), v1::UserDataKind::Unspecified),
        Some(UserData::CloudInit(bytes)) => (bytes.clone(), v1::UserDataKind::CloudInit),
        Some(UserData::Ignition(bytes)) => (bytes.clone(), v1::UserDataKind::Ignition),
    }
}

fn user_data_of(kind: i32, bytes: Bytes) -> Result<Option<UserData>> {
    match v1::UserDataKind::try_from(kind) {
        Ok(v1::UserDataKind::Unspecified) => {
            Ok((!bytes.is_empty()).then_some(UserData::CloudInit(bytes)))
        }
        Ok(v1::UserDataKind::CloudInit) => Ok(Some(UserData::CloudInit(bytes))),
        Ok(v1::UserDataKind::Ignition) => Ok(Some(UserData::Ignition(bytes))),
        Err(_) => Err(ProviderError::invalid(
            "spec.userData",
            format!("User data of kind {kind} is not known to this provider: upgrade it"),
        )),
    }
}

/// The request that brings a VM to the desired shape.
pub fn reconfigure_request(id: &VmId, desired: &CreateVm) -> Result<v1::ReconfigureRequest> {
    Ok(v1::ReconfigureRequest {
        id: id.as_str().to_owned(),
        desired_json: json::write_desired(desired)?,
        user_data: desired
            .user_data
            .as_ref()
            .and_then(|d| unless_text(d.bytes())),
        meta_data: unless_text(&desired.meta_data),
        network_data: unless_text(&desired.network_data),
        ..v1::ReconfigureRequest::default()
    })
}

/// The VM and its desired shape, without an owner, which travels as metadata.
pub fn reconfigured(request: v1::ReconfigureRequest) -> Result<(VmId, CreateVm)> {
    let mut desired = json::read_desired(&request.desired_json)?;
    if let Some(bytes) = request.user_data {
        desired.user_data = Some(match desired.user_data {
            Some(UserData::Ignition(_)) => UserData::Ignition(bytes),
            _ => UserData::CloudInit(bytes),
        });
    }
    desired.meta_data = request.meta_data.unwrap_or(desired.meta_data);
    desired.network_data = request.network_data.unwrap_or(desired.network_data);
    Ok((request.id.into(), desired))
}

/// JSON holds text only.
fn unless_text(bytes: &Bytes) -> Option<Bytes> {
    std::str::from_utf8(bytes).is_err().then(|| bytes.clone())
}
