//! What the first disk is made from.

use serde::Serialize;

use crate::error::ProviderError;
use crate::model::{ImageSource, Pull};

use super::read::{Object, parse_object};
use super::write;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ImageJson<'a> {
    template_name: &'a str,
    path: &'a str,
    #[serde(rename = "URL")]
    url: &'a str,
    format: &'a str,
    checksum: &'a str,
    checksum_type: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pull_policy: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reader: &'a str,
}

impl<'a> From<&'a ImageSource> for ImageJson<'a> {
    fn from(image: &'a ImageSource) -> Self {
        Self {
            template_name: &image.template_name,
            path: &image.path,
            url: &image.url,
            format: &image.format,
            checksum: &image.checksum,
            checksum_type: &image.checksum_type,
            pull_policy: pull_word(image.pull),
            reader: &image.reader,
        }
    }
}

/// The image of `Create`.
pub fn write_image(image: &ImageSource) -> Result<String, ProviderError> {
    write(&ImageJson::from(image))
}

/// The image of `Create`; `None` for an empty text.
pub fn read_image(text: &str) -> Result<Option<ImageSource>, ProviderError> {
    parse_object(text, "image", image_of)
}

pub(super) fn image_of(image: &Object<'_>) -> Result<ImageSource, ProviderError> {
    Ok(ImageSource {
        template_name: image.text("templateName")?,
        path: image.text("path")?,
        url: image.text("url")?,
        format: image.text("format")?,
        checksum: image.text("checksum")?,
        checksum_type: image.text("checksumType")?,
        pull: pull_of(image)?,
        reader: image.text("reader")?,
    })
}

/// The default is not written, so that messages without it are as they always were.
pub(super) fn pull_word(pull: Pull) -> &'static str {
    match pull {
        Pull::IfNotPresent => "",
        other => other.word(),
    }
}

pub(super) fn pull_of(object: &Object<'_>) -> Result<Pull, ProviderError> {
    let word = object.text("pullPolicy")?;
    Pull::parse(&word).ok_or_else(|| {
        let message = format!("There is no policy {word:?}. Write IfNotPresent, Always or Never");
        ProviderError::invalid("image.pullPolicy", message)
    })
}
