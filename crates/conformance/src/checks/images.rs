//! Images.

use polyvirt_contract::ErrorKind;
use polyvirt_contract::model::PreparedImage;

use crate::check::{Check, Checked, Failure, Need, check, ensure};
use crate::lab::Lab;

const IMPORT: Need = Need::Capability("image import", |has| has.image_import);
const GIVEN: Need = Need::Given("image to prepare", |profile| profile.prepare.is_some());

pub(super) fn checks() -> Vec<Check> {
    vec![
        check!(
            "image-prepare-twice",
            "One source is prepared once, and said where it is.",
            &[IMPORT, GIVEN],
            prepare_twice
        ),
        check!(
            "image-delete",
            "A prepared image that nothing uses is deleted once.",
            &[Need::Full, IMPORT, GIVEN],
            delete
        ),
    ]
}

async fn prepare(lab: &Lab) -> Checked<PreparedImage> {
    let Some(request) = lab.profile().prepare.clone() else {
        return Ok(PreparedImage::default());
    };
    let prepared = lab.provider().image_prepare(request).await?;
    lab.done(prepared.task.clone()).await?;
    Ok(prepared)
}

async fn prepare_twice(lab: &Lab) -> Checked {
    let (first, second) = (prepare(lab).await?, prepare(lab).await?);
    let placed = !first.id.is_empty() || !first.path.is_empty();
    ensure!(placed, "it does not say where the image is");
    let same = (&first.id, &first.path) == (&second.id, &second.path);
    ensure!(
        same,
        "one source is in two places: {first:?} and {second:?}"
    );
    ensure!(
        second.task.is_none(),
        "an image that is there is prepared again"
    );
    match lab.provider().image_delete(&first).await {
        Err(error) if error.kind != ErrorKind::Unsupported => Err(error.into()),
        _ => Ok(()),
    }
}

async fn delete(lab: &Lab) -> Checked {
    let image = prepare(lab).await?;
    let deleted = lab.provider().image_delete(&image).await;
    deleted.map_err(Failure::unless_unsupported)?;
    let again = lab.provider().image_delete(&image).await;
    lab.refused(again, ErrorKind::NotFound, "an image that is gone")?;
    Ok(())
}
