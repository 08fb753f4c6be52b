//! Every bound of documents, in one place, with the source of its number.

use std::time::Duration;

/// Bytes of a stored document, snapshot and updates together, unless the options say otherwise. In memory it takes about ten times as much.
pub const DEFAULT_MAX_DOCUMENT_BYTES: u64 = 16 << 20;

/// The most that either may be set to: a document goes to a newcomer in one message, which is at most 32 MiB.
pub const MAX_DOCUMENT_BYTES: u64 = 30 << 20;

/// Updates since the last snapshot that are merged into one, unless the options say otherwise: what a cold start has to apply.
pub const DEFAULT_COMPACT_AFTER_UPDATES: u64 = 1_000;

/// Bytes of updates since the last snapshot that are merged into one, if the snapshot has fewer. With more, as many bytes as it
/// has: so a byte is rewritten about once for each time that it is written.
pub const DEFAULT_COMPACT_AFTER_BYTES: u64 = 64 << 10;

/// Bytes of a row: an update is stored in as many as it needs. A row of the storage has at most 2 MiB.
pub(super) const PART_BYTES: usize = 1 << 20;

/// Awareness states of one connection. A page has one; with `BroadcastChannel` it passes on those of other tabs.
pub const MAX_STATES: usize = 8;

/// Bytes of the awareness states of one connection, as JSON: they are attached to its WebSocket.
pub const MAX_AWARENESS_BYTES: usize = 6 << 10;

/// Bytes of an awareness message: the states of several hundred clients.
pub const MAX_AWARENESS_MESSAGE_BYTES: usize = 4 << 20;

/// States in one awareness message. A client passes on what it heard of all others.
pub const MAX_ENTRIES: usize = 4_096;

/// Clients that have left whose clocks are remembered, so that an old message does not bring them back.
pub(super) const MAX_DEPARTED: usize = 1_024;

/// Nested levels of arrays and maps in one value of an update. `serde_json` stops at 128, too.
pub const MAX_DEPTH: usize = 128;

/// Bytes of a text message that is handed to the program.
pub const MAX_CUSTOM_BYTES: usize = 16 << 10;

/// Nested types in a document: the paragraphs of a rich text, the cards of a board. `yrs` recurses for each level
/// when it deletes, so this bounds the stack that an update may need.
pub const MAX_NESTED_TYPES: u64 = 100_000;

/// Bytes of stack for each of them, twice what a build without optimisation takes.
pub(super) const STACK_PER_LEVEL: usize = 4 << 10;

/// As many fit any thread's own stack.
pub(super) const LEVELS_WITHOUT_STACK: u64 = 200;

/// Passes over an update to find the part that can be applied. Two suffice for updates that a client sends out of
/// order.
pub(super) const MAX_CUT_ROUNDS: usize = 8;

/// Processor time that one update may take, besides [`TIME_PER_KIB`], unless the options say otherwise.
pub(crate) const UPDATE_TIME: Duration = Duration::from_millis(200);

/// Processor time that reading a stored document may take, besides [`TIME_PER_KIB`]. An update that would make it take more than
/// half of that is refused.
pub(crate) const LOAD_TIME: Duration = Duration::from_secs(2);

/// Processor time for each KiB of updates: ten times what `yrs` needs for text that was typed letter by letter.
pub(crate) const TIME_PER_KIB: Duration = Duration::from_millis(1);

/// Updates up to this are applied on the worker's thread: a change of several words. Longer ones are applied on another.
pub(super) const INLINE_UPDATE_BYTES: usize = 512;

/// When an update took longer than this on the worker's thread, the document's further updates are applied on
/// another.
pub(super) const INLINE_TIME: Duration = Duration::from_millis(5);

/// Documents up to this are read, and merged, on the worker's thread.
pub(super) const INLINE_DOCUMENT_BYTES: u64 = 16 << 10;

/// Blocks that are applied between two looks at the time.
pub(super) const PIECE_BLOCKS: usize = 512;

/// Deleted ranges that are applied between two looks at the time.
pub(super) const PIECE_DELETIONS: usize = 64;

/// Bytes in memory of each block of a document, besides its content: `yrs` 0.28 takes some 250.
pub(super) const BYTES_PER_BLOCK: u64 = 256;

/// Bytes in memory for each byte of an update that is being applied: a block of 8 bytes takes about 100 to check, and is then
/// decoded.
pub(super) const MEMORY_PER_BYTE: u64 = 16;
