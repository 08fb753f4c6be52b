//! Server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>): for clients without
//! WebSockets.
//!
//! Contract: a reader that does not keep up is disconnected, and so are all when the object leaves memory or is reset.
//! They reconnect automatically, and receive the current state.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use abide::{
    Body, Error, Message, Response,
    clock::Clock,
    http::{HeaderValue, header},
};
use futures_util::stream;
use tokio::sync::mpsc;

use super::Watch;

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
    pub(super) fn add(&self, watch: Watch, clock: Arc<dyn Clock>, first: &str) -> Option<Response> {
        let mut readers = self.0.borrow_mut();
        readers.retain(|reader| !reader.events.is_closed());
        if readers.len() >= MAX_READERS {
            return None;
        }
        let (events, waiting) = mpsc::channel(BUFFER);
        let intro = format!("retry: {RETRY_MILLIS}\n\n{}", event(first, &*clock));
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
    pub(super) fn send(&self, clock: &dyn Clock, mut of: impl FnMut(Watch) -> Vec<Message>) {
        self.0.borrow_mut().retain(|reader| {
            let texts = of(reader.watch);
            texts
                .iter()
                .filter_map(Message::as_text)
                .all(|text| reader.send(event(text, clock)))
        });
    }
}

/// One event. Its id is the time, by which a reader can order events from several connections.
fn event(text: &str, clock: &dyn Clock) -> String {
    let mut event = format!("id: {}\n", clock.unix_millis());
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

    use super::{super::watch::Format, *};

    #[test]
    fn an_event_has_an_id_and_a_line_of_data_for_each_line() {
        let clock = TestClock::new();
        let id = clock.unix_millis();
        assert_eq!(
            event("a\nb", &clock),
            format!("id: {id}\ndata: a\ndata: b\n\n")
        );
    }

    #[test]
    fn what_waits_for_a_reader_is_bounded_in_bytes() {
        let clock = TestClock::new();
        let readers = Readers::default();
        let watch = Watch {
            format: Format::Json,
            message: None,
        };
        let response = readers.add(watch, Arc::new(clock.clone()), "first");
        assert!(response.is_some());
        // A text of 100 messages whose errors and operations are as long as they may be.
        let text = "x".repeat(100 * 3_500);
        for _ in 1..BUFFER {
            readers.send(&clock, |_| vec![Message::from(&*text)]);
        }
        assert!(readers.is_empty(), "22 MB wait for one reader of 256");
    }

    #[test]
    fn a_carriage_return_does_not_end_a_line_of_data() {
        // A reader takes it for the end of a line, as the standard says.
        let clock = TestClock::new();
        let event = event("a\rid: 7", &clock);
        assert!(!event.contains('\r'), "{event:?}");
    }

    #[test]
    fn a_reader_that_does_not_keep_up_is_ended() {
        let clock = TestClock::new();
        let readers = Readers::default();
        let watch = Watch {
            format: Format::Json,
            message: None,
        };
        let response = readers.add(watch, Arc::new(clock.clone()), "first");
        assert!(response.is_some());
        for _ in 1..BUFFER {
            readers.send(&clock, |_| vec![Message::from("news")]);
            assert!(!readers.is_empty());
        }
        readers.send(&clock, |_| vec![Message::from("too much")]);
        assert!(readers.is_empty());
    }
}
