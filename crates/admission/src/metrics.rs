//! What the webhooks count.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Labels of a review.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReviewLabels {
    /// The kind of the object; `other` for one that is not ours.
    pub kind: &'static str,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'static str,
    /// `allowed`, `warned`, `invalid` or `in_use`; of a mutation `patched` or `unchanged`; `unreadable` for no review at all.
    pub verdict: &'static str,
}

/// Labels of the time of a review.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WebhookLabel {
    /// `validate` or `mutate`.
    pub webhook: &'static str,
}

/// All that the webhooks count.
#[derive(Clone)]
pub struct Metrics {
    reviews: Family<ReviewLabels, Counter>,
    seconds: Family<WebhookLabel, Histogram>,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 4.0, 9))
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            reviews: Family::default(),
            seconds: Family::new_with_constructor(seconds),
        }
    }
}

impl Metrics {
    /// Registers everything under the names of the reference page.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("virtrigaud");
        registry.register(
            "admission_reviews",
            "Questions of the API server about objects",
            self.reviews.clone(),
        );
        registry.register(
            "admission_review_duration_seconds",
            "Time of a review",
            self.seconds.clone(),
        );
    }

    /// A review ended.
    pub fn reviewed(&self, webhook: &'static str, labels: &ReviewLabels, took: Duration) {
        self.reviews.get_or_create(labels).inc();
        self.seconds
            .get_or_create(&WebhookLabel { webhook })
            .observe(took.as_secs_f64());
    }
}
