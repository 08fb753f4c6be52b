//! Every bound of the runtime, in one place, with the source of its number.
//!
//! Limits of the database itself (key, value, SQL text…) are `abide_storage::limits`.

use std::time::Duration;

/// Longest name of an object, in bytes: as a key of its storage.
pub const MAX_NAME_BYTES: usize = 2_048;

/// The first digits of an id name an object from so many on: fewer are a slip.
pub const MIN_ID_PREFIX: usize = 4;

/// Encoded arguments, or the encoded result, of one RPC call. The field's documented RPC message limit.
pub const MAX_RPC_BYTES: usize = 32 << 20;

/// Events that wait at one object's closed gate, beyond which callers are told that it is overloaded.
/// Ten times what a busy object starts in the time in which a person gives up is of no use to anybody.
pub const MAX_QUEUED_PER_OBJECT: usize = 1_024;

/// Handlers of one object that may be suspended at an `await` at the same time; further events wait in
/// the object's queue. Bounds memory when a handler waits for a slow service.
pub const MAX_RUNNING_PER_OBJECT: usize = 4_096;

/// Tasks of one object beside its handlers: `wait_until`, `block_concurrency_while` and streamed bodies. Bounds
/// memory as the limit on handlers does.
pub const MAX_BACKGROUND_PER_OBJECT: usize = 4_096;

/// Seconds after which a client of an overloaded object is told to come back (`Retry-After`).
pub const RETRY_AFTER_SECONDS: u64 = 1;

/// Events sent to one worker and not answered yet, beyond which callers are told that it is overloaded.
/// At 1 KiB an event this is 64 MiB a worker.
pub const MAX_QUEUED_PER_WORKER: usize = 65_536;

/// What an event takes of the memory budget besides its content: its place in queues, the way back, the handler's future.
pub const EVENT_BYTES: usize = 1 << 10;

/// What an object in memory takes of the budget besides its connection: the instance, and what the runtime knows of it.
/// What a class keeps in its own fields is not measured.
pub const INSTANCE_BYTES: u64 = 4 << 10;

/// Objects in memory may take one part of so many of the memory budget, each worker's an equal share of it; beyond it the
/// least recently used leave before their idle time. The rest is for what is on its way.
pub const OBJECTS_SHARE: u64 = 2;

/// When idle objects leave because memory is short, so many eighths of what there was stay: enough leave at once that not
/// every new object makes a worker look at all of them.
pub const EVICTION_EIGHTHS: u64 = 7;

/// How long a worker that has looked for idle objects in vain does not look again.
pub const EVICTION_PAUSE: Duration = Duration::from_millis(5);

/// What waits at one worker's output gate for sockets takes one part of so many of the memory budget at most.
pub const GATED_SHARE: u64 = 8;

/// What a WebSocket takes of the memory budget besides its messages: both ends, the connection's task, tags.
pub const SOCKET_BYTES: u64 = 4 << 10;

/// While the memory budget is used up, a WebSocket whose reader has more than this before it is too slow, and of a message
/// that is arriving no more than this is read. It is what one read of a fast connection brings.
pub const WEBSOCKET_TIGHT_BUFFER: usize = 16 << 10;

/// Pieces of content from this size on are counted by themselves until nobody has them; smaller ones with their event or
/// frame.
pub const COUNTED_CONTENT: usize = 1 << 10;

/// How often a streamed body looks whether there is memory again. Meanwhile one frame of it at a time is on its way.
pub const BODY_RETRY: Duration = Duration::from_millis(10);

/// The longest that an event from outside should wait for its worker, as far as the queue's length and what events have
/// lately taken can tell; beyond it callers are told at once that the worker is overloaded. About what a person waits before
/// doing something else (J. Nielsen, Usability Engineering, 1993, chapter 5): work that is begun later is mostly done for
/// nobody, at the expense of those who still wait.
pub const MAX_QUEUE_TIME: Duration = Duration::from_secs(1);

/// How long `block_concurrency_while` may keep the gate closed before the object is reset (the field's 30 s).
pub const BLOCK_CONCURRENCY_LIMIT: Duration = Duration::from_secs(30);

/// An object with nothing running or waiting leaves memory after this time (the field's 10 s).
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Calls in a circle through `block_concurrency_while` that are found at once; a longer circle ends at the block's
/// time limit.
pub const MAX_CALL_CHAIN: usize = 64;

/// A handler that has not finished after this time resets its object.
pub const EVENT_TIMEOUT: Duration = Duration::from_mins(5);

/// Background work ([`State::wait_until`](crate::State::wait_until)) that has not ended after this time is dropped
/// (the field's limit on the wall-clock time of work that no client waits for, 15 minutes).
pub const BACKGROUND_TIMEOUT: Duration = Duration::from_mins(15);

/// Longer time limits than this count as this: ten years, which nobody waits for.
pub const FOR_EVER: Duration = Duration::from_hours(10 * 365 * 24);

/// A single poll (code between two awaits) that runs longer than this blocks every object of its worker;
/// the watchdog reports it.
pub const STUCK_POLL: Duration = Duration::from_secs(5);

/// Commits that wait longer than this, for room or for the disk, are stalled: the watchdog reports it, and the node is not
/// ready. No disk in order takes so long for a sync, and no checkpoint for a part of its files.
pub const COMMIT_STALL: Duration = Duration::from_secs(5);

/// How often the watchdog looks at the workers.
pub const WATCHDOG_INTERVAL: Duration = Duration::from_secs(1);

/// A body that is ready at once is sent in one piece up to this size; a longer one is streamed.
pub const MAX_BUFFERED_BODY: usize = 1 << 20;

/// Frames of a streamed body between the object and a slow reader.
pub const BODY_CHANNEL_FRAMES: usize = 16;

/// A reader that takes nothing of a streamed body for this time, while frames wait for it, is given up (the
/// usual time limit of HTTP proxies between two reads).
pub const BODY_STALL_LIMIT: Duration = Duration::from_mins(1);

/// Events that a worker takes from its channel before it lets suspended handlers run.
pub const WORKER_BATCH: usize = 64;

/// Longest message of a WebSocket, in either direction (the field's 32 MiB).
pub const MAX_WEBSOCKET_MESSAGE: usize = 32 << 20;

/// WebSockets that one object may have at a time (the field's number).
pub const MAX_WEBSOCKETS_PER_OBJECT: usize = 32_768;

/// Tags of one WebSocket (the field's 10).
pub const MAX_TAGS: usize = 10;

/// Bytes of one tag (the field's 256 characters).
pub const MAX_TAG: usize = 256;

/// A WebSocket's attachment as CBOR: the field's newer 16 KiB.
pub const MAX_ATTACHMENT: usize = 16 << 10;

/// Each side of a WebSocket auto-response (the field's 2,048).
pub const MAX_AUTO_RESPONSE: usize = 2_048;

/// Bytes of the reason in a close frame: a control frame's 125 less two of the code (RFC 6455, section 5.5).
pub const MAX_CLOSE_REASON: usize = 123;

/// What may wait for one reader of a WebSocket. Less than a second of a fast link; a reader that is behind by more will
/// not catch up.
pub const WEBSOCKET_SEND_BUFFER: usize = 1 << 20;

/// What each frame in a send buffer counts besides its content, so that many empty ones are bounded, too.
pub const WEBSOCKET_FRAME_OVERHEAD: usize = 64;

/// How many times its send buffer's size may wait for a reader for a moment: what an object sends at once, or what was
/// held while the disk was slow, arrives faster than any reader reads.
pub const WEBSOCKET_BURST: usize = 16;

/// How long more than its send buffer's size may wait for a reader. A healthy one reads the default burst, 16 MiB, in this
/// time over a 13 Mbit/s line.
pub const WEBSOCKET_BURST_PATIENCE: Duration = Duration::from_secs(10);

/// What one object may have sent to its WebSockets that waits at its output gate, in bytes; each copy of a broadcast counts.
/// A message of 10 KiB to 20,000 sockets fits.
pub const MAX_GATED_PER_OBJECT: usize = 256 << 20;

/// The same of all objects of one worker.
pub const MAX_GATED_PER_WORKER: usize = 512 << 20;

/// What each departure counts at the gate besides its content: about what it takes in the queue.
pub const GATED_OVERHEAD: usize = 128;

/// Messages of one WebSocket that its object has not finished handling. Enough to keep an object busy while answers wait
/// for a sync of the disk.
pub const MAX_WEBSOCKET_IN_FLIGHT: usize = 64;

/// How long a message may wait for an overloaded object, or for one that cannot be made, before its WebSocket is closed:
/// as long as `block_concurrency_while` may make events wait.
pub const WEBSOCKET_DELIVERY_PATIENCE: Duration = Duration::from_secs(30);

/// How long a message of more than [`WEBSOCKET_TIGHT_BUFFER`], or the part of it that has come, may wait for memory, unless
/// `websocket.delivery_patience` is shorter. It takes itself of what is short; a client that has gone is not noticed before
/// it is read from.
pub const WEBSOCKET_MEMORY_PATIENCE: Duration = Duration::from_secs(2);

/// How often a WebSocket looks whether an overloaded worker takes events again. Also the shortest wait before an object
/// that twice could not be made for a WebSocket's event is tried again; each later wait is as long as all before it.
pub const WEBSOCKET_RETRY: Duration = Duration::from_millis(100);

/// Worker threads that a node may have.
pub const MAX_WORKERS: usize = 1_024;

/// The wait before a failed alarm's first retry; it doubles each time. The field's.
pub const ALARM_BACKOFF: Duration = Duration::from_secs(2);

/// The longest wait between retries of an alarm unless its class says otherwise: an hour, so that what failed for a day and
/// works again is not a day late, and what never works costs nothing.
pub const ALARM_MAX_BACKOFF: Duration = Duration::from_hours(1);

/// How much longer a wait before a retry may be, as a share of it, so that alarms that failed together part.
pub const ALARM_JITTER: f64 = 0.25;

/// The longest wait for an alarm after attempts that the process did not survive. What ends the process each time it runs
/// costs a node four restarts a day then; what was only there each time is at most this late.
pub const ALARM_CRASH_MAX_BACKOFF: Duration = Duration::from_hours(6);

/// Alarms that were going off when a process ended and that go off again at the same time. If the process ends again, one of
/// so few has to be found; and 512 of them that take half a minute each are through in a quarter of an hour.
pub const ALARM_SUSPECTS_TOGETHER: usize = 16;

/// A suspect that runs for longer than this holds up no others: work that takes minutes is not kept from all that waits
/// behind it.
pub const ALARM_SUSPECT_PATIENCE: Duration = Duration::from_mins(1);

/// The longest wait between retries of a component's alarm, which is never given up: what it waits for must not end because of a
/// fault that passes.
pub const COMPONENT_ALARM_MAX_BACKOFF: Duration = Duration::from_mins(1);

/// The latest time that an alarm may be set to: the end of the year 9999, the last that RFC 3339 can write.
pub const MAX_ALARM_UNIX_MILLIS: i64 = 253_402_300_799_999;

/// Bytes of a failed handler's message that are kept with its alarm.
pub const MAX_ALARM_ERROR_BYTES: usize = 512;

/// Alarms of one class that go off at a time on one worker, from the firing to the end of the handler; the others wait for
/// their turn in the index. Two groups of the log for each, a millisecond apiece, still let a hundred thousand go off in
/// a second.
pub const MAX_ALARMS_PER_WORKER: usize = 256;

/// The scheduler looks at the wall clock at least this often while an alarm waits, in case the clock was set.
pub const ALARM_RECHECK: Duration = Duration::from_secs(5);

/// How long an alarm waits that could not even be begun, because the disk is full or its object is damaged.
pub const ALARM_TROUBLE_PAUSE: Duration = Duration::from_secs(5);

/// An object that came to life for its alarm and had nothing else to do leaves memory after this time: a million
/// alarms that are due together must not fill memory with objects that nobody calls.
pub const ALARM_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Objects in one list of alarms.
pub const MAX_LISTED_ALARMS: usize = 1_000;

/// Alarms of one object in such a list: the first ones.
pub const MAX_LISTED_ALARMS_OF_OBJECT: usize = 100;

/// How long an object of a rehearsal stays in memory: each is made once, and nobody calls it again.
pub const REHEARSAL_IDLE: Duration = Duration::from_millis(100);

/// Turns after which objects that keep themselves busy at a standing clock are taken for objects that never rest
/// ([`Node::settle`](crate::Node::settle)): a test's objects have thousands at most.
pub const SETTLE_TURNS: u64 = 100_000;

/// The machine's time after which [`Node::settle`](crate::Node::settle) gives up: no double of a server takes so long.
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
