//! Server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>): for clients without
//! WebSockets.
//!
//! Contract: a reader that does not keep up is disconnected, and so are all when the object leaves memory or is reset.
//! They reconnect automatically, with the id of the last event, which is a position: so they continue there.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use abide::{
    Body, Error, Response,
    clock::Clock,
    http::{HeaderValue, header},
};
use futures_util::stream;
use tokio::sync::mpsc;

use super::{Update, Watch};

/// Readers of one outbox: each keeps a task, and all together the object, in memory.
pub const MAX_READERS: usize = 256;

/// Events that may wait for a reader.
const BUFFER: usize = 64;

/// Bytes that may wait for a reader, all events together; a longer one may, alone.
const BUFFER_BYTES: usize = 256 << 10;

/// The interval of keep-alive comments.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a client waits before it reconnects, in milliseconds.
const RETRY_MILLIS: u32 = 2_000;

/// The readers of one object, for as long as it is in memory.
#[derive(Default)]
pub(super) struct Readers(RefCell<Vec<Reader>>);

struct Reader {
    watch: Watch,
    events: mpsc::Sender<String>,
    waiting_bytes: Arc<AtomicUsize>,
}

impl Reader {
    /// False if the reader does not keep up, or is gone.
    fn send(&self, event: String) -> bool {
        let bytes = event.len();
        let waiting = self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        (waiting == 0 || waiting + bytes <= BUFFER_BYTES) && self.events.try_send(event).is_ok()
    }
}

impl Readers {
    /// Adds a reader, which first receives `first`. `None` if there are too many.
    pub(super) fn add(
        &self,
        watch: Watch,
        clock: Arc<dyn Clock>,
        first: &[Update],
    ) -> Option<Response> {
        let mut readers = self.0.borrow_mut();
        readers.retain(|reader| !reader.events.is_closed());
        if readers.len() >= MAX_READERS {
            return None;
        }
        let (events, waiting) = mpsc::channel(BUFFER);
        let first: String = first.iter().map(event).collect();
        let intro = format!("retry: {RETRY_MILLIS}\n\n{first}");
        let reader = Reader {
            watch,
            events,
            waiting_bytes: Arc::default(),
        };
        reader.send(intro);
        let mut response = Response::new(body(waiting, reader.waiting_bytes.clone(), clock));
        readers.push(reader);
        let headers = response.headers_mut();
        for (name, value) in [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-store"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        Some(response)
    }

    pub(super) fn is_empty(&self) -> bool {
        let mut readers = self.0.borrow_mut();
        readers.retain(|reader| !reader.events.is_closed());
        readers.is_empty()
    }

    /// Sends each reader what `of` returns; those that do not keep up are disconnected.
    pub(super) fn send(&self, mut of: impl FnMut(Watch) -> Vec<Update>) {
        self.0.borrow_mut().retain(|reader| {
            let updates = of(reader.watch);
            updates.iter().all(|update| reader.send(event(update)))
        });
    }

    /// Ends all streams.
    pub(super) fn end(&self) {
        self.0.borrow_mut().clear();
    }
}

/// One event. Its id is the place in the stream after it.
fn event(Update { text, position }: &Update) -> String {
    let mut event = format!("id: {position}\n");
    // A line ends at each of these for a reader.
    for line in text.lines().flat_map(|line| line.split('\r')) {
        event.push_str("data: ");
        event.push_str(line);
        event.push('\n');
    }
    event.push('\n');
    event
}

fn body(
    waiting: mpsc::Receiver<String>,
    waiting_bytes: Arc<AtomicUsize>,
    clock: Arc<dyn Clock>,
) -> Body {
    Body::from_stream(stream::unfold(waiting, move |mut waiting| {
        let quiet = clock.sleep_until(clock.now() + KEEP_ALIVE);
        let waiting_bytes = waiting_bytes.clone();
        async move {
            let text = tokio::select! {
                text = waiting.recv() => {
                    let text = text?;
                    waiting_bytes.fetch_sub(text.len(), Ordering::Relaxed);
                    text
                }
                () = quiet => ":\n\n".to_owned(),
            };
            Some((Ok::<_, Error>(text), waiting))
        }
    }))
}

#[cfg(test)]
mod tests {
    use abide::clock::TestClock;

    use super::{
        super::{log::Log, watch::Format},
        *,
    };

    fn update(text: &str) -> Update {
        Update {
            text: text.to_owned(),
            position: Log::new(7).position(),
        }
    }

    fn readers() -> (Readers, Response) {
        let readers = Readers::default();
        let watch = Watch {
            format: Format::Json,
            message: None,
        };
        let response = readers.add(watch, Arc::new(TestClock::new()), &[update("first")]);
        (readers, response.unwrap())
    }

    #[test]
    fn an_event_has_its_position_and_a_line_of_data_for_each_line() {
        assert_eq!(event(&update("a\nb")), "id: 7-0\ndata: a\ndata: b\n\n");
    }

    #[test]
    fn what_waits_for_a_reader_is_bounded_in_bytes() {
        let (readers, _response) = readers();
        // A text of 100 messages whose errors and operations are as long as they may be.
        let text = "x".repeat(100 * 3_500);
        for _ in 1..BUFFER {
            readers.send(|_| vec![update(&text)]);
        }
        assert!(readers.is_empty(), "22 MB wait for one reader of 256");
    }

    #[test]
    fn a_carriage_return_does_not_end_a_line_of_data() {
        // A reader takes it for the end of a line, as the standard says.
        let event = event(&update("a\rid: 7"));
        assert!(!event.contains('\r'), "{event:?}");
    }

    #[test]
    fn a_reader_that_does_not_keep_up_is_ended() {
        let (readers, _response) = readers();
        for _ in 1..BUFFER {
            readers.send(|_| vec![update("news")]);
            assert!(!readers.is_empty());
        }
        readers.send(|_| vec![update("too much")]);
        assert!(readers.is_empty());
    }
}
