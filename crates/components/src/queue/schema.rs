//! A shard's tables. `docs/format.md` documents them.

use abide::{Result, Storage};

use abide_component::tables;

/// The version of the tables, kept in `queue_meta`.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE queue_messages (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        due_at     INTEGER NOT NULL,
        claim      INTEGER NOT NULL DEFAULT 0,
        -- True if nothing else of the shard was in flight with the newest claim.
        alone      INTEGER NOT NULL DEFAULT 0,
        attempts   INTEGER NOT NULL DEFAULT 0,
        bytes      INTEGER NOT NULL,
        key        TEXT,
        sent_at    INTEGER NOT NULL,
        last_error TEXT
    );
    CREATE INDEX queue_due ON queue_messages (due_at, id);

    -- Apart, so that a change of a message does not write its body anew.
    CREATE TABLE queue_bodies (
        message INTEGER PRIMARY KEY,
        body    TEXT NOT NULL
    );

    CREATE TABLE queue_dead_letters (
        id       INTEGER PRIMARY KEY,
        attempts INTEGER NOT NULL,
        bytes    INTEGER NOT NULL,
        key      TEXT,
        sent_at  INTEGER NOT NULL,
        died_at  INTEGER NOT NULL,
        error    TEXT NOT NULL
    );
    CREATE INDEX queue_died ON queue_dead_letters (died_at, id);

    CREATE TABLE queue_keys (
        key     TEXT PRIMARY KEY,
        hash    BLOB NOT NULL,
        message INTEGER NOT NULL,
        at      INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX queue_key_age ON queue_keys (at);

    CREATE TABLE queue_meta (
        version    INTEGER NOT NULL,
        messages   INTEGER NOT NULL DEFAULT 0,
        bytes      INTEGER NOT NULL DEFAULT 0,
        dead       INTEGER NOT NULL DEFAULT 0,
        keys       INTEGER NOT NULL DEFAULT 0,
        consumed   INTEGER NOT NULL DEFAULT 0,
        claims     INTEGER NOT NULL DEFAULT 0,
        set_back  INTEGER NOT NULL DEFAULT 0,
        failures   INTEGER NOT NULL DEFAULT 0,
        rest_until INTEGER NOT NULL DEFAULT 0,
        throttled  INTEGER NOT NULL DEFAULT 0,
        paused     INTEGER NOT NULL DEFAULT 0
    );
";

/// Creates the tables if the object has none.
pub(super) fn prepare(storage: &Storage) -> Result<()> {
    tables::prepare_waits(storage, "queue", "queue_meta", VERSION, |sql| {
        sql.exec(TABLES, ()).map(drop)
    })
}
