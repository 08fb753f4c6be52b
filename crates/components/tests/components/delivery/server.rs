//! A scripted server. It outlives nodes.

use std::{
    collections::{HashMap, VecDeque},
    future::pending,
    sync::{Arc, Mutex},
};

use abide::{
    ErrorKind, Fetching, Outbound,
    clock::{Clock as _, TestClock},
    prelude::*,
};

/// What a request gets.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A status, with a `Retry-After`.
    Status(u16, Option<String>),
    /// This node is overloaded: nothing was sent.
    NotSent,
    Hang,
    /// Hangs if another request is on its way.
    HangUnlessAlone,
}

#[derive(Clone)]
pub(crate) struct Server {
    told: Arc<Mutex<Told>>,
    clock: TestClock,
    life: usize,
}

#[derive(Default)]
struct Told {
    replies: HashMap<String, VecDeque<Reply>>,
    /// Names of requests, and when they were sent, in milliseconds.
    seen: Vec<(String, u64)>,
    taken: Vec<String>,
    running: usize,
    life: usize,
}

impl Server {
    pub(crate) fn new(clock: &TestClock) -> Self {
        Self {
            told: Arc::default(),
            clock: clock.clone(),
            life: 0,
        }
    }

    /// What the next requests of a name get; then they succeed.
    pub(crate) fn say(&self, name: &str, replies: impl IntoIterator<Item = Reply>) {
        let mut told = self.told.lock().unwrap();
        told.replies
            .entry(name.to_owned())
            .or_default()
            .extend(replies);
    }

    /// When requests of a name were sent, in milliseconds.
    pub(crate) fn times(&self, name: &str) -> Vec<u64> {
        let told = self.told.lock().unwrap();
        let of = told.seen.iter().filter(|(other, _)| other == name);
        of.map(|(_, at)| *at).collect()
    }

    /// The times between requests of a name.
    pub(crate) fn gaps(&self, name: &str) -> Vec<u64> {
        let times = self.times(name);
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    /// How many requests of a name have succeeded.
    pub(crate) fn taken(&self, name: &str) -> usize {
        let told = self.told.lock().unwrap();
        told.taken.iter().filter(|taken| *taken == name).count()
    }

    /// True while a request is on its way.
    pub(crate) fn is_busy(&self) -> bool {
        self.told.lock().unwrap().running > 0
    }

    /// The server of the next life of the node. Requests of this one get nothing any more.
    pub(crate) fn next_life(&self) -> Self {
        let mut told = self.told.lock().unwrap();
        told.life += 1;
        told.running = 0;
        Self {
            life: told.life,
            ..self.clone()
        }
    }
}

/// Counts a request that is on its way, until this is dropped.
struct Running(Server);

impl Drop for Running {
    fn drop(&mut self) {
        let mut told = self.0.told.lock().unwrap();
        if told.life == self.0.life {
            told.running -= 1;
        }
    }
}

/// The name of a request: the end of its path, or its first message.
async fn name_of(request: Request) -> String {
    let path = request.uri().path().trim_matches('/').to_owned();
    if path != "queue" {
        return path;
    }
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await;
    let body: serde_json::Value = serde_json::from_slice(&body.unwrap()).unwrap();
    body["messages"][0]["body"].as_str().unwrap().to_owned()
}

impl Outbound for Server {
    fn fetch(&self, request: Request) -> Fetching {
        let server = self.clone();
        Box::pin(async move {
            let name = name_of(request).await;
            let reply = {
                let mut told = server.told.lock().unwrap();
                if told.life == server.life {
                    let now = u64::try_from(server.clock.now().as_millis()).unwrap();
                    told.seen.push((name.clone(), now));
                    told.running += 1;
                    let replies = told.replies.get_mut(&name);
                    replies.and_then(VecDeque::pop_front)
                } else {
                    Some(Reply::Hang)
                }
            };
            let _running =
                (server.told.lock().unwrap().life == server.life).then(|| Running(server.clone()));
            // Requests of one pass are on their way together.
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            let mut response = Response::new(Body::empty());
            match reply {
                None => {}
                Some(Reply::HangUnlessAlone) => {
                    let alone = server.told.lock().unwrap().running == 1;
                    if !alone {
                        return pending().await;
                    }
                }
                Some(Reply::Hang) => return pending().await,
                Some(Reply::NotSent) => {
                    return Err(Error::with_kind(ErrorKind::Overloaded, "too many requests"));
                }
                Some(Reply::Status(status, after)) => {
                    *response.status_mut() = status.try_into().unwrap();
                    if let Some(after) = after {
                        response
                            .headers_mut()
                            .insert("retry-after", after.parse().unwrap());
                    }
                    return Ok(response);
                }
            }
            server.told.lock().unwrap().taken.push(name);
            Ok(response)
        })
    }
}
