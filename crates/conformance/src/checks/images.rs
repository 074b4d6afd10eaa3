//! Images.

use polyvirt_contract::model::PreparedImage;

use crate::check::{Check, Checked, Need, check, ensure};
use crate::lab::Lab;

const IMPORT: Need = Need::Capability("image import", |has| has.image_import);
const GIVEN: Need = Need::Given("image to prepare", |profile| profile.prepare.is_some());

pub(super) fn checks() -> Vec<Check> {
    vec![check!(
        "image-prepare-twice",
        "One source is prepared once, and said where it is.",
        &[IMPORT, GIVEN],
        prepare_twice
    )]
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
    Ok(())
}
