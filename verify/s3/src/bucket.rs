//! The objects, and the requests about them.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use percent_encoding::percent_decode_str;
use tokio::time::{Instant, sleep};

use crate::{Cut, Faults, listing, random::Random};

/// Objects by key.
pub type Objects = BTreeMap<String, Bytes>;

type Inspector = Box<dyn FnMut(&Objects) + Send>;

/// A bucket. Clones share it.
#[derive(Clone)]
pub struct Bucket(Arc<Mutex<State>>);

/// Requests by kind, failures included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Puts.
    pub puts: u64,
    /// Gets and heads.
    pub gets: u64,
    /// Pages of listings.
    pub lists: u64,
    /// Deletes.
    pub deletes: u64,
    /// Bytes of bodies that were sent.
    pub sent: u64,
}

struct State {
    objects: Objects,
    times: HashMap<String, SystemTime>,
    counts: Counts,
    faults: Faults,
    random: Random,
    /// Requests that will be carried out later.
    late: Vec<Request<Bytes>>,
    overwritten: Vec<String>,
    inspector: Option<Inspector>,
    page: usize,
    /// The bucket's clock goes with that of the async runtime, which a test moves.
    began: (Instant, SystemTime),
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").finish_non_exhaustive()
    }
}

impl Bucket {
    /// An empty bucket, whose faults follow from a seed. Make it in an async runtime.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            objects: Objects::new(),
            times: HashMap::new(),
            counts: Counts::default(),
            faults: Faults::default(),
            random: Random(seed),
            late: Vec::new(),
            overwritten: Vec::new(),
            inspector: None,
            page: 1000,
            began: (Instant::now(), SystemTime::now()),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// The longest page of a listing from now on.
    pub fn set_page(&self, entries: usize) {
        self.lock().page = entries.max(1);
    }

    /// Who is shown the objects after every change, while no request can change them.
    pub fn inspect(&self, inspector: impl FnMut(&Objects) + Send + 'static) {
        self.lock().inspector = Some(Box::new(inspector));
    }

    /// What it has been asked.
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// What it has.
    pub fn objects(&self) -> Objects {
        self.lock().objects.clone()
    }

    /// Keys whose bytes were replaced by others.
    pub fn overwritten(&self) -> Vec<String> {
        self.lock().overwritten.clone()
    }

    /// Changes an object as a failing disk does.
    pub fn damage(&self, key: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.lock();
        let mut bytes = state
            .objects
            .get(key)
            .map(|b| b.to_vec())
            .unwrap_or_default();
        change(&mut bytes);
        state.objects.insert(key.to_owned(), bytes.into());
    }

    /// Loses an object.
    pub fn lose(&self, key: &str) {
        self.lock().objects.remove(key);
    }

    /// Carries out all requests that are late.
    pub fn settle(&self) {
        let mut state = self.lock();
        for request in std::mem::take(&mut state.late) {
            state.carry_out(&request);
        }
    }

    /// Answers a request whose path is `/BUCKET/KEY`.
    ///
    /// # Errors
    /// If its connection is cut.
    pub async fn answer(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Cut> {
        let delay = {
            let mut state = self.lock();
            state.count(&request);
            let slow = state.faults.slow;
            let is_slow = state.random.percent(slow);
            is_slow.then_some(state.faults.delay)
        };
        if let Some(delay) = delay {
            sleep(delay).await;
        }
        self.lock().decide(request)
    }
}

impl State {
    fn count(&mut self, request: &Request<Bytes>) {
        let counts = &mut self.counts;
        counts.sent += request.body().len() as u64;
        let count = match *request.method() {
            Method::PUT => &mut counts.puts,
            Method::DELETE => &mut counts.deletes,
            _ if key(request).is_empty() => &mut counts.lists,
            _ => &mut counts.gets,
        };
        *count += 1;
    }

    fn decide(&mut self, request: Request<Bytes>) -> Result<Response<Bytes>, Cut> {
        let faults = self.faults;
        // Some that are late are no longer.
        let mut index = 0;
        while index < self.late.len() {
            if self.random.percent(30) {
                let late = self.late.remove(index);
                self.carry_out(&late);
            } else {
                index += 1;
            }
        }
        let is_put = *request.method() == Method::PUT;
        let is_delete = *request.method() == Method::DELETE;
        let changes = is_put || is_delete;
        if faults.unreachable || self.random.percent(faults.cut_before) {
            return Err(Cut);
        }
        if faults.expired {
            return Ok(fault(StatusCode::FORBIDDEN, "ExpiredToken"));
        }
        if self.random.percent(faults.slow_down) {
            return Ok(fault(StatusCode::SERVICE_UNAVAILABLE, "SlowDown"));
        }
        if is_delete && faults.undeletable {
            return Ok(fault(StatusCode::FORBIDDEN, "AccessDenied"));
        }
        if is_put && faults.full {
            return Ok(fault(StatusCode::INSUFFICIENT_STORAGE, "StorageFull"));
        }
        if is_put && self.random.percent(faults.conflict) {
            return Ok(fault(StatusCode::CONFLICT, "ConditionalRequestConflict"));
        }
        if changes && self.random.percent(faults.late) {
            self.late.push(request);
            return Err(Cut);
        }
        let response = self.carry_out(&request);
        if self.random.percent(faults.cut_after) {
            return Err(Cut);
        }
        Ok(response)
    }

    fn carry_out(&mut self, request: &Request<Bytes>) -> Response<Bytes> {
        let key = key(request);
        match *request.method() {
            Method::PUT => self.put(key, request),
            Method::DELETE => {
                self.objects.remove(&key);
                self.changed();
                response(StatusCode::NO_CONTENT, Bytes::new())
            }
            Method::GET if key.is_empty() => self.list(request),
            Method::GET | Method::HEAD => self.get(&key, request),
            _ => fault(StatusCode::NOT_IMPLEMENTED, "NotImplemented"),
        }
    }

    fn put(&mut self, key: String, request: &Request<Bytes>) -> Response<Bytes> {
        let is_create = request.headers().contains_key(header::IF_NONE_MATCH);
        if let Some(there) = self.objects.get(&key) {
            if is_create && !self.faults.without_conditions {
                return fault(StatusCode::PRECONDITION_FAILED, "PreconditionFailed");
            }
            if there != request.body() {
                self.overwritten.push(key.clone());
            }
        }
        let (began, wall) = self.began;
        self.times.insert(key.clone(), wall + began.elapsed());
        self.objects.insert(key, request.body().clone());
        self.changed();
        let mut response = response(StatusCode::OK, Bytes::new());
        let tag = header::HeaderValue::from_static("\"1\"");
        response.headers_mut().insert(header::ETAG, tag);
        response
    }

    fn changed(&mut self) {
        if let Some(inspector) = &mut self.inspector {
            inspector(&self.objects);
        }
    }

    fn get(&self, key: &str, request: &Request<Bytes>) -> Response<Bytes> {
        let Some(bytes) = self.objects.get(key) else {
            return fault(StatusCode::NOT_FOUND, "NoSuchKey");
        };
        let range = request.headers().get(header::RANGE);
        let range = range.and_then(|range| range.to_str().ok()?.strip_prefix("bytes="));
        let range = range.and_then(|range| range.split_once('-'));
        let mut response = match range {
            None => response(StatusCode::OK, bytes.clone()),
            Some((from, to)) => {
                let length = bytes.len();
                let from = from.parse().unwrap_or(0);
                let to = to.parse().unwrap_or(length).saturating_add(1).min(length);
                if from >= to {
                    return fault(StatusCode::RANGE_NOT_SATISFIABLE, "InvalidRange");
                }
                let mut part = response(StatusCode::PARTIAL_CONTENT, bytes.slice(from..to));
                let range = format!("bytes {from}-{}/{length}", to - 1);
                if let Ok(range) = range.parse() {
                    part.headers_mut().insert(header::CONTENT_RANGE, range);
                }
                part
            }
        };
        let tag = header::HeaderValue::from_static("\"1\"");
        response.headers_mut().insert(header::ETAG, tag);
        let date = header::HeaderValue::from_static("Tue, 01 Jul 2025 00:00:00 GMT");
        response.headers_mut().insert(header::LAST_MODIFIED, date);
        response
    }

    fn list(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let query = request.uri().query().unwrap_or_default();
        let value = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let (_, value) = pairs.find(|(key, _)| *key == name)?;
            Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
        };
        let prefix = value("prefix").unwrap_or_default();
        let after = value("continuation-token").or_else(|| value("start-after"));
        let after = after.unwrap_or_default();
        let matching = self
            .objects
            .iter()
            .filter(|(key, _)| key.starts_with(&prefix) && (after.is_empty() || **key > after));
        let mut entries: Vec<listing::Entry<'_>> = matching
            .take(self.page + 1)
            .map(|(key, bytes)| (&**key, bytes.len() as u64, self.times[key]))
            .collect();
        let is_cut = entries.len() > self.page;
        entries.truncate(self.page);
        let next = entries.last().filter(|_| is_cut).map(|(key, ..)| *key);
        response(StatusCode::OK, listing::page(&entries, next).into())
    }
}

/// What follows the bucket in the path.
fn key(request: &Request<Bytes>) -> String {
    let path = request.uri().path().trim_start_matches('/');
    let key = path.split_once('/').map_or("", |(_, key)| key);
    percent_decode_str(key).decode_utf8_lossy().into_owned()
}

fn response(status: StatusCode, body: Bytes) -> Response<Bytes> {
    let length = header::HeaderValue::from(body.len());
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_LENGTH, length);
    response
}

fn fault(status: StatusCode, code: &str) -> Response<Bytes> {
    let text = format!("<Error><Code>{code}</Code></Error>");
    response(status, text.into())
}
