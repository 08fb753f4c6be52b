//! Live updates over real connections.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use abide::outbox::{
    Deliver, Delivery, Failure, Outbox, OutboxMessage, OutboxOptions, Pace, Record, Registry,
    RetryPolicy, Submitted,
    live::{LIVE, Live, MAX_READERS, Table, refresh},
};
use abide::{
    Host,
    prelude::*,
    server::{RunningHost, object_router},
};
use abide_harness::{Client, Version, in_time};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message as Frame,
};

/// Fails what says so, delivers the rest.
struct Notes(Arc<AtomicUsize>);

impl Deliver for Notes {
    type Payload = String;
    const KIND: &'static str = "note";

    fn summary(&self, note: &String) -> String {
        note.clone()
    }

    fn retry(&self) -> Option<RetryPolicy> {
        Some(RetryPolicy::Schedule(Vec::new()))
    }

    async fn submit(&self, _: &Delivery, note: &String) -> Result<Submitted, Failure> {
        self.0.fetch_add(1, Ordering::Relaxed);
        match &**note {
            "bad" => Err(Failure::permanent("<it> is bad")),
            _ => Ok(Submitted::Done),
        }
    }
}

#[durable_object]
struct Shop {
    ctx: Ctx,
    outbox: Outbox,
    live: Live,
}

impl DurableObject for Shop {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let options = OutboxOptions::clone(&*env.require()?);
        let outbox = Outbox::open(&ctx, options)?;
        let live = Live::open(&ctx, &outbox, Table)?;
        Ok(Self { ctx, outbox, live })
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        if request.uri().path() == "/page" {
            let page = Table.page("Notes", &self.outbox, "live?format=turbo", "assets")?;
            return Ok(Response::new(Body::from(page)));
        }
        self.live.accept(&request)
    }
}

#[rpc]
impl Shop {
    /// Enqueues notes in one transaction; the last one's id.
    pub async fn note(&self, notes: Vec<String>) -> Result<i64> {
        let mut last = 0;
        for note in notes {
            last = self.outbox.enqueue(&OutboxMessage::new("note", &note)?)?.id;
        }
        Ok(last)
    }

    /// Enqueues a note, and resets the object before watchers are notified.
    pub async fn note_and_reset(&self, note: String) -> Result<i64> {
        let ctx = self.ctx.clone();
        // Begins after this poll, and before the outbox's own task.
        self.ctx.spawn(async move {
            ctx.abort("the test wants it");
        })?;
        Ok(self.outbox.enqueue(&OutboxMessage::new("note", &note)?)?.id)
    }

    /// Deletes everything.
    pub async fn clear(&self) -> Result<()> {
        self.ctx.storage().delete_all()
    }

    pub async fn record(&self, id: i64) -> Result<Option<Record>> {
        self.outbox.get(id)
    }
}

struct World {
    host: RunningHost,
    attempts: Arc<AtomicUsize>,
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

impl World {
    async fn new(idle: Duration) -> Self {
        Self::with(idle, OutboxOptions::default()).await
    }

    async fn with(idle: Duration, options: OutboxOptions) -> Self {
        let attempts = Arc::<AtomicUsize>::default();
        let class = ClassOptions::default()
            .idle_timeout(idle)
            .alarm_idle_timeout(idle);
        let host = Host::open_in_memory()
            .object_with::<Shop>(class)
            .with(Registry::new().with(Notes(Arc::clone(&attempts))))
            .with(options.pace(Pace::unlimited(16)))
            .router(|env| object_router::<Shop>(&env))
            .start()
            .await
            .unwrap();
        Self { host, attempts }
    }

    fn shop(&self) -> Stub<Shop> {
        self.host.env().object::<Shop>().get_by_name("shop")
    }

    async fn note(&self, notes: &[&str]) -> i64 {
        let notes = notes.iter().map(|&note| note.to_owned()).collect();
        self.shop().note(notes).await.unwrap()
    }

    async fn watch(&self, query: &str) -> Socket {
        let url = format!("ws://{}/shop/live?{query}", self.host.addr());
        connect_async(url).await.unwrap().0
    }

    async fn read_events(&self) -> TcpStream {
        self.read_events_with("").await
    }

    /// Reads events with another header of the request.
    async fn read_events_with(&self, header: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.host.addr()).await.unwrap();
        let request = format!(
            "GET /shop/live HTTP/1.1\r\nhost: test\r\naccept: text/event-stream\r\n{header}\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    fn client(&self) -> Client {
        Client::new(&self.host.addr().to_string(), Version::Http1)
    }
}

async fn text(socket: &mut Socket) -> String {
    let next = async {
        loop {
            if let Frame::Text(text) = socket.next().await.unwrap().unwrap() {
                return text.to_string();
            }
        }
    };
    in_time("the watcher to be told something", next).await
}

async fn told(socket: &mut Socket) -> Value {
    serde_json::from_str(&text(socket).await).unwrap()
}

/// Waits until a message with this summary has this status, and returns what was told of it.
async fn becomes(socket: &mut Socket, summary: &str, status: &str) -> Value {
    loop {
        let told = told(socket).await;
        let messages = told["messages"].as_array().unwrap();
        if let Some(message) = messages
            .iter()
            .find(|message| message["summary"] == summary && message["status"] == status)
        {
            assert!(told["counts"].is_object());
            return message.clone();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_watchers_get_a_snapshot_and_every_change_across_hibernation() {
    let world = World::new(Duration::from_millis(50)).await;
    world.note(&["first"]).await;
    let mut socket = world.watch("format=json").await;
    let snapshot = told(&mut socket).await;
    assert_eq!(snapshot["type"], "snapshot");
    assert_eq!(snapshot["messages"][0]["summary"], "first");
    for note in ["second", "third"] {
        // Long enough for the object to leave memory; what follows holds either way.
        tokio::time::sleep(Duration::from_millis(300)).await;
        world.note(&[note]).await;
        becomes(&mut socket, note, "sent").await;
    }
    let gone = becomes(&mut socket, "bad", "failed");
    world.note(&["bad"]).await;
    assert_eq!(gone.await["last_error"], "<it> is bad");
    assert_eq!(world.attempts.load(Ordering::Relaxed), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turbo_watchers_refresh_first_and_then_get_escaped_rows_and_the_head() {
    let world = World::new(Duration::from_secs(10)).await;
    let mut socket = world.watch("format=turbo").await;
    assert_eq!(text(&mut socket).await, refresh());
    let id = world.note(&["bad"]).await;
    let mut all = String::new();
    while !all.contains("&lt;it&gt; is bad") {
        all += &text(&mut socket).await;
    }
    assert!(!all.contains("<it>"), "{all}");
    let new = "<turbo-stream action=\"prepend\" target=\"outbox-newest\">";
    assert_eq!(all.matches(new).count(), 1, "it is new once: {all}");
    for part in [
        "<turbo-stream action=\"prepend\" target=\"outbox-dead-letters\">".to_owned(),
        "<turbo-stream action=\"replace\" method=\"morph\" target=\"outbox-head\">".to_owned(),
        format!("<tr id=\"message-{id}\" data-status=\"failed\">"),
    ] {
        assert!(all.contains(&part), "{part}: {all}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_of_one_message_gets_no_other() {
    let world = World::new(Duration::from_secs(10)).await;
    // The watcher knows the id before the message is there: ids rise by one.
    let mut json = world.watch("format=json&message=2").await;
    let mut turbo = world.watch("format=turbo&message=2").await;
    assert_eq!(told(&mut json).await["messages"], json!([]));
    assert_eq!(text(&mut turbo).await, refresh());
    world.note(&["other", "mine", "another"]).await;
    loop {
        let told = told(&mut json).await;
        let messages = told["messages"].as_array().unwrap().clone();
        assert_eq!((messages.len(), &messages[0]["id"]), (1, &json!(2)));
        assert_eq!(text(&mut turbo).await, refresh());
        if messages[0]["status"] == "sent" {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_changes_refresh_pages_and_reach_programs_in_parts() {
    let world = World::new(Duration::from_secs(10)).await;
    let mut turbo = world.watch("format=turbo").await;
    let mut json = world.watch("format=json").await;
    text(&mut turbo).await;
    text(&mut json).await;
    let notes: Vec<String> = (0..250).map(|number| number.to_string()).collect();
    world.shop().note(notes).await.unwrap();
    assert_eq!(text(&mut turbo).await, refresh());
    let mut sent = std::collections::BTreeSet::new();
    while sent.len() < 250 {
        let told = told(&mut json).await;
        let messages = told["messages"].as_array().unwrap();
        assert!(messages.len() <= 100, "{}", messages.len());
        let done = messages
            .iter()
            .filter(|message| message["status"] == "sent");
        sent.extend(done.map(|message| message["id"].as_i64().unwrap()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_missed_changes_in_a_reset_gets_a_snapshot() {
    let world = World::new(Duration::from_secs(10)).await;
    let mut socket = world.watch("format=json").await;
    told(&mut socket).await;
    // Even if the answer was lost, the note is there.
    let _ = world.shop().note_and_reset("lost".to_owned()).await;
    world.shop().record(1).await.unwrap();
    let snapshot = told(&mut socket).await;
    assert_eq!(snapshot["type"], "snapshot");
    assert_eq!(snapshot["messages"][0]["summary"], "lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_events_are_bounded() {
    let world = World::new(Duration::from_secs(10)).await;
    let mut readers = Vec::new();
    for _ in 0..MAX_READERS {
        let mut stream = world.read_events().await;
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        readers.push(stream);
    }
    let mut refused = world.read_events().await;
    let mut first = [0; 12];
    refused.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 503");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_sent_events_say_the_same() {
    let world = World::new(Duration::from_secs(10)).await;
    let mut stream = world.read_events().await;
    let mut all = String::new();
    let read = async |stream: &mut TcpStream, all: &mut String, until: &str| {
        let reads = async {
            let mut buffer = [0; 4096];
            while !all.contains(until) {
                let count = stream.read(&mut buffer).await.unwrap();
                assert!(count > 0, "it has ended: {all}");
                *all += &String::from_utf8_lossy(&buffer[..count]);
            }
        };
        in_time(until, reads).await;
    };
    read(&mut stream, &mut all, "\"snapshot\"").await;
    assert!(all.contains("content-type: text/event-stream"), "{all}");
    assert!(all.contains("retry: 2000\n\n"), "{all}");
    world.note(&["hello"]).await;
    read(&mut stream, &mut all, "\"status\":\"sent\"").await;
    assert!(all.contains("\nid: "), "{all}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_requests_are_refused_and_ping_is_answered() {
    let world = World::new(Duration::from_secs(10)).await;
    let client = world.client();
    let refused = client.get("/shop/live?format=xml").await;
    assert_eq!(
        (refused.status.as_u16(), refused.code()),
        (400, "invalid_query")
    );
    let refused = client.get("/shop/live").await;
    assert_eq!(
        (refused.status.as_u16(), refused.code()),
        (426, "not_a_stream")
    );
    let page = client.get("/shop/page").await;
    let page = page.body.as_str().unwrap();
    assert!(
        page.contains(&LIVE.name) && page.contains("<abide-live"),
        "{page}"
    );
    let mut socket = world.watch("").await;
    told(&mut socket).await;
    socket.send(Frame::text("ping")).await.unwrap();
    assert_eq!(text(&mut socket).await, "pong");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconnecting_watcher_sees_a_message_that_failed_meanwhile() {
    let world = World::new(Duration::from_secs(10)).await;
    let mut first = world.watch("format=json").await;
    told(&mut first).await;
    let id = world.note(&["bad"]).await;
    becomes(&mut first, "bad", "failed").await;
    let mut again = world.watch("format=json").await;
    let snapshot = told(&mut again).await;
    assert_eq!(snapshot["counts"]["failed"], 1);
    assert_eq!(snapshot["messages"][0]["id"], id, "{snapshot}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_is_loaded_again_shows_a_message_that_failed() {
    let world = World::new(Duration::from_secs(10)).await;
    let mut socket = world.watch("format=json").await;
    told(&mut socket).await;
    let id = world.note(&["bad"]).await;
    becomes(&mut socket, "bad", "failed").await;
    let page = world.client().get("/shop/page").await;
    let page = page.body.as_str().unwrap();
    assert!(page.contains(&format!("id=\"message-{id}\"")), "{page}");
}

/// The position of an update.
fn position(told: &Value) -> String {
    told["position"].as_str().unwrap().to_owned()
}

/// Waits until the socket has ended; its close code.
async fn close_code(socket: &mut Socket) -> u16 {
    let ends = async {
        loop {
            if let Frame::Close(Some(frame)) = socket.next().await.unwrap().unwrap() {
                return frame.code.into();
            }
        }
    };
    in_time("the end of a socket", ends).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_comes_back_receives_all_that_changed_meanwhile() {
    let world = World::new(Duration::from_secs(10)).await;
    world.note(&["before"]).await;
    let mut socket = world.watch("").await;
    let snapshot = told(&mut socket).await;
    assert_eq!(snapshot["complete"], true);
    becomes(&mut world.watch("").await, "before", "sent").await;
    drop(socket);
    // More than a snapshot has.
    let notes: Vec<String> = (0..120).map(|number| number.to_string()).collect();
    let last = world.shop().note(notes).await.unwrap();
    let mut other = world.watch("").await;
    let mut is_sent = told(&mut other).await["messages"].clone();
    while is_sent[0]["id"] != last || is_sent[0]["status"] != "sent" {
        is_sent = told(&mut other).await["messages"].clone();
        let mine = is_sent.as_array().unwrap().iter();
        let mine: Vec<Value> = mine
            .filter(|message| message["id"] == last)
            .cloned()
            .collect();
        is_sent = json!(mine);
    }

    let mut known = std::collections::BTreeMap::new();
    let mut place = position(&snapshot);
    // It is cut off after the first part, and begins again where it was.
    for wanted in [1, 2] {
        let mut again = world.watch(&format!("after={place}")).await;
        for _ in 0..wanted {
            let told = told(&mut again).await;
            assert_eq!(told["type"], "changes", "{told}");
            place = position(&told);
            for message in told["messages"].as_array().unwrap() {
                known.insert(message["id"].as_i64().unwrap(), message["status"].clone());
            }
        }
    }
    assert!(
        (last - 119..=last).all(|id| known[&id] == "sent"),
        "{known:?}"
    );
    let mut again = world.watch(&format!("after={place}")).await;
    let nothing = told(&mut again).await;
    assert_eq!(
        (&nothing["type"], &nothing["messages"], &nothing["gone"]),
        (&json!("changes"), &json!([]), &json!([]))
    );
    world.note(&["now"]).await;
    becomes(&mut again, "now", "sent").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_whose_position_is_forgotten_receives_a_snapshot() {
    let world = World::new(Duration::from_millis(50)).await;
    let mut socket = world.watch("").await;
    let place = position(&told(&mut socket).await);
    drop(socket);
    // Long enough for the object to leave memory, and with it the log.
    tokio::time::sleep(Duration::from_millis(500)).await;
    for number in 0..60 {
        world.note(&[&number.to_string()]).await;
    }
    let mut again = world.watch(&format!("after={place}")).await;
    let snapshot = told(&mut again).await;
    assert_eq!(snapshot["type"], "snapshot", "{snapshot}");
    assert_eq!(snapshot["messages"].as_array().unwrap().len(), 50);
    assert_eq!(snapshot["complete"], false);
    let refused = world.client().get("/shop/live?after=yesterday").await;
    assert_eq!(refused.code(), "invalid_query");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removals_are_told_to_watchers_and_to_those_that_come_back() {
    let options = OutboxOptions::default().keep_finished(Duration::ZERO);
    let world = World::with(Duration::from_secs(10), options).await;
    let mut turbo = world.watch("format=turbo").await;
    let mut json = world.watch("").await;
    let place = position(&told(&mut json).await);
    let id = world.note(&["short-lived"]).await;
    while !text(&mut turbo)
        .await
        .contains(&format!("targets=\"#message-{id}\""))
    {}
    while told(&mut json).await["gone"] != json!([id]) {}
    let mut again = world.watch(&format!("after={place}")).await;
    let told_again = told(&mut again).await;
    assert_eq!(
        (&told_again["type"], &told_again["gone"]),
        (&json!("changes"), &json!([id]))
    );
    let mut one = world
        .watch(&format!("after={place}&message={}", id + 1))
        .await;
    assert_eq!(
        told(&mut one).await["gone"],
        json!([]),
        "it is not its message"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_connect_again_when_everything_is_deleted() {
    let world = World::new(Duration::from_secs(10)).await;
    world.note(&["gone"]).await;
    let mut socket = world.watch("").await;
    let place = position(&told(&mut socket).await);
    world.shop().clear().await.unwrap();
    assert_eq!(close_code(&mut socket).await, 1013);
    world.note(&["new"]).await;
    let mut again = world.watch(&format!("after={place}")).await;
    let snapshot = told(&mut again).await;
    assert_eq!(snapshot["type"], "snapshot");
    let messages = snapshot["messages"].as_array().unwrap();
    assert_eq!(
        (messages.len(), &messages[0]["summary"]),
        (1, &json!("new"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_events_continues_after_the_last_one_that_it_has() {
    let world = World::new(Duration::from_secs(10)).await;
    let read = async |stream: &mut TcpStream, until: &str| {
        let mut all = String::new();
        let reads = async {
            let mut buffer = [0; 4096];
            while !all.contains(until) {
                let count = stream.read(&mut buffer).await.unwrap();
                assert!(count > 0, "it has ended: {all}");
                all += &String::from_utf8_lossy(&buffer[..count]);
            }
        };
        in_time(until, reads).await;
        all
    };
    let mut stream = world.read_events().await;
    let first = read(&mut stream, "\"complete\":true").await;
    let (_, id) = first.split_once("\nid: ").unwrap();
    let id = id.lines().next().unwrap();
    drop(stream);
    world.note(&["meanwhile"]).await;
    let header = format!("last-event-id: {id}\r\n");
    let mut stream = world.read_events_with(&header).await;
    let all = read(&mut stream, "\"summary\":\"meanwhile\"").await;
    assert!(all.contains("\"type\":\"changes\""), "{all}");
    assert!(!all.contains("\"type\":\"snapshot\""), "{all}");
}
