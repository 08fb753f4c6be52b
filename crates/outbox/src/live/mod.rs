//! Live updates: every change of a message, streamed to watchers.
//!
//! Contract: the changes of a poll are sent soon after it, and only when they are on disk. A watcher that connects again
//! with the position of its last update receives what has changed since, including removals; if that is not known, or for
//! the first time, it receives a snapshot, which replaces all that it knows. So it misses nothing in between. A watcher
//! that does not keep up is disconnected and comes back. WebSockets stay open while the object hibernates.
//!
//! # Formats
//!
//! | `format` | First | Then |
//! |---|---|---|
//! | `json` (the default) | `{"type":"snapshot","position":"…","counts":{…},"messages":[…],"complete":false}`, the newest messages, and whether those are all | `{"type":"changes","position":"…","counts":{…},"messages":[…],"gone":[…]}`, at most 100 in one, and the ids of removed ones |
//! | `turbo` | a [Turbo Stream](https://turbo.hotwired.dev/handbook/streams) that lets the page refresh | the changed rows and the head, as [`Render`] makes them; `refresh` if there are too many |
//!
//! With `message=ID` the stream is about one message; a Turbo page then refreshes with each change. With
//! `after=POSITION`, or the header `Last-Event-ID` that browsers send, a JSON stream continues there: it begins with
//! `changes`, or with a `snapshot` if the position is too old.
//!
//! # In a class
//!
//! ```
//! use std::sync::Arc;
//!
//! use abide::prelude::*;
//! use abide::outbox::{OutboxOptions, Outbox, Registry, live::{Live, Table}};
//!
//! #[durable_object]
//! pub struct Shop {
//!     outbox: Outbox,
//!     live: Live,
//! }
//!
//! impl DurableObject for Shop {
//!     fn new(ctx: Ctx, _env: Env) -> Result<Self> {
//!         let outbox = Outbox::open(&ctx, OutboxOptions::default())?;
//!         let live = Live::open(&ctx, &outbox, Table)?;
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
//! server-sent events. A refresh of such a page restores what its server sends: give a form that people fill in
//! `data-turbo-permanent` too, or put it on a separate page.

mod assets;
mod log;
mod render;
mod sse;
mod stream;
mod watch;

use std::{
    cell::{Cell, RefCell},
    fmt,
    rc::Rc,
};

use abide::{
    Body, Ctx, Error, Request, RequestResponsePair, Response, Result, WebSocket,
    http::{HeaderValue, StatusCode, header},
};
use serde::Serialize;

pub use assets::{LIVE, TURBO};
pub use render::{DEAD_LETTERS, HEAD, NEWEST, ONLY, Render, Table, newest_of, row_id, utc};
pub use sse::MAX_READERS;
pub use stream::{Action, refresh, remove, stream};

use log::{Log, Position};
use watch::{Format, Watch, Watcher};

use super::{Counts, MessageFilter, Outbox, Record, Status};

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
    ctx: Ctx,
    outbox: Outbox,
    render: Box<dyn Render>,
    readers: sse::Readers,
    /// The newest message that watchers may have received.
    newest: Cell<i64>,
    /// The changes since the first watcher came.
    log: RefCell<Option<Log>>,
}

/// What a watcher is told, and the place in the stream after it.
#[derive(Clone, Debug)]
struct Update {
    text: String,
    position: Position,
}

/// The updates of JSON watchers.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum JsonUpdate<'a> {
    Snapshot {
        position: Position,
        counts: Counts,
        messages: &'a [Record],
        /// Whether these are all that a watcher could know.
        complete: bool,
    },
    Changes {
        position: Position,
        counts: Counts,
        messages: &'a [&'a Record],
        gone: &'a [i64],
    },
}

/// Changes of one update.
struct Part<'a> {
    position: Position,
    records: &'a [Record],
    gone: &'a [i64],
}

impl Live {
    /// Watches an outbox; call it in the constructor of its object. It also lets the gateway answer `ping` with `pong`
    /// on the object's WebSockets, unless the object has set another auto-response.
    pub fn open(ctx: &Ctx, outbox: &Outbox, render: impl Render) -> Result<Self> {
        if ctx.auto_response().is_none() {
            ctx.set_auto_response(Some(RequestResponsePair::new("ping", "pong")?))?;
        }
        let inner = Rc::new(Inner {
            ctx: ctx.clone(),
            outbox: outbox.clone(),
            render: Box::new(render),
            readers: sse::Readers::default(),
            newest: Cell::new(newest(outbox)?),
            log: RefCell::default(),
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
        let wants = move || watched.upgrade().is_some_and(|inner| inner.wants());
        let cut_off = weak.clone();
        changes.on_loss(Rc::new(move || {
            if let Some(inner) = cut_off.upgrade() {
                inner.lost();
            }
        }));
        let tell = move |records: &[Record], gone: &[i64]| {
            if let Some(inner) = weak.upgrade()
                && let Err(error) = inner.changed(records, gone)
            {
                tracing::warn!(%error, "watchers of an outbox missed a change");
            }
        };
        changes.listen(Rc::new(wants), Rc::new(tell));
        Ok(Self(inner))
    }

    /// Answers a request to watch: a WebSocket request, or one that accepts `text/event-stream`. The query selects the
    /// stream: `format=json` or `format=turbo`, `message=ID` for a single message, and `after=POSITION` to continue.
    ///
    /// 400 if the query is invalid, 426 if the request asks for neither, 503 if there are too many readers of
    /// server-sent events.
    pub fn accept(&self, request: &Request) -> Result<Response> {
        let Asked { line, watch, after } = match asked(request) {
            Ok(asked) => asked,
            Err(refusal) => return Ok(refusal.response()),
        };
        let inner = &self.0;
        if !inner.is_watched() {
            // Changes without a watcher were not recorded.
            inner.newest.set(newest(&inner.outbox)?);
        }
        if line == Line::WebSocket {
            let (socket, response) = inner.ctx.accept_websocket(&[TAG])?;
            socket.set_attachment(&Watcher {
                watch,
                behind: false,
            })?;
            for update in inner.first(watch, after)? {
                socket.send(update.text)?;
            }
            return Ok(response);
        }
        let clock = inner.ctx.env().clock();
        let first = inner.first(watch, after)?;
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
        let Some(position) = inner.log.borrow().as_ref().map(Log::position) else {
            // Pages that are open since an earlier activation have no place in a log, and need none.
            return inner.tell_sockets(|watch| match watch.format {
                Format::Turbo => vec![refresh()],
                Format::Json => Vec::new(),
            });
        };
        inner.tell(|watch| match watch.format {
            Format::Turbo => vec![Update {
                text: refresh(),
                position,
            }],
            Format::Json => Vec::new(),
        });
    }
}

impl Inner {
    /// The place in the log after the newest change. A log begins if there is none.
    fn position(&self) -> Result<Position> {
        let mut log = self.log.borrow_mut();
        if let Some(log) = &*log {
            return Ok(log.position());
        }
        let outbox = &self.outbox.0;
        let number = outbox.rows.next_log(outbox.now())?;
        Ok(log.insert(Log::new(number)).position())
    }

    /// What a watcher receives first: the changes since a place in the log, or the current state.
    fn first(&self, watch: Watch, after: Option<Position>) -> Result<Vec<Update>> {
        let position = self.position()?;
        if watch.format == Format::Turbo {
            let text = refresh();
            return Ok(vec![Update { text, position }]);
        }
        if let Some(after) = after {
            let changed = self.log.borrow().as_ref().and_then(|log| log.since(after));
            if let Some(changed) = changed {
                return self.resumed(watch, changed, after, position);
            }
        }
        let (messages, complete) = match watch.message {
            Some(id) => (self.outbox.get(id)?.into_iter().collect(), true),
            None => {
                let newest = MessageFilter {
                    limit: SNAPSHOT,
                    ..MessageFilter::default()
                };
                let page = self.outbox.list(&newest)?;
                (page.records, page.next.is_none())
            }
        };
        let text = json(&JsonUpdate::Snapshot {
            position,
            counts: self.outbox.counts()?,
            messages: &messages,
            complete,
        })?;
        Ok(vec![Update { text, position }])
    }

    /// Messages that have changed while a watcher was away.
    fn resumed(
        &self,
        watch: Watch,
        changed: impl IntoIterator<Item = i64>,
        after: Position,
        position: Position,
    ) -> Result<Vec<Update>> {
        let (mut records, mut gone) = (Vec::new(), Vec::new());
        for id in changed {
            if watch.message.is_some_and(|only| only != id) {
                continue;
            }
            match self.outbox.get(id)? {
                Some(record) => records.push(record),
                None => gone.push(id),
            }
        }
        let counts = self.outbox.counts()?;
        let parts: Vec<_> = parts(&records, &gone).collect();
        let last = parts.len() - 1;
        let updates = parts
            .into_iter()
            .enumerate()
            .map(|(number, (records, gone))| {
                // One that has received only some of them begins again.
                let place = if number == last { position } else { after };
                let records: Vec<&Record> = records.iter().collect();
                changes(place, counts, &records, gone)
            });
        updates.collect()
    }

    /// Informs the watchers that missed something because the object was reset.
    fn catch_up(&self) -> Result<()> {
        for socket in self.sockets() {
            if let Ok(Some(Watcher {
                watch,
                behind: true,
            })) = socket.attachment()
            {
                for update in self.first(watch, None)? {
                    let _ = socket.send(update.text);
                }
            }
        }
        self.note(false);
        Ok(())
    }

    /// Records with each socket whether its watcher has missed something. This survives a reset, as the socket does.
    fn note(&self, behind: bool) {
        for socket in self.sockets() {
            if let Ok(Some(watcher)) = socket.attachment::<Watcher>() {
                // It is not longer than the previous one.
                let _ = socket.set_attachment(&Watcher { behind, ..watcher });
            }
        }
    }

    /// Whether changes are to be told, or remembered for watchers that come back.
    fn wants(&self) -> bool {
        let is_watched = self.is_watched();
        let mut log = self.log.borrow_mut();
        if is_watched {
            if let Some(log) = &mut *log {
                log.is_watched();
            }
            return true;
        }
        let now = self.outbox.0.now();
        let is_awaited = log.as_mut().is_some_and(|log| log.is_awaited(now));
        if !is_awaited {
            // It would not be complete.
            *log = None;
        }
        is_awaited
    }

    /// Messages are gone, and it is not known which: all watchers connect again and receive the current state.
    fn lost(&self) {
        *self.log.borrow_mut() = None;
        self.newest.set(0);
        for socket in self.sockets() {
            let _ = socket.close(1013, "messages were deleted: connect again");
        }
        self.readers.end();
    }

    fn changed(&self, records: &[Record], gone: &[i64]) -> Result<()> {
        let told = self.tell_of(records, gone);
        let newest = records.iter().map(|record| record.id).max();
        self.newest.set(self.newest.get().max(newest.unwrap_or(0)));
        if !self.outbox.0.rows.changes.are_there() {
            self.note(false);
        }
        told
    }

    fn tell_of(&self, records: &[Record], gone: &[i64]) -> Result<()> {
        if self.is_watched() {
            self.position()?;
        }
        let parts: Vec<Part<'_>> = match &mut *self.log.borrow_mut() {
            Some(log) => parts(records, gone)
                .map(|(records, gone)| {
                    let changed = records.iter().map(|record| record.id);
                    Part {
                        position: log.add(changed.chain(gone.iter().copied())),
                        records,
                        gone,
                    }
                })
                .collect(),
            None => return Ok(()),
        };
        let Some(position) = parts.last().map(|part| part.position) else {
            return Ok(());
        };
        if !self.is_watched() {
            return Ok(());
        }
        let counts = self.outbox.counts()?;
        // Rendered once, when the first watcher needs it.
        let (mut all_json, mut all_turbo) = (None, None);
        let mut failed = None;
        let page = |text| vec![Update { text, position }];
        self.tell(|watch| {
            let told = match (watch.format, watch.message) {
                (Format::Json, None) => all_json
                    .get_or_insert_with(|| {
                        let each = parts.iter().map(|part| {
                            let records: Vec<&Record> = part.records.iter().collect();
                            changes(part.position, counts, &records, part.gone)
                        });
                        each.collect::<Result<Vec<_>>>()
                    })
                    .clone(),
                (Format::Turbo, None) => all_turbo
                    .get_or_insert_with(|| self.streams(records, gone).map(page))
                    .clone(),
                (format, Some(id)) => {
                    let record = records.iter().find(|record| record.id == id);
                    let record: Vec<&Record> = record.into_iter().collect();
                    let gone: Vec<i64> = gone.iter().copied().filter(|gone| *gone == id).collect();
                    if record.is_empty() && gone.is_empty() {
                        Ok(Vec::new())
                    } else if format == Format::Turbo {
                        Ok(page(refresh()))
                    } else {
                        changes(position, counts, &record, &gone).map(|update| vec![update])
                    }
                }
            };
            told.unwrap_or_else(|error| {
                failed = Some(error);
                Vec::new()
            })
        });
        failed.map_or(Ok(()), Err)
    }

    /// The streams that update Turbo pages.
    fn streams(&self, records: &[Record], gone: &[i64]) -> Result<String> {
        if records.len() + gone.len() > MAX_CHANGES {
            return Ok(refresh());
        }
        let render = &*self.render;
        let mut streams = String::new();
        for id in gone {
            streams += &remove(&format!("#{}", row_id(*id)));
        }
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
    fn tell(&self, mut of: impl FnMut(Watch) -> Vec<Update>) {
        self.tell_sockets(|watch| of(watch).into_iter().map(|update| update.text).collect());
        self.readers.send(of);
    }

    fn tell_sockets(&self, mut of: impl FnMut(Watch) -> Vec<String>) {
        for socket in self.sockets() {
            let Ok(Some(Watcher { watch, .. })) = socket.attachment() else {
                continue;
            };
            for message in of(watch) {
                if let Err(error) = socket.send(message) {
                    cut_off(&socket, &error);
                    break;
                }
            }
        }
    }

    fn is_watched(&self) -> bool {
        !(self.sockets().is_empty() && self.readers.is_empty())
    }

    fn sockets(&self) -> Vec<WebSocket> {
        self.ctx.websockets_with_tag(TAG)
    }
}

/// A watcher that has missed something reconnects and receives the current state.
fn cut_off(socket: &WebSocket, error: &Error) {
    tracing::debug!(%error, "a watcher of an outbox is disconnected");
    let _ = socket.close(1013, "some changes were missed: connect again");
}

/// The newest message that there is. Ids rise.
fn newest(outbox: &Outbox) -> Result<i64> {
    let newest = outbox.list(&MessageFilter {
        limit: 1,
        ..MessageFilter::default()
    })?;
    Ok(newest.records.first().map_or(0, |record| record.id))
}

/// Splits changes into parts of [`MAX_CHANGES`] messages, at least one; the first has the removed ones.
fn parts<'a>(
    records: &'a [Record],
    gone: &'a [i64],
) -> impl Iterator<Item = (&'a [Record], &'a [i64])> {
    let (first, rest) = records.split_at(records.len().min(MAX_CHANGES));
    let rest = rest.chunks(MAX_CHANGES).map(|records| (records, &[][..]));
    std::iter::once((first, gone)).chain(rest)
}

fn changes(
    position: Position,
    counts: Counts,
    records: &[&Record],
    gone: &[i64],
) -> Result<Update> {
    let text = json(&JsonUpdate::Changes {
        position,
        counts,
        messages: records,
        gone,
    })?;
    Ok(Update { text, position })
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
struct Asked {
    line: Line,
    watch: Watch,
    after: Option<Position>,
}

fn asked(request: &Request) -> std::result::Result<Asked, Refusal> {
    let (watch, after) =
        Watch::of(request.uri().query().unwrap_or_default()).map_err(|why| Refusal {
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
    let line = if says(header::UPGRADE, "websocket") {
        Line::WebSocket
    } else if says(header::ACCEPT, "text/event-stream") {
        Line::Events
    } else {
        return Err(Refusal {
            status: StatusCode::UPGRADE_REQUIRED,
            code: "not_a_stream",
            why: "Use a WebSocket, or `Accept: text/event-stream`.",
        });
    };
    // A browser sends the id of the last event that it has received, whatever the address says.
    let last = request.headers().get("last-event-id");
    let last = last.and_then(|id| Position::parse(id.to_str().ok()?));
    Ok(Asked {
        line,
        watch,
        after: last.or(after),
    })
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
