//! Every limit of the runtime, in one place, with the source of its number.
//!
//! Limits of the database itself (key, value, SQL text…) are `abide_storage::limits`.

use std::time::Duration;

/// Longest name of an object, in bytes: as a key of its storage.
pub const MAX_NAME_BYTES: usize = 2_048;

/// Objects whose timelines one page of [`Node::dormant`](crate::Node::dormant) reads: less than a second of work.
pub(crate) const TIMELINES_READ: usize = 2_000;

/// Objects in one page of [`Namespace::list`](crate::Namespace::list): about a tenth of a second of work.
pub const MAX_LISTED: usize = 1_000;

/// The minimum number of digits of an abbreviated id: fewer are probably a mistake.
pub const MIN_ID_PREFIX: usize = 4;

/// Encoded arguments, or the encoded result, of one RPC call. Cloudflare's documented RPC message limit.
pub const MAX_RPC_BYTES: usize = 32 << 20;

/// Events that wait at one object's closed gate, beyond which callers get an error that it is overloaded. A queue of
/// many times what a busy object handles before its clients give up would be useless.
pub const MAX_QUEUED_PER_OBJECT: usize = 1_024;

/// Handlers of one object that may be suspended at an `await` at the same time; further events wait in
/// the object's queue. Bounds memory when a handler waits for a slow service.
pub const MAX_RUNNING_PER_OBJECT: usize = 4_096;

/// Tasks of one object besides its handlers: `spawn`, `block_concurrency_while` and streamed bodies. Like the
/// limit on handlers, it bounds memory.
pub const MAX_BACKGROUND_PER_OBJECT: usize = 4_096;

/// The seconds in `Retry-After` for a client of an overloaded object.
pub const RETRY_AFTER_SECONDS: u64 = 1;

/// Unanswered events sent to one worker, beyond which callers get an error that it is overloaded.
/// At 1 KiB an event this is 64 MiB a worker.
pub const MAX_QUEUED_PER_WORKER: usize = 65_536;

/// The memory charge of an event besides its content: its queue entries, the return path, the handler's future.
pub const EVENT_BYTES: usize = 1 << 10;

/// The memory charge of an object besides its connection: the instance, and the runtime's own state. Memory in a
/// class's own fields is not measured.
pub(crate) const INSTANCE_BYTES: u64 = 4 << 10;

/// Objects in memory may take one part in this many of the memory budget, in equal shares for each worker; beyond that,
/// the least recently used are evicted before their idle time. The rest is for requests in progress.
pub(crate) const OBJECTS_SHARE: u64 = 2;

/// When memory is short, eviction leaves this many eighths of the objects' memory: enough at once that not every new
/// object makes a worker scan all of them.
pub(crate) const EVICTION_EIGHTHS: u64 = 7;

/// How long a worker waits before it looks for idle objects again after finding none.
pub(crate) const EVICTION_PAUSE: Duration = Duration::from_millis(5);

/// Departures to sockets at one worker's output gate may take one part in this many of the memory budget.
pub(crate) const GATED_SHARE: u64 = 8;

/// The memory charge of a WebSocket besides its messages: both ends, the connection's task, tags.
pub(crate) const SOCKET_BYTES: u64 = 4 << 10;

/// While the memory budget is used up, a WebSocket reader with more than this in its send buffer is too slow, and no
/// more than this is read of an arriving message. It is the size of one read from a fast connection.
pub const WEBSOCKET_TIGHT_BUFFER: usize = 16 << 10;

/// Content of at least this size is charged separately until it is freed; smaller content is charged with its event or
/// frame.
pub const COUNTED_CONTENT: usize = 1 << 10;

/// How often a streamed body checks for free memory. In the meantime one frame at a time is in transit.
pub(crate) const BODY_RETRY: Duration = Duration::from_millis(10);

/// The longest time that an event from outside should wait for its worker, estimated from the queue's length and the
/// recent duration of events; beyond it, callers get an error immediately that the worker is overloaded. It is about
/// how long a person waits before doing something else (J. Nielsen, Usability Engineering, 1993, chapter 5): work that
/// begins later is mostly wasted, at the expense of clients that still wait.
pub const MAX_QUEUE_TIME: Duration = Duration::from_secs(1);

/// How long `block_concurrency_while` may keep the gate closed before the object is reset (Cloudflare's 30 s).
pub const BLOCK_CONCURRENCY_LIMIT: Duration = Duration::from_secs(30);

/// An object with nothing running or waiting is evicted after this time (Cloudflare's 10 s).
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Circular calls through `block_concurrency_while` up to this length are detected immediately; a longer circle ends at
/// the block's time limit.
pub const MAX_CALL_CHAIN: usize = 64;

/// A handler that has not finished after this time resets its object.
pub(crate) const EVENT_TIMEOUT: Duration = Duration::from_mins(5);

/// Background work ([`Ctx::spawn`](crate::Ctx::spawn)) that has not ended after this time is dropped
/// (Cloudflare's limit on the wall-clock time of work that no client waits for, 15 minutes).
pub(crate) const BACKGROUND_TIMEOUT: Duration = Duration::from_mins(15);

/// Longer time limits are reduced to this: ten years.
pub(crate) const FOR_EVER: Duration = Duration::from_hours(10 * 365 * 24);

/// A single poll (code between two awaits) that runs longer than this blocks every object of its worker;
/// the watchdog reports it.
pub(crate) const STUCK_POLL: Duration = Duration::from_secs(5);

/// Commits that wait longer than this, for space or for the disk, are stalled: the watchdog reports it, and the node is
/// not ready. A healthy disk never takes this long for a sync, nor a checkpoint for a part of its files.
pub const COMMIT_STALL: Duration = Duration::from_secs(5);

/// How often the watchdog checks the workers.
pub(crate) const WATCHDOG_INTERVAL: Duration = Duration::from_secs(1);

/// A body that is ready immediately is sent in one piece up to this size; a longer one is streamed.
pub const MAX_BUFFERED_BODY: usize = 1 << 20;

/// Frames of a streamed body between the object and a slow reader.
pub(crate) const BODY_CHANNEL_FRAMES: usize = 16;

/// A reader that takes nothing of a streamed body for this time, while frames wait for it, is dropped (the usual time
/// limit of HTTP proxies between two reads).
pub const BODY_STALL_LIMIT: Duration = Duration::from_mins(1);

/// Events that a worker takes from its channel before it lets suspended handlers run.
pub(crate) const WORKER_BATCH: usize = 64;

/// Longest message of a WebSocket, in either direction (Cloudflare's 32 MiB).
pub const MAX_WEBSOCKET_MESSAGE: usize = 32 << 20;

/// WebSockets that one object may have at a time (Cloudflare's number).
pub const MAX_WEBSOCKETS_PER_OBJECT: usize = 32_768;

/// Tags of one WebSocket (Cloudflare's 10).
pub const MAX_TAGS: usize = 10;

/// Bytes of one tag (Cloudflare's 256 characters).
pub const MAX_TAG: usize = 256;

/// A WebSocket's attachment as CBOR: Cloudflare's newer 16 KiB.
pub const MAX_ATTACHMENT: usize = 16 << 10;

/// Each side of a WebSocket auto-response (Cloudflare's 2,048).
pub const MAX_AUTO_RESPONSE: usize = 2_048;

/// Bytes of the reason in a close frame: a control frame's 125 less two of the code (RFC 6455, section 5.5).
pub const MAX_CLOSE_REASON: usize = 123;

/// Bytes that may wait for one WebSocket reader. Less than a second of a fast link; a reader that lags further will not
/// catch up.
pub const WEBSOCKET_SEND_BUFFER: usize = 1 << 20;

/// The charge of each frame in a send buffer besides its content, so that empty frames are bounded too.
pub const WEBSOCKET_FRAME_OVERHEAD: usize = 64;

/// The burst limit, as a multiple of the send buffer's size: messages that an object sends at once, or that were held
/// while the disk was slow, arrive faster than any reader reads.
pub const WEBSOCKET_BURST: usize = 16;

/// How long more than the send buffer's size may wait for a reader. At 13 Mbit/s, a healthy reader takes the default
/// burst, 16 MiB, in this time.
pub const WEBSOCKET_BURST_PATIENCE: Duration = Duration::from_secs(10);

/// Bytes sent by one object to its WebSockets that may wait at its output gate; each copy of a broadcast counts. A
/// message of 10 KiB to 20,000 sockets fits.
pub const MAX_GATED_PER_OBJECT: usize = 256 << 20;

/// The same limit for all objects of one worker.
pub const MAX_GATED_PER_WORKER: usize = 512 << 20;

/// The charge of each departure at the gate besides its content: about the size of its queue entry.
pub(crate) const GATED_OVERHEAD: usize = 128;

/// Messages of one WebSocket that its object has not finished handling. Enough to keep an object busy while answers wait
/// for a sync of the disk.
pub const MAX_WEBSOCKET_IN_FLIGHT: usize = 64;

/// How long a message may wait for an overloaded object, or for one that cannot be made, before its WebSocket is closed:
/// as long as `block_concurrency_while` may make events wait.
pub const WEBSOCKET_DELIVERY_PATIENCE: Duration = Duration::from_secs(30);

/// How long a message larger than [`WEBSOCKET_TIGHT_BUFFER`], or the part of it that has arrived, may wait for memory,
/// unless `websocket.delivery_patience` is shorter. The message itself takes some of the scarce memory, and a client
/// that has disconnected is not noticed until the next read.
pub(crate) const WEBSOCKET_MEMORY_PATIENCE: Duration = Duration::from_secs(2);

/// How often a WebSocket checks whether an overloaded worker accepts events again. Also the shortest wait before
/// another attempt when an object could not be created twice for a WebSocket's event; each later wait is as long as all
/// before it.
pub(crate) const WEBSOCKET_RETRY: Duration = Duration::from_millis(100);

/// Worker threads that a node may have.
pub const MAX_WORKERS: usize = 1_024;

/// Worker threads that a node adds for large objects that have no files yet after a lazy restore.
pub const MAX_COLD_WORKERS: usize = 2;

/// The wait before a failed alarm's first retry; it doubles each time. The same as Cloudflare's.
pub(crate) const ALARM_BACKOFF: Duration = Duration::from_secs(2);

/// The longest wait between retries of an alarm unless its class sets another: an hour, so that work that failed for a
/// day and succeeds again is not a day late, and work that never succeeds costs little.
pub(crate) const ALARM_MAX_BACKOFF: Duration = Duration::from_hours(1);

/// The largest extension of a wait before a retry, as a fraction, so that alarms that failed together spread out.
pub(crate) const ALARM_JITTER: f64 = 0.25;

/// The longest wait for an alarm after attempts that the process did not survive. An alarm that crashes the process
/// each time then costs four restarts a day; an alarm that merely ran at the same time is at most this late.
pub const ALARM_CRASH_MAX_BACKOFF: Duration = Duration::from_hours(6);

/// Alarms that were firing when a process ended and that may run again at the same time. If the process ends again, the
/// cause is one of these few; and 512 such alarms that take half a minute each finish within a quarter of an hour.
pub const ALARM_SUSPECTS_TOGETHER: usize = 16;

/// A suspect that runs for longer than this no longer holds up others, so that work that takes minutes does not block
/// everything queued after it.
pub const ALARM_SUSPECT_PATIENCE: Duration = Duration::from_mins(1);

/// The longest wait between retries of a component's alarm, which is never given up: its work must not end because of a
/// transient fault.
pub(crate) const COMPONENT_ALARM_MAX_BACKOFF: Duration = Duration::from_mins(1);

/// The latest time that an alarm may be set to: the end of the year 9999, the last that RFC 3339 can write.
pub const MAX_ALARM_UNIX_MILLIS: i64 = 253_402_300_799_999;

/// Bytes of a failed handler's error message that are kept with its alarm.
pub const MAX_ALARM_ERROR_BYTES: usize = 512;

/// Alarms of one class that may fire at the same time on one worker, from the firing to the end of the handler; the
/// others wait in the index. Even with two log groups for each, at one millisecond per group, a hundred thousand alarms
/// can fire in a second.
pub const MAX_ALARMS_PER_WORKER: usize = 256;

/// The scheduler looks at the wall clock at least this often while an alarm waits, in case the clock was set.
pub(crate) const ALARM_RECHECK: Duration = Duration::from_secs(5);

/// How long an alarm waits that could not even begin, because the disk is full or its object is damaged.
pub(crate) const ALARM_TROUBLE_PAUSE: Duration = Duration::from_secs(5);

/// An object that was activated by its alarm and had nothing else to do is evicted after this time: a million alarms
/// that are due together must not fill memory with objects that are not called.
pub(crate) const ALARM_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Objects in one list of alarms.
pub const MAX_LISTED_ALARMS: usize = 1_000;

/// Alarms of one object in such a list: the earliest ones.
pub const MAX_LISTED_ALARMS_OF_OBJECT: usize = 100;

/// How long the objects of a thread are told that they [leave memory](crate::DurableObject::leaving) because the program
/// stops. Those that are left are not told.
pub const LEAVING_LIMIT: Duration = Duration::from_secs(5);

/// When an object is looked at again that was told that it leaves memory, and whose last writes were not durable yet; then after
/// twice the time each time.
pub const LEAVING_PAUSE: Duration = Duration::from_millis(10);

/// How long an object of a rehearsal stays in memory: each is made once, and not called again.
pub(crate) const REHEARSAL_IDLE: Duration = Duration::from_millis(100);

/// Turns after which objects that keep themselves busy at a standing clock are taken for objects that never rest
/// ([`Node::settle`](crate::Node::settle)): a test's objects have thousands at most.
pub const SETTLE_TURNS: u64 = 20_000;

/// The machine's time after which [`Node::settle`](crate::Node::settle) gives up: no test server takes this long.
pub const SETTLE_PATIENCE: Duration = Duration::from_secs(10);

/// Objects that the error of [`Node::settle`](crate::Node::settle) names.
pub const MAX_NAMED_BUSY: usize = 10;

const _: () = {
    assert!(MAX_QUEUED_PER_OBJECT <= MAX_QUEUED_PER_WORKER);
    assert!(MAX_GATED_PER_OBJECT <= MAX_GATED_PER_WORKER);
    assert!(MAX_RUNNING_PER_OBJECT <= MAX_QUEUED_PER_WORKER);
    assert!(MAX_BACKGROUND_PER_OBJECT <= MAX_QUEUED_PER_WORKER);
    assert!(WATCHDOG_INTERVAL.as_secs() < STUCK_POLL.as_secs());
    assert!(WATCHDOG_INTERVAL.as_secs() < COMMIT_STALL.as_secs());
    assert!(BLOCK_CONCURRENCY_LIMIT.as_secs() < EVENT_TIMEOUT.as_secs());
    assert!(ALARM_SUSPECTS_TOGETHER <= MAX_ALARMS_PER_WORKER);
    assert!(ALARM_MAX_BACKOFF.as_secs() <= ALARM_CRASH_MAX_BACKOFF.as_secs());
};
