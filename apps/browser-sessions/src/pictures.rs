//! Where pictures are kept: a directory, or a bucket of any S3-compatible service.
//!
//! Contract: [`Pictures::put`] returns when a picture is durable, on disk or with the service.

use std::{fs::DirBuilder, os::unix::fs::DirBuilderExt, path::PathBuf, sync::Arc};

use abide::{history::Connector, server::tls_client_config};
use anyhow::Context;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use object_store::{
    Attribute, ObjectStore, ObjectStoreExt, PutOptions, PutPayload, aws::AmazonS3Builder,
    local::LocalFileSystem, path::Path, prefix::PrefixStore,
};
use tokio::{runtime::Handle, time::timeout};

use crate::{limits, request::Format};

/// A bucket of an S3-compatible service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// The service; Amazon's if absent.
    pub endpoint: Option<String>,
    /// The region; `AWS_REGION`, or `us-east-1`, if absent.
    pub region: Option<String>,
    /// What every key begins with.
    pub prefix: Option<String>,
}

/// The store. Clones share it.
#[derive(Clone, Debug)]
pub struct Pictures {
    store: Arc<dyn ObjectStore>,
    is_directory: bool,
    runtime: Handle,
}

/// A stored picture.
pub struct Picture {
    /// Its bytes.
    pub bytes: BoxStream<'static, object_store::Result<Bytes>>,
    /// How many.
    pub size: u64,
    /// Changes with its content.
    pub etag: Option<String>,
}

impl Pictures {
    /// Keeps pictures in a directory, which is created. Call it inside the program's async runtime.
    pub fn in_directory(directory: &PathBuf) -> anyhow::Result<Self> {
        // It may be in the data directory, which is the program's alone, and may be the first that is made of it.
        let created = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory);
        created.with_context(|| {
            format!("creating the directory of pictures {}", directory.display())
        })?;
        let store = LocalFileSystem::new_with_prefix(directory)?.with_fsync(true);
        let mut pictures = Self::new(Arc::new(store));
        pictures.is_directory = true;
        Ok(pictures)
    }

    /// Keeps pictures in a bucket. Credentials come from `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and the other variables
    /// that are common.
    pub fn in_bucket(bucket: &Bucket) -> anyhow::Result<Self> {
        let connector = Connector::new(tls_client_config(&[])?)
            .connect_timeout(limits::STORE_CONNECT)
            .answer_timeout(limits::STORE_ANSWER);
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(&bucket.name)
            .with_http_connector(connector);
        if let Some(endpoint) = &bucket.endpoint {
            builder = builder
                .with_endpoint(endpoint)
                .with_allow_http(endpoint.starts_with("http://"));
        }
        if let Some(region) = &bucket.region {
            builder = builder.with_region(region);
        }
        let store = builder
            .build()
            .with_context(|| format!("the bucket {}", bucket.name))?;
        let prefix = bucket.prefix.as_deref().unwrap_or_default();
        if prefix.is_empty() {
            return Ok(Self::new(Arc::new(store)));
        }
        let prefix = Path::parse(prefix).context("--s3-prefix")?;
        Ok(Self::new(Arc::new(PrefixStore::new(store, prefix))))
    }

    fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self {
            store,
            is_directory: false,
            runtime: Handle::current(),
        }
    }

    /// Stores pictures under their keys.
    pub async fn put(&self, pictures: Vec<(String, Bytes)>) -> Result<(), String> {
        // A directory cannot keep the type.
        let keeps_type = !self.is_directory;
        let store = Arc::clone(&self.store);
        self.run(async move {
            for (key, bytes) in pictures {
                let mut options = PutOptions::default();
                if let Some(format) = Format::of_file(&key).filter(|_| keeps_type) {
                    let value = format.content_type().into();
                    options.attributes.insert(Attribute::ContentType, value);
                }
                let path = Path::parse(key)?;
                let payload = PutPayload::from(bytes);
                store.put_opts(&path, payload, options).await?;
            }
            Ok(())
        })
        .await
    }

    /// Removes pictures. A missing picture is not an error.
    pub async fn delete(&self, keys: Vec<String>) -> Result<(), String> {
        let store = Arc::clone(&self.store);
        self.run(async move {
            for key in keys {
                match store.delete(&Path::parse(key)?).await {
                    Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
        .await
    }

    /// A picture, if it is there.
    pub async fn get(&self, key: &str) -> Result<Option<Picture>, String> {
        let path = Path::parse(key).map_err(|error| error.to_string())?;
        match timeout(limits::STORE_TIME, self.store.get(&path)).await {
            Ok(Ok(found)) => Ok(Some(Picture {
                size: found.meta.size,
                etag: found.meta.e_tag.clone(),
                bytes: found.into_stream(),
            })),
            Ok(Err(object_store::Error::NotFound { .. })) => Ok(None),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(late()),
        }
    }

    /// Runs on the program's async runtime: an object's thread has none.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T, String> {
        let work = self
            .runtime
            .spawn(async move { timeout(limits::STORE_TIME, work).await });
        match work.await {
            Ok(Ok(Ok(done))) => Ok(done),
            Ok(Ok(Err(error))) => Err(error.to_string()),
            Ok(Err(_)) => Err(late()),
            Err(_) => Err("the program is ending".to_owned()),
        }
    }
}

fn late() -> String {
    format!(
        "the store did not answer within {} s",
        limits::STORE_TIME.as_secs()
    )
}
