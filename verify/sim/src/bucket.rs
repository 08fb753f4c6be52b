//! The object store: a bucket that outlives every machine, and the way to it, which fails as the plan says.
//!
//! It is strongly consistent, as the stores are that a node may use: what was confirmed is read and listed at once. A request that
//! was cut off may still arrive, also after its sender has ended.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, UNIX_EPOCH},
};

use abide::clock::{Clock as _, TestClock};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream, stream::BoxStream};
use object_store::{
    Attributes, CopyOptions, Error, Extensions, GetOptions, GetResult, GetResultPayload,
    ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result, path::Path,
};

use crate::random::Random;

/// The state of the store and of the way to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Weather {
    /// Every request is answered at once.
    #[default]
    Fine,
    /// Every request is answered after a while.
    Slow,
    /// Some requests are cut off before they arrive, some after they were carried out, and some arrive late.
    Rough,
    /// Requests do not arrive.
    Unreachable,
    /// The store answers 503.
    Busy,
    /// The bucket has no room: nothing can be created.
    Full,
    /// The credentials have expired.
    Denied,
}

/// How long a client waits for a connection, or an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The most that an answer takes while the store is slow, in milliseconds.
const SLOWEST: u32 = 1_500;

/// The most that a request which was cut off is late, in milliseconds.
const LATEST: u32 = 8_000;

/// A way to the bucket. Clones share the same bucket.
#[derive(Clone)]
pub(crate) struct Bucket {
    shared: Arc<Shared>,
    /// Nothing fails on this way.
    is_calm: bool,
}

struct Shared {
    clock: TestClock,
    inner: Mutex<Inner>,
}

struct Inner {
    weather: Weather,
    random: Random,
    objects: BTreeMap<Path, Object>,
    /// What is still under way, and when it arrives.
    late: Vec<(Duration, Change)>,
}

#[derive(Clone)]
struct Object {
    bytes: Bytes,
    /// In milliseconds since 1970.
    modified: u64,
}

enum Change {
    Create(Path, Bytes),
    Delete(Path),
}

/// The fate of a request.
enum Fate {
    /// It is carried out after the first wait, and answered after the second.
    Answered(Duration, Duration),
    /// It is carried out, and not answered.
    Unanswered,
    /// It is carried out after this time, when no one waits for it.
    Late(Duration),
    /// It does not arrive.
    Lost,
    /// It is refused.
    Refused(&'static str),
    Denied,
}

impl Bucket {
    pub(crate) fn new(seed: u64, clock: &TestClock) -> Self {
        let inner = Inner {
            weather: Weather::Fine,
            random: Random::new(seed),
            objects: BTreeMap::new(),
            late: Vec::new(),
        };
        Self {
            shared: Arc::new(Shared {
                clock: clock.clone(),
                inner: Mutex::new(inner),
            }),
            is_calm: false,
        }
    }

    /// A way on which nothing fails, for a look from outside.
    pub(crate) fn in_fine_weather(&self) -> Self {
        let is_calm = true;
        Self {
            is_calm,
            ..self.clone()
        }
    }

    /// Returns the weather before.
    pub(crate) fn set_weather(&self, weather: Weather) -> Weather {
        std::mem::replace(&mut self.inner().weather, weather)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        let inner = self.shared.inner.lock();
        let mut inner = inner.unwrap_or_else(PoisonError::into_inner);
        let now = self.shared.clock.now();
        let arrived = |(due, _): &mut (Duration, Change)| *due <= now;
        let arrived: Vec<_> = inner.late.extract_if(.., arrived).collect();
        for (_, change) in arrived {
            // No one learns of the result.
            drop(inner.change(change, self.shared.clock.unix_millis()));
        }
        inner
    }

    fn fate(&self, creates: bool) -> Fate {
        if self.is_calm {
            return Fate::Answered(Duration::ZERO, Duration::ZERO);
        }
        self.inner().fate(creates)
    }

    async fn sleep(&self, time: Duration) {
        // A kill may come between any two steps of a request.
        tokio::task::yield_now().await;
        let clock = &self.shared.clock;
        clock.sleep_until(clock.now() + time).await;
    }

    /// Sends a request that changes something.
    async fn send(&self, change: Change) -> Result<()> {
        let creates = matches!(change, Change::Create(..));
        let fate = self.fate(creates);
        if let Fate::Late(after) = fate {
            let due = self.shared.clock.now() + after;
            self.inner().late.push((due, change));
            self.sleep(PATIENCE).await;
            return Err(failed("the connection was cut"));
        }
        let clock = &self.shared.clock;
        self.carried(fate, |inner| inner.change(change, clock.unix_millis()))
            .await
    }

    /// Sends a request that changes nothing.
    async fn ask<T>(&self, answer: impl FnOnce(&mut Inner) -> Result<T>) -> Result<T> {
        let fate = self.fate(false);
        self.carried(fate, answer).await
    }

    async fn carried<T>(
        &self,
        fate: Fate,
        answer: impl FnOnce(&mut Inner) -> Result<T>,
    ) -> Result<T> {
        match fate {
            Fate::Answered(before, after) => {
                self.sleep(before).await;
                let answered = answer(&mut self.inner());
                self.sleep(after).await;
                answered
            }
            Fate::Unanswered => {
                self.sleep(Duration::ZERO).await;
                drop(answer(&mut self.inner()));
                self.sleep(PATIENCE).await;
                Err(failed("the connection was cut"))
            }
            Fate::Lost | Fate::Late(_) => {
                self.sleep(PATIENCE).await;
                Err(failed("the store does not answer"))
            }
            Fate::Refused(why) => {
                self.sleep(Duration::ZERO).await;
                Err(failed(why))
            }
            Fate::Denied => {
                self.sleep(Duration::ZERO).await;
                Err(Error::PermissionDenied {
                    path: String::new(),
                    source: "the credentials have expired".into(),
                })
            }
        }
    }
}

impl Inner {
    fn fate(&mut self, creates: bool) -> Fate {
        let random = &mut self.random;
        let mut some_millis = |most| Duration::from_millis(u64::from(random.below(most)));
        match self.weather {
            Weather::Full if creates => Fate::Refused("status code: 507, no room"),
            Weather::Fine | Weather::Full => Fate::Answered(Duration::ZERO, Duration::ZERO),
            Weather::Slow => Fate::Answered(some_millis(SLOWEST), some_millis(SLOWEST)),
            Weather::Unreachable => Fate::Lost,
            Weather::Busy => Fate::Refused("status code: 503, slow down"),
            Weather::Denied => Fate::Denied,
            Weather::Rough => match random.below(10) {
                0 => Fate::Lost,
                1 | 2 => Fate::Unanswered,
                3 => Fate::Late(Duration::from_millis(u64::from(random.below(LATEST)))),
                4 => Fate::Refused("status code: 503, slow down"),
                _ => Fate::Answered(Duration::ZERO, Duration::ZERO),
            },
        }
    }

    fn change(&mut self, change: Change, modified: u64) -> Result<()> {
        match change {
            Change::Create(path, _) if self.objects.contains_key(&path) => {
                let path = path.to_string();
                let source = "it exists".into();
                Err(Error::AlreadyExists { path, source })
            }
            Change::Create(path, bytes) => {
                self.objects.insert(path, Object { bytes, modified });
                Ok(())
            }
            Change::Delete(path) => {
                self.objects.remove(&path);
                Ok(())
            }
        }
    }

    fn read(&self, path: &Path, options: &GetOptions) -> Result<GetResult> {
        let object = self.objects.get(path).ok_or_else(|| Error::NotFound {
            path: path.to_string(),
            source: "there is no such object".into(),
        })?;
        let length = object.bytes.len() as u64;
        let range = match &options.range {
            Some(range) => range.as_range(length).map_err(failed)?,
            None => 0..length,
        };
        let bytes = object.bytes.slice(range.start as usize..range.end as usize);
        let payload = stream::once(async { Ok(bytes) }).boxed();
        Ok(GetResult {
            payload: GetResultPayload::Stream(payload),
            meta: object.meta(path),
            range,
            attributes: Attributes::default(),
            extensions: Extensions::default(),
        })
    }

    fn list(&self, prefix: Option<&Path>) -> Vec<Result<ObjectMeta>> {
        let is_in = |path: &Path| prefix.is_none_or(|prefix| path.prefix_matches(prefix));
        let listed = self.objects.iter().filter(|(path, _)| is_in(path));
        listed.map(|(path, object)| Ok(object.meta(path))).collect()
    }
}

impl Object {
    fn meta(&self, path: &Path) -> ObjectMeta {
        ObjectMeta {
            location: path.clone(),
            last_modified: (UNIX_EPOCH + Duration::from_millis(self.modified)).into(),
            size: self.bytes.len() as u64,
            e_tag: None,
            version: None,
        }
    }
}

fn failed(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let source = source.into();
    Error::Generic {
        store: "simulated store",
        source,
    }
}

#[async_trait]
impl ObjectStore for Bucket {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        if options.mode != PutMode::Create {
            return Err(failed("only creations are simulated"));
        }
        let change = Change::Create(path.clone(), payload.into());
        self.send(change).await?;
        Ok(PutResult {
            e_tag: None,
            version: None,
            extensions: Extensions::default(),
        })
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(failed("only whole objects are simulated"))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.ask(|inner| inner.read(path, &options)).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let bucket = self.clone();
        let delete = move |path: Result<Path>| {
            let bucket = bucket.clone();
            async move {
                let path = path?;
                bucket.send(Change::Delete(path.clone())).await?;
                Ok(path)
            }
        };
        paths.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (bucket, prefix) = (self.clone(), prefix.cloned());
        let listed = async move {
            let listed = bucket.ask(|inner| Ok(inner.list(prefix.as_ref()))).await;
            stream::iter(listed.unwrap_or_else(|error| vec![Err(error)]))
        };
        listed.flatten_stream().boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(failed("only whole listings are simulated"))
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(failed("copies are not simulated"))
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a simulated bucket")
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a simulated bucket")
    }
}
