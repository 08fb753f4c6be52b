//! A client of a bucket in this process: no sockets, so a test's clock decides all.

use abide_history::{Access, CopyKey, Location, Store};
use abide_s3::Bucket;
use http_body_util::{BodyExt as _, Full};
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
        HttpResponseBody, HttpService,
    },
};

#[derive(Debug)]
struct Net(Bucket);

impl HttpConnector for Net {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Self(self.0.clone())))
    }
}

#[async_trait::async_trait]
impl HttpService for Net {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let answer = self.0.answer(http::Request::from_parts(parts, body)).await;
        let answer = answer.map_err(|cut| HttpError::new(HttpErrorKind::Interrupted, cut))?;
        Ok(answer
            .map(|body| HttpResponseBody::new(Full::new(body).map_err(|never| match never {}))))
    }
}

pub(crate) fn access() -> Access {
    Access::default()
        .option("access_key_id", "test")
        .option("secret_access_key", "test")
        .option("region", "us-east-1")
        .option("endpoint", "http://bucket.test")
        .option("allow_http", "true")
}

pub(crate) fn store(bucket: &Bucket) -> Store {
    let location: Location = "s3://backups/nodes/1".parse().unwrap();
    Store::open(&location, &access(), Net(bucket.clone())).unwrap()
}

/// The key of the tests.
pub(crate) const KEY: [u8; 32] = [7; 32];

pub(crate) fn encrypted(bucket: &Bucket) -> Store {
    store(bucket).with_key(CopyKey::new(&KEY))
}

/// A store whose objects are encrypted for every second seed.
pub(crate) fn some_store(bucket: &Bucket, seed: u64) -> Store {
    if seed % 2 == 1 {
        encrypted(bucket)
    } else {
        store(bucket)
    }
}
