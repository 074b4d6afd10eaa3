//! The checksum of an image. CDI knows digests only, so a list of them is read here, when the VM is made.

use polyvirt_contract::model::ImageSource;
use polyvirt_contract::{ErrorKind, ProviderError, Result};
use polyvirt_disks::fetch::{FetchError, Fetcher, Options, Proof, Reach, Source};

const CHECKSUM: &str = "spec.source.checksum";

/// Puts the digest of the day where the address of its list was.
pub(crate) async fn settle(image: &mut ImageSource, reach: Reach) -> Result<()> {
    let invalid = |text: String| ProviderError::invalid(CHECKSUM, text);
    let proof = Proof::parse(&image.checksum_type, &image.checksum);
    let Some(proof @ Proof::List { .. }) = proof.map_err(|e| invalid(e.to_string()))? else {
        return Ok(());
    };
    let source = Source::parse(&image.url).map_err(|e| invalid(e.to_string()))?;
    let options = Options {
        reach,
        ..Options::default()
    };
    let fetcher = Fetcher::new(options).map_err(|e| told(&e).at(CHECKSUM))?;
    let digest = fetcher.expected(&proof, &source).await;
    let digest = digest.map_err(|e| told(&e).at(CHECKSUM))?;
    digest.hex().clone_into(&mut image.checksum);
    Ok(())
}

/// A failure on the way to a server.
pub(crate) fn told(error: &FetchError) -> ProviderError {
    let kind = if error.is_retryable() {
        ErrorKind::Unavailable
    } else {
        ErrorKind::Invalid
    };
    ProviderError::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(checksum: &str) -> ImageSource {
        ImageSource {
            url: "https://images.example/disk.img".to_owned(),
            checksum: checksum.to_owned(),
            ..ImageSource::default()
        }
    }

    #[tokio::test]
    async fn a_digest_stays_and_a_list_inside_is_not_read() {
        let digest = "ab".repeat(32);
        for same in ["", digest.as_str()] {
            let mut given = image(same);
            settle(&mut given, Reach::Others)
                .await
                .expect("nothing to read");
            assert_eq!(given.checksum, same);
        }
        let inside = settle(&mut image("http://127.0.0.1:1/SHA256SUMS"), Reach::Others).await;
        let inside = inside.expect_err("this machine is not asked");
        assert_eq!(inside.kind, ErrorKind::Invalid);
        assert!(inside.message.contains("is not asked"), "{inside}");
    }
}
