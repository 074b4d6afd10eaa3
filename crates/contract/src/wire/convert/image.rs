//! Images.

use crate::error::ProviderError;
use crate::model::{ImageIdentity, PrepareImage, PreparedImage};
use crate::wire::{json, task_id, task_ref, v1};

impl TryFrom<&PrepareImage> for v1::ImagePrepareRequest {
    type Error = ProviderError;

    fn try_from(image: &PrepareImage) -> Result<Self, ProviderError> {
        Ok(Self {
            image_json: json::write_prepare(image)?,
            target_name: image.target_name.clone(),
            storage_hint: image.storage_hint.clone(),
            ..Self::default()
        })
    }
}

impl TryFrom<v1::ImagePrepareRequest> for PrepareImage {
    type Error = ProviderError;

    fn try_from(request: v1::ImagePrepareRequest) -> Result<Self, ProviderError> {
        let image = json::read_prepare(&request.image_json)?;
        let identity = request.identity();
        // Without a name of its own the artifact is named by what tells it from all others.
        let named = identity.as_ref().map(ImageIdentity::artifact_name);
        let own = Some(request.target_name).filter(|name| !name.is_empty());
        Ok(Self {
            target_name: own.or(named).unwrap_or_default(),
            origin: image.origin,
            checksum: image.checksum,
            checksum_type: image.checksum_type,
            storage_hint: request.storage_hint,
            pull: image.pull,
            identity,
        })
    }
}

impl From<PreparedImage> for v1::ImagePrepareResponse {
    fn from(image: PreparedImage) -> Self {
        Self {
            task: task_ref(image.task),
            prepared_image_id: image.id.to_string(),
            prepared_image_path: image.path,
            artifact: None,
        }
    }
}

impl From<v1::ImagePrepareResponse> for PreparedImage {
    fn from(response: v1::ImagePrepareResponse) -> Self {
        Self {
            id: response.prepared_image_id.into(),
            path: response.prepared_image_path,
            task: task_id(response.task),
        }
    }
}
