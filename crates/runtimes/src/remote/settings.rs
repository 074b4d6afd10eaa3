//! What the manager is told about the pods of providers.

use std::collections::BTreeMap;

use polyvirt_api::infra::{Provider, ProviderType};
use polyvirt_engine::provider::sessions::type_word;
use polyvirt_plan::{Problem, Reason};

/// What the manager is told about the pods of providers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The image of providers that name none: this program's own.
    pub image: Option<String>,
    /// Images of types that have one of their own.
    pub images: BTreeMap<String, String>,
    /// The types for which an image is chosen; empty for all. A Provider of another type names its own.
    pub types: Vec<String>,
    /// The types that our image can serve from a pod.
    pub serves: Vec<ProviderType>,
    /// The types whose code itself fetches images from where their URLs point.
    pub fetches: Vec<ProviderType>,
    /// Where the manager runs: it alone may call providers.
    pub manager_namespace: String,
    /// The labels of the manager's pods.
    pub manager_labels: BTreeMap<String, String>,
    /// The last part of all names of Services.
    pub cluster_domain: String,
    /// Namespaces that the manager works in; empty for all.
    pub namespaces: Vec<String>,
}

/// Whose image a provider runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// The manager's own: it takes our words and reads certificates anew by itself.
    Ours(String),
    /// Another: it is given what the contract says, and no more.
    Named(String),
}

impl Image {
    /// As a pod names it.
    pub fn name(&self) -> &str {
        match self {
            Self::Ours(name) | Self::Named(name) => name,
        }
    }
}

impl Settings {
    /// The image for a Provider: that which it names, that of its type, ours.
    pub fn image_for(&self, provider: &Provider) -> Result<Image, Problem> {
        let kind = provider.spec.type_;
        let named = provider.spec.runtime.as_ref().and_then(|r| r.image.clone());
        let ours = self.image.as_ref();
        if let Some(named) = named.filter(|named| Some(named) != ours) {
            return Ok(Image::Named(named));
        }
        self.is_on(kind)?;
        match (self.images.get(type_word(kind)), ours) {
            (Some(of_type), _) if Some(of_type) != ours => Ok(Image::Named(of_type.clone())),
            (_, Some(ours)) if self.serves.contains(&kind) => Ok(Image::Ours(ours.clone())),
            (_, Some(_)) => Err(no_image(provider, "This type is not part of our image")),
            (_, None) => Err(no_image(
                provider,
                "The manager was given no image for providers",
            )),
        }
    }

    fn is_on(&self, kind: ProviderType) -> Result<(), Problem> {
        let word = type_word(kind);
        if self.types.is_empty() || self.types.iter().any(|t| t == word) {
            return Ok(());
        }
        let text = format!(
            "Providers of type {word} are switched off in this installation: name an image here, or set providers.{word}.enabled in the values of the chart"
        );
        Err(Problem::new(
            Reason::InvalidConfiguration,
            "spec.runtime.image",
            text,
        ))
    }
}

fn no_image(provider: &Provider, why: &str) -> Problem {
    let kind = type_word(provider.spec.type_);
    let text = format!(
        "{why}: name one that serves {kind} here, or choose another spec.runtime.mode (External, Process, InProcess)"
    );
    Problem::new(Reason::InvalidConfiguration, "spec.runtime.image", text)
}
