//! Pools and their volumes.

use super::{Answer, absent, nullable, p};
use crate::rpc::connection::Connection;
use crate::rpc::error::code;
use crate::rpc::stream::Stream;
use crate::rpc::types::{Named, Volume};

/// A storage pool's room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolInfo {
    pub(crate) running: bool,
    pub(crate) capacity: u64,
    pub(crate) available: u64,
}

impl Connection {
    pub(crate) async fn pool(&self, name: &str) -> Answer<Named> {
        self.call(p::STORAGE_POOL_LOOKUP_BY_NAME, &name).await
    }

    pub(crate) async fn pool_info(&self, pool: &Named) -> Answer<PoolInfo> {
        let (state, capacity, _, available): (i32, u64, u64, u64) =
            self.call(p::STORAGE_POOL_GET_INFO, pool).await?;
        Ok(PoolInfo {
            running: state == 2,
            capacity,
            available,
        })
    }

    pub(crate) async fn pool_xml(&self, pool: &Named) -> Answer<String> {
        let arguments = (pool, 0_u32);
        nullable(self.call(p::STORAGE_POOL_GET_XML_DESC, &arguments).await)
    }

    pub(crate) async fn refresh(&self, pool: &Named) -> Answer<()> {
        self.call(p::STORAGE_POOL_REFRESH, &(pool, 0_u32)).await
    }

    pub(crate) async fn volumes(&self, pool: &Named) -> Answer<Vec<Volume>> {
        let arguments = (pool, 1_i32, 0_u32);
        let (list, _): (Vec<Volume>, u32) = self
            .call(p::STORAGE_POOL_LIST_ALL_VOLUMES, &arguments)
            .await?;
        Ok(list)
    }

    pub(crate) async fn volume(&self, pool: &Named, name: &str) -> Answer<Option<Volume>> {
        let arguments = (pool, name);
        absent(self.call(p::STORAGE_VOL_LOOKUP_BY_NAME, &arguments).await)
    }

    pub(crate) async fn volume_at(&self, path: &str) -> Answer<Option<Volume>> {
        absent(self.call(p::STORAGE_VOL_LOOKUP_BY_PATH, &path).await)
    }

    pub(crate) async fn volume_xml(&self, volume: &Volume) -> Answer<String> {
        let arguments = (volume, 0_u32);
        nullable(self.call(p::STORAGE_VOL_GET_XML_DESC, &arguments).await)
    }

    pub(crate) async fn create_volume(
        &self,
        pool: &Named,
        xml: &str,
        flags: u32,
    ) -> Answer<Volume> {
        self.call(p::STORAGE_VOL_CREATE_XML, &(pool, xml, flags))
            .await
    }

    pub(crate) async fn copy_volume(
        &self,
        pool: &Named,
        xml: &str,
        from: &Volume,
    ) -> Answer<Volume> {
        let arguments = (pool, xml, from, 0_u32);
        self.call(p::STORAGE_VOL_CREATE_XML_FROM, &arguments).await
    }

    /// One that is gone already is a success.
    pub(crate) async fn delete_volume(&self, volume: &Volume) -> Answer<()> {
        let deleted = self.call(p::STORAGE_VOL_DELETE, &(volume, 0_u32)).await;
        match deleted {
            Err(error) if error.is(code::NO_STORAGE_VOL) => Ok(()),
            other => other,
        }
    }

    pub(crate) async fn resize_volume(&self, volume: &Volume, bytes: u64) -> Answer<()> {
        self.call(p::STORAGE_VOL_RESIZE, &(volume, bytes, 0_u32))
            .await
    }

    /// Opens a volume for bytes from its beginning on.
    pub(crate) async fn upload(&self, volume: &Volume, bytes: u64) -> Answer<Stream> {
        let arguments = (volume, 0_u64, bytes, 0_u32);
        Stream::open(self, p::STORAGE_VOL_UPLOAD, &arguments).await
    }

    /// Opens a volume to be read from its beginning to its end. Only for what is small: a reader that is slow loses it.
    pub(crate) async fn download(&self, volume: &Volume) -> Answer<Stream> {
        let arguments = (volume, 0_u64, 0_u64, 0_u32);
        Stream::open(self, p::STORAGE_VOL_DOWNLOAD, &arguments).await
    }
}
