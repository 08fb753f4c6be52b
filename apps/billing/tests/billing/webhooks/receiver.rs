//! Who is told: it checks what comes, takes most of it, and does not always say so.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use abide::outbox::handlers::{Secret, verify};
use abide::{
    Body, Error, ErrorKind, Fetching, Request, Response,
    clock::{Clock, TestClock},
};
use abide_harness::Random;
use billing::hooks::Notice;
use http_body_util::BodyExt;
use serde_json::Value;

/// Its name on the network.
pub(crate) const HOST: &str = "hooks.test";

/// Seconds by which what comes may be old: the clock jumps while a request is on its way.
const TOLERANCE: u64 = 30 * 24 * 60 * 60;

/// A receiver. It outlives nodes. Clones are the same.
#[derive(Clone)]
pub(crate) struct Receiver(Arc<Mutex<Inner>>);

struct Inner {
    clock: TestClock,
    random: Random,
    /// Of a hundred requests, this many go wrong.
    mischief: u32,
    secrets: BTreeMap<String, Secret>,
    /// Paths that take nothing.
    closed: BTreeSet<String>,
    /// What was taken for the first time, by path.
    taken: BTreeMap<String, Vec<Notice>>,
    /// What came under each id.
    bodies: BTreeMap<String, Vec<u8>>,
    copies: u32,
}

impl Receiver {
    pub(crate) fn new(clock: &TestClock, seed: u64, mischief: u32) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            clock: clock.clone(),
            random: Random::new(seed),
            mischief,
            secrets: BTreeMap::new(),
            closed: BTreeSet::new(),
            taken: BTreeMap::new(),
            bodies: BTreeMap::new(),
            copies: 0,
        })))
    }

    /// Knows from now on what is signed with for a path.
    pub(crate) fn knows(&self, path: &str, secret: &str) {
        let secret = secret.parse().unwrap();
        self.0.lock().unwrap().secrets.insert(path.into(), secret);
    }

    /// Takes nothing any more that comes to a path.
    pub(crate) fn closes(&self, path: &str) {
        self.0.lock().unwrap().closed.insert(path.into());
    }

    /// Takes again what comes to any path.
    pub(crate) fn opens(&self) {
        self.0.lock().unwrap().closed.clear();
    }

    /// From now on it does everything right.
    pub(crate) fn behaves(&self) {
        self.0.lock().unwrap().mischief = 0;
    }

    /// What came to a path, each once, in the order in which it was first taken.
    pub(crate) fn taken(&self, path: &str) -> Vec<Notice> {
        let inner = self.0.lock().unwrap();
        inner.taken.get(path).cloned().unwrap_or_default()
    }

    /// How often something came that had been taken.
    pub(crate) fn copies(&self) -> u32 {
        self.0.lock().unwrap().copies
    }

    pub(crate) fn fetch(&self, request: Request) -> Fetching {
        let receiver = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(Error::from_std)?.to_bytes();
            receiver.0.lock().unwrap().hear(&head, &body)
        })
    }
}

impl Inner {
    fn hear(&mut self, head: &abide::http::request::Parts, body: &[u8]) -> Result<Response, Error> {
        let path = head.uri.path();
        let now = i64::try_from(self.clock.unix_millis() / 1_000).unwrap();
        let secret = self.secrets.get(path).cloned();
        let secrets: Vec<Secret> = secret.into_iter().collect();
        let id = verify(&secrets, &head.headers, body, now, TOLERANCE)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        let before = self
            .bodies
            .entry(id.to_owned())
            .or_insert_with(|| body.to_vec());
        assert_eq!(before, body, "{id} says something else each time");
        let unlucky = self.random.below(100) < self.mischief;
        let answer = |status: u16| {
            Ok(Response::builder()
                .status(status)
                .body(Body::empty())
                .unwrap())
        };
        let lost = || Err(Error::with_kind(ErrorKind::Io, "the connection broke"));
        let fate = match unlucky {
            _ if self.closed.contains(path) => 0,
            true => self.random.below(5),
            false => 5,
        };
        match fate {
            0 => return answer(503),
            1 => return answer(404),
            2 => return lost(),
            _ => {}
        }
        let said: Value = serde_json::from_slice(body).unwrap();
        let notice: Notice = serde_json::from_value(said["data"].clone()).unwrap();
        assert_eq!(said["type"], notice.event);
        let taken = self.taken.entry(path.to_owned()).or_default();
        if taken.iter().any(|known| known.id == notice.id) {
            self.copies += 1;
        } else {
            taken.push(notice);
        }
        match fate {
            // It was taken, and the sender is not told.
            3 => lost(),
            4 => answer(500),
            _ => answer(204),
        }
    }
}
