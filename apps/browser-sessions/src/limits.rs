//! Every bound of the program, in one place, with the source of its number.

use std::time::Duration;

/// The sizes of a screenshot, unless the client names others: three common desktops and two common phones.
pub const SIZES: [(u32, u32); 5] = [
    (1920, 1080),
    (1366, 768),
    (1536, 864),
    (360, 640),
    (414, 896),
];

/// Sizes in one request.
pub const MAX_SIZES: usize = 10;

/// The smallest width and height: below it, Chromium's layouts are useless.
pub const MIN_SIDE: u32 = 100;

/// The greatest width and height: a 4K display.
pub const MAX_SIDE: u32 = 3_840;

/// The most pixels of a picture: a 4K display. Every picture of this many fits [`MAX_MESSAGE`].
pub const MAX_PIXELS: u32 = 3_840 * 2_160;

/// A viewport narrower than this is laid out as a phone's.
pub const PHONE_WIDTH: u32 = 600;

/// Quality of a JPEG, unless the client says otherwise.
pub const QUALITY: u8 = 80;

/// The longest wait between a page's load and its pictures that a client may ask for.
pub const MAX_DELAY_MILLIS: u64 = 10_000;

/// Bytes of an address: what browsers and servers agree on.
pub const MAX_URL_BYTES: usize = 8 << 10;

/// Characters of a page's title that are kept.
pub const MAX_TITLE: usize = 200;

/// Characters of a session's name: it fits a path, a log line and an object's name.
pub const MAX_SESSION: usize = 64;

/// Screenshots are stored under the time, rounded to this many milliseconds: five minutes.
pub const KEY_ROUNDING: i64 = 5 * 60 * 1_000;

/// Screenshots of different pages in one session within [`KEY_ROUNDING`].
pub const MAX_KEYS: u32 = 100;

/// Screenshots that a session stores.
pub const MAX_SHOTS: i64 = 10_000;

/// Failed screenshots that a session remembers; older ones are dropped.
pub const MAX_FAILED: i64 = 50;

/// Screenshots in one page of a list.
pub const MAX_LIST: i64 = 100;

/// Screenshots in a page of a list, unless the client says otherwise.
pub const LIST: i64 = 24;

/// How long a browser stays open without a request, unless the program is told otherwise.
pub const IDLE: Duration = Duration::from_mins(1);

/// How often a session's alarm adds up the time that its browser has been idle.
pub const TICK: Duration = Duration::from_secs(10);

/// Browsers at a time, unless the program is told otherwise: each takes some 300 MiB.
pub const MAX_BROWSERS: usize = 4;

/// Pages at a time in one browser, unless the program is told otherwise.
pub const MAX_PAGES: usize = 4;

/// Requests that wait for a browser or for a page of it. More are refused at once.
pub const MAX_WAITING: usize = 64;

/// The longest that a request waits for a browser, and for a page of it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Visits of a page at a time: each size is one. They wait for the network together, and a site is not overrun.
pub const VISITS: usize = 3;

/// The time of one page, from its first visit to its last picture, unless the program is told otherwise.
pub const PAGE_TIME: Duration = Duration::from_secs(30);

/// Bytes that one visit of a page may load, unless the program is told otherwise.
pub const PAGE_BYTES: u64 = 64 << 20;

/// Bytes of all pictures of one screenshot: they are in memory until they are stored.
pub const PICTURE_BYTES: usize = 32 << 20;

/// The longest wait for fonts and images before a picture.
pub const SETTLE: Duration = Duration::from_secs(1);

/// Steps in one request.
pub const MAX_STEPS: usize = 30;

/// Pictures that steps take, besides the one in the end.
pub const MAX_STEP_PICTURES: usize = 10;

/// Characters of the name of a picture that a step takes.
pub const MAX_STEP_NAME: usize = 32;

/// Bytes of a CSS selector.
pub const MAX_SELECTOR: usize = 500;

/// Bytes of a text that a step types.
pub const MAX_TYPED: usize = 4 << 10;

/// Characters of all texts that the steps of a request read: they are stored with the screenshot.
pub const MAX_TEXT: usize = 16 << 10;

/// The longest that a step waits for its element, and for the page's reaction to it.
pub const STEP_TIME: Duration = Duration::from_secs(10);

/// How often a step looks for its element, and how long a page has to report that a click leads elsewhere.
pub const STEP_TICK: Duration = Duration::from_millis(50);

/// Bytes of a PDF in one message of a browser.
pub const PDF_PIECE: usize = 1 << 20;

/// The longest that a browser takes to start.
pub const LAUNCH_TIME: Duration = Duration::from_secs(20);

/// The longest that a browser takes to close a page. One that takes longer hangs, and is killed.
pub const CLOSE_TIME: Duration = Duration::from_secs(5);

/// Bytes of one message of a browser. A picture of [`MAX_PIXELS`] in base64 is smaller, even if nothing of it can be compressed.
pub const MAX_MESSAGE: usize = 64 << 20;

/// Commands that wait to be written to a browser.
pub const COMMANDS: usize = 64;

/// Events of a page that wait to be handled.
pub const EVENTS: usize = 64;

/// Connections that one page has at a time. More wait.
pub const CONNECTIONS: usize = 128;

/// The longest time for a connection to name its destination and to reach it.
pub const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Refused connections of a page that are reported.
pub const MAX_REFUSED: usize = 20;

/// Bytes of a browser's standard error that are kept to explain why it did not start.
pub const STDERR_BYTES: usize = 4 << 10;

/// Memory of a browser in MiB, for all its processes and pages, unless the program is told otherwise. Each of [`MAX_PAGES`] may have
/// [`VISITS`], and a visit of an ordinary page takes 30 to 80 MiB.
pub const BROWSER_MEMORY_MIB: u64 = 1_024;

/// How often the memory of browsers is added up.
pub const MEMORY_TICK: Duration = Duration::from_millis(100);

/// Bytes that a browser may take beyond its bound: what its processes can write between two looks. It is also what the largest process
/// of an ordinary page sets aside without writing to it (700 MB), so the kernel's bound for one process is never in its way.
pub const MEMORY_MARGIN: u64 = 768 << 20;

/// JavaScript heap of a page or of a worker of it, in MiB.
pub const SCRIPT_HEAP_MIB: u32 = 512;

/// Bytes of a browser's cache on disk.
pub const CACHE_BYTES: u64 = 64 << 20;

/// The longest path of a directory in which Chromium can keep its sockets: with their names, it fits the address of one.
pub const SOCKET_DIRECTORY: usize = 62;

/// The longest that stored pictures take to arrive at the store.
pub const STORE_TIME: Duration = Duration::from_mins(1);

/// Time to connect to the store: the default of `object_store`.
pub const STORE_CONNECT: Duration = Duration::from_secs(5);

/// Time for the store to answer a request, and to send more of an answer: also its default.
pub const STORE_ANSWER: Duration = Duration::from_secs(30);

/// The longest time of a request whose page has this time: all its waits, and all of them once more if the browser
/// crashes.
pub fn request_time(page_time: Duration) -> Duration {
    (PATIENCE + LAUNCH_TIME + page_time + CLOSE_TIME) * 2 + STORE_TIME
}
