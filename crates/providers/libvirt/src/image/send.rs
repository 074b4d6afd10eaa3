//! A file that was fetched, on its way into a pool.

use std::path::Path;

use polyvirt_contract::{ProviderError, Result};
use polyvirt_disks::format;
use polyvirt_provider_kit::tasks::Progress;
use tokio::io::AsyncReadExt as _;

use super::{FETCHED, Source, part_of, volume_of};
use crate::errors;
use crate::rpc::{Session, Volume};
use crate::storage::Pool;

const PIECE: usize = 1 << 20;

/// Sends a file to the pool. What is no qcow2 is made one there.
pub(super) async fn send(
    session: &Session,
    pool: &Pool,
    source: &Source,
    file: &Path,
    progress: &Progress,
) -> Result<()> {
    let image = format::probe_file(file).and_then(|image| image.expect(&source.format));
    let image = image.map_err(|error| ProviderError::invalid("spec.source", error.to_string()))?;
    let target = volume_of(&source.id);
    if image.format == format::Format::Qcow2 {
        let volume = pool
            .place(session, &target, image.virtual_bytes, "qcow2")
            .await?;
        return upload(session, &volume, file, progress).await;
    }
    let part = part_of(&source.id);
    let volume = pool
        .place(session, &part, image.virtual_bytes, image.format.name())
        .await?;
    upload(session, &volume, file, progress).await?;
    pool.copy(session, &target, &volume).await?;
    pool.remove(session, &part).await
}

async fn upload(
    session: &Session,
    volume: &Volume,
    file: &Path,
    progress: &Progress,
) -> Result<()> {
    let unreadable =
        |error: std::io::Error| errors::internal(format!("The download cannot be read: {error}"));
    let mut from = tokio::fs::File::open(file).await.map_err(unreadable)?;
    let length = from.metadata().await.map_err(unreadable)?.len();
    let mut stream = session.upload(volume, length).await?;
    let mut piece = vec![0; PIECE];
    let mut sent = 0_u64;
    loop {
        let count = from.read(&mut piece).await.map_err(unreadable)?;
        if count == 0 {
            return Ok(stream.finish().await?);
        }
        if let Some(error) = stream.failed() {
            return Err(error.into());
        }
        stream.send(&piece[..count]).await?;
        sent += u64::try_from(count).unwrap_or(0);
        let share = u128::from(sent) * u128::from(100 - FETCHED) / u128::from(length.max(1));
        progress.at(FETCHED + u8::try_from(share).unwrap_or(0));
    }
}
