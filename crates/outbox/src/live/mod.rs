//! Live updates: every change of a message, streamed to watchers.
//!
//! Contract: the changes of a poll are sent soon after it, and only when they are on disk. A watcher that connects, for
//! the first time or again, first receives the current state, so it misses nothing in between. A watcher that does not
//! keep up is disconnected and comes back. WebSockets stay open while the object hibernates.
//!
//! # Formats
//!
//! | `format` | First | Then |
//! |---|---|---|
//! | `json` (the default) | `{"type":"snapshot","counts":{…},"messages":[…]}`, the newest messages | `{"type":"changes","counts":{…},"messages":[…]}`, at most 100 in one |
//! | `turbo` | a [Turbo Stream](https://turbo.hotwired.dev/handbook/streams) that lets the page refresh | the changed rows and the head, as [`Render`] makes them; `refresh` if there are too many |
//!
//! With `message=ID` the stream is about one message; a Turbo page then refreshes with each change.
//!
//! # In a class
//!
//! ```
//! use std::sync::Arc;
//!
//! use abide::prelude::*;
//! use abide::outbox::{Options, Outbox, Registry, live::{Live, Table}};
//!
//! #[durable_object]
//! pub struct Shop {
//!     outbox: Outbox,
//!     live: Live,
//! }
//!
//! impl DurableObject for Shop {
//!     fn new(state: State, env: Env) -> Result<Self> {
//!         let outbox = Outbox::open(&state, env.require::<Registry>()?, Options::default())?;
//!         let live = Live::open(&state, &outbox, Table)?;
//!         Ok(Self { outbox, live })
//!     }
//!
//!     async fn fetch(&self, request: Request) -> Result<Response> {
//!         self.live.accept(&request)
//!     }
//! }
//! ```
//!
//! # In a page
//!
//! Load [`TURBO`] and [`LIVE`], and put `<abide-live id="live" data-turbo-permanent src="…?format=turbo">` into the body:
//! it connects, and connects again. [`Table::page`] is such a page. Turbo's own `<turbo-stream-source>` works as well, with
//! server-sent events.

mod assets;
mod render;
mod sse;
mod stream;
mod watch;

use std::{cell::Cell, fmt, rc::Rc};

use abide::{
    Body, Error, Message, Request, RequestResponsePair, Response, Result, State, WebSocket,
    WebSocketPair,
    http::{HeaderValue, StatusCode, header},
    websocket_response,
};
use serde::Serialize;

pub use assets::{Asset, LIVE, TURBO};
pub use render::{DEAD_LETTERS, HEAD, NEWEST, ONLY, Render, Table, newest_of, row_id, utc};
pub use sse::MAX_READERS;
pub use stream::{Action, refresh, remove, stream};

use watch::{Format, Watch, Watcher};

use super::{Counts, Filter, Outbox, Record, Status};

/// Messages in a snapshot.
const SNAPSHOT: usize = 50;

/// Messages in one update. A Turbo page refreshes instead if there are more.
const MAX_CHANGES: usize = 100;

/// The tag of its WebSockets, which distinguishes them from others of the object.
const TAG: &str = "outbox-live";

/// Streams the changes of an outbox to watchers. Clones refer to the same stream.
#[derive(Clone)]
pub struct Live(Rc<Inner>);

struct Inner {
    state: State,
    outbox: Outbox,
    render: Box<dyn Render>,
    readers: sse::Readers,
    /// The newest message that watchers may have received.
    newest: Cell<i64>,
}

/// The updates of JSON watchers.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum JsonUpdate<'a> {
    Snapshot {
        counts: Counts,
        messages: &'a [Record],
    },
    Changes {
        counts: Counts,
        messages: &'a [&'a Record],
    },
}

impl Live {
    /// Watches an outbox; call it in the constructor of its object. It also lets the gateway answer `ping` with `pong`
    /// on the object's WebSockets, unless the object has set another auto-response.
    pub fn open(state: &State, outbox: &Outbox, render: impl Render) -> Result<Self> {
        if state.get_websocket_auto_response().is_none() {
            state.set_websocket_auto_response(Some(RequestResponsePair::new("ping", "pong")?))?;
        }
        let inner = Rc::new(Inner {
            state: state.clone(),
            outbox: outbox.clone(),
            render: Box::new(render),
            readers: sse::Readers::default(),
            newest: Cell::new(newest(outbox)?),
        });
        inner.catch_up()?;
        // Avoid a reference cycle.
        let weak = Rc::downgrade(&inner);
        let changes = &outbox.0.rows.changes;
        let watched = weak.clone();
        changes.warn(Rc::new(move || {
            if let Some(inner) = watched.upgrade() {
                inner.note(true);
            }
        }));
        let watched = weak.clone();
        let wants = move || watched.upgrade().is_some_and(|inner| inner.is_watched());
        let tell = move |records: &[Record]| {
            if let Some(inner) = weak.upgrade()
                && let Err(error) = inner.changed(records)
            {
                tracing::warn!(%error, "watchers of an outbox missed a change");
            }
        };
        changes.listen(Rc::new(wants), Rc::new(tell));
        Ok(Self(inner))
    }

    /// Answers a request to watch: a WebSocket request, or one that accepts `text/event-stream`. The query selects the
    /// stream: `format=json` or `format=turbo`, and `message=ID` for a single message.
    ///
    /// 400 if the query is invalid, 426 if the request asks for neither, 503 if there are too many readers of
    /// server-sent events.
    pub fn accept(&self, request: &Request) -> Result<Response> {
        let (line, watch) = match asked(request) {
            Ok(asked) => asked,
            Err(refusal) => return Ok(refusal.response()),
        };
        let inner = &self.0;
        if !inner.is_watched() {
            // Changes while nobody watched were not recorded.
            inner.newest.set(newest(&inner.outbox)?);
        }
        if line == Line::WebSocket {
            let pair = WebSocketPair::new();
            let socket = inner.state.accept_websocket(pair.server, &[TAG])?;
            socket.serialize_attachment(&Watcher {
                watch,
                behind: false,
            })?;
            socket.send(inner.first(watch)?)?;
            return Ok(websocket_response(pair.client));
        }
        let clock = inner.state.env().clock();
        let first = inner.first(watch)?;
        let added = inner.readers.add(watch, clock.clone(), &first);
        Ok(added.unwrap_or_else(|| {
            refused(
                StatusCode::SERVICE_UNAVAILABLE,
                "too_many_readers",
                "Too many clients read events of this outbox. Try again later, or use a WebSocket.",
            )
        }))
    }

    /// The response of [`accept`](Self::accept) to an unsupported request.
    pub(crate) fn refusal(request: &Request) -> Option<Response> {
        asked(request).err().map(|refusal| refusal.response())
    }

    /// Refreshes all Turbo pages, after a change that is not a message.
    pub fn refresh(&self) {
        let inner = &self.0;
        let text = Message::from(refresh());
        inner.tell(|watch| match watch.format {
            Format::Turbo => vec![text.clone()],
            Format::Json => Vec::new(),
        });
    }
}

impl Inner {
    /// The current state, for a new watcher.
    fn first(&self, watch: Watch) -> Result<String> {
        if watch.format == Format::Turbo {
            return Ok(refresh());
        }
        let messages = match watch.message {
            Some(id) => self.outbox.get(id)?.into_iter().collect(),
            None => {
                let newest = Filter {
                    limit: SNAPSHOT,
                    ..Filter::default()
                };
                self.outbox.list(&newest)?.records
            }
        };
        json(&JsonUpdate::Snapshot {
            counts: self.outbox.counts()?,
            messages: &messages,
        })
    }

    /// Informs the watchers that missed something because the object was reset.
    fn catch_up(&self) -> Result<()> {
        for socket in self.sockets() {
            if let Ok(Some(Watcher {
                watch,
                behind: true,
            })) = socket.deserialize_attachment()
            {
                let _ = socket.send(self.first(watch)?);
            }
        }
        self.note(false);
        Ok(())
    }

    /// Records with each socket whether its watcher has missed something. This survives a reset, as the socket does.
    fn note(&self, behind: bool) {
        for socket in self.sockets() {
            if let Ok(Some(watcher)) = socket.deserialize_attachment::<Watcher>() {
                // It is not longer than the previous one.
                let _ = socket.serialize_attachment(&Watcher { behind, ..watcher });
            }
        }
    }

    fn changed(&self, records: &[Record]) -> Result<()> {
        let told = self.tell_of(records);
        let newest = records.iter().map(|record| record.id).max();
        self.newest.set(self.newest.get().max(newest.unwrap_or(0)));
        if !self.outbox.0.rows.changes.are_there() {
            self.note(false);
        }
        told
    }

    fn tell_of(&self, records: &[Record]) -> Result<()> {
        if !self.is_watched() {
            return Ok(());
        }
        let counts = self.outbox.counts()?;
        // Rendered once, when the first watcher needs it.
        let (mut all_json, mut all_turbo) = (None, None);
        let mut failed = None;
        self.tell(|watch| {
            let told = match (watch.format, watch.message) {
                (Format::Json, None) => all_json
                    .get_or_insert_with(|| changes(counts, &records.iter().collect::<Vec<_>>()))
                    .clone(),
                (Format::Turbo, None) => all_turbo
                    .get_or_insert_with(|| self.streams(records).map(|text| vec![text.into()]))
                    .clone(),
                (format, Some(id)) => match records.iter().find(|record| record.id == id) {
                    None => Ok(Vec::new()),
                    Some(_) if format == Format::Turbo => Ok(vec![refresh().into()]),
                    Some(record) => changes(counts, &[record]),
                },
            };
            told.unwrap_or_else(|error| {
                failed = Some(error);
                Vec::new()
            })
        });
        failed.map_or(Ok(()), Err)
    }

    /// The streams that update Turbo pages.
    fn streams(&self, records: &[Record]) -> Result<String> {
        if records.len() > MAX_CHANGES {
            return Ok(refresh());
        }
        let render = &*self.render;
        let mut streams = String::new();
        for record in records {
            let row = render.row(record);
            if record.id > self.newest.get() {
                streams += &stream(Action::Prepend, NEWEST, &row);
            } else {
                streams += &stream(Action::Morph, &row_id(record.id), &row);
            }
            if record.status == Status::Failed {
                streams += &stream(Action::Prepend, DEAD_LETTERS, &row);
            }
            let others = format!("[{ONLY}]:not([{ONLY}={}])", record.status);
            streams += &remove(&format!("{others} > #{}", row_id(record.id)));
            // A poll of an operation does not move the message.
            if record.status != Status::Sending || record.operation.is_none() {
                streams += &stream(Action::Prepend, &newest_of(record.status), &row);
            }
        }
        let lists = format!(":is(#{NEWEST}, #{DEAD_LETTERS}, [{ONLY}])");
        streams += &remove(&format!("{lists} > :nth-child(n+{})", render.rows() + 1));
        streams += &stream(Action::Morph, HEAD, &render.head(&self.outbox)?);
        Ok(streams)
    }

    /// Sends each watcher what `of` returns.
    fn tell(&self, mut of: impl FnMut(Watch) -> Vec<Message>) {
        for socket in self.sockets() {
            let Ok(Some(Watcher { watch, .. })) = socket.deserialize_attachment() else {
                continue;
            };
            for message in of(watch) {
                if let Err(error) = socket.send(message) {
                    cut_off(&socket, &error);
                    break;
                }
            }
        }
        self.readers.send(&**self.state.env().clock(), of);
    }

    fn is_watched(&self) -> bool {
        !(self.sockets().is_empty() && self.readers.is_empty())
    }

    fn sockets(&self) -> Vec<WebSocket> {
        self.state.get_websockets(Some(TAG))
    }
}

/// A watcher that has missed something reconnects and receives the current state.
fn cut_off(socket: &WebSocket, error: &Error) {
    tracing::debug!(%error, "a watcher of an outbox is disconnected");
    let _ = socket.close(1013, "some changes were missed: connect again");
}

/// The newest message that there is. Ids rise.
fn newest(outbox: &Outbox) -> Result<i64> {
    let newest = outbox.list(&Filter {
        limit: 1,
        ..Filter::default()
    })?;
    Ok(newest.records.first().map_or(0, |record| record.id))
}

fn changes(counts: Counts, records: &[&Record]) -> Result<Vec<Message>> {
    let chunks = records.chunks(MAX_CHANGES);
    chunks
        .map(|messages| json(&JsonUpdate::Changes { counts, messages }).map(Message::from))
        .collect()
}

fn json(told: &JsonUpdate<'_>) -> Result<String> {
    serde_json::to_string(told).map_err(Error::from_std)
}

/// The format of a watcher.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    WebSocket,
    Events,
}

/// Why a request cannot be streamed.
struct Refusal {
    status: StatusCode,
    code: &'static str,
    why: &'static str,
}

impl Refusal {
    fn response(&self) -> Response {
        refused(self.status, self.code, self.why)
    }
}

/// A parsed request to watch.
fn asked(request: &Request) -> std::result::Result<(Line, Watch), Refusal> {
    let watch = Watch::of(request.uri().query().unwrap_or_default()).map_err(|why| Refusal {
        status: StatusCode::BAD_REQUEST,
        code: "invalid_query",
        why,
    })?;
    let says = |name: header::HeaderName, what: &str| {
        let values = request.headers().get_all(name);
        values.into_iter().any(|value| {
            value
                .to_str()
                .is_ok_and(|value| value.to_ascii_lowercase().contains(what))
        })
    };
    if says(header::UPGRADE, "websocket") {
        Ok((Line::WebSocket, watch))
    } else if says(header::ACCEPT, "text/event-stream") {
        Ok((Line::Events, watch))
    } else {
        Err(Refusal {
            status: StatusCode::UPGRADE_REQUIRED,
            code: "not_a_stream",
            why: "Use a WebSocket, or `Accept: text/event-stream`.",
        })
    }
}

/// An error in the server's common form.
fn refused(status: StatusCode, code: &str, message: &str) -> Response {
    let body = serde_json::json!({ "error": { "code": code, "message": message } });
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    match status {
        StatusCode::UPGRADE_REQUIRED => {
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        _ => {}
    }
    response
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}
