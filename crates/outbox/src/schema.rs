//! The outbox's tables, in its object's database. `docs/format.md` documents them.

use abide::{Result, Storage};
use abide_component::tables;

/// The version of the tables, kept in `outbox_meta`.
const VERSION: i64 = 1;

pub(super) const META: &str = "outbox_meta";

/// The columns that messages and dead letters share: a row moves from one table to the other unchanged.
pub(super) const COLUMNS: &str = "kind, status, destination, summary, idempotency_key, generation, dedup_key, \
     dedup_hash, ordering_key, priority, schedule, not_before, deadline, blocked, next_at, attempts, first_attempt_at, unknown, \
     operation, operation_since, polls, poll_errors, last_error, created_at, updated_at, finished_at, changes, fan_out, \
     since, origin, alone, failing_since";

const DEFINITIONS: &str = "
    kind             TEXT NOT NULL,
    status           TEXT NOT NULL,
    destination      TEXT NOT NULL,
    summary          TEXT NOT NULL,
    idempotency_key  TEXT NOT NULL,
    generation       INTEGER NOT NULL DEFAULT 0,
    dedup_key        TEXT,
    dedup_hash       BLOB,
    ordering_key     TEXT,
    priority         INTEGER NOT NULL,
    schedule         TEXT,
    not_before       INTEGER,
    deadline         INTEGER,
    blocked          INTEGER NOT NULL,
    next_at          INTEGER,
    attempts         INTEGER NOT NULL DEFAULT 0,
    first_attempt_at INTEGER,
    unknown          INTEGER NOT NULL DEFAULT 0,
    operation        TEXT,
    operation_since  INTEGER,
    polls            INTEGER NOT NULL DEFAULT 0,
    poll_errors      INTEGER NOT NULL DEFAULT 0,
    last_error       TEXT,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    finished_at      INTEGER,
    changes          INTEGER NOT NULL DEFAULT 0,
    fan_out          INTEGER,
    since            INTEGER NOT NULL DEFAULT 0,
    origin           TEXT,
    alone            INTEGER NOT NULL DEFAULT 0,
    failing_since    INTEGER
";

const TABLES: &str = "
    -- Of messages that wait for an attempt or a poll: one in flight has no next time.
    CREATE INDEX outbox_deadline ON outbox_messages (deadline) WHERE deadline IS NOT NULL AND next_at IS NOT NULL;
    CREATE INDEX outbox_order ON outbox_messages (ordering_key, blocked, id)
        WHERE ordering_key IS NOT NULL AND finished_at IS NULL;
    CREATE UNIQUE INDEX outbox_dedup ON outbox_messages (dedup_key) WHERE dedup_key IS NOT NULL;
    CREATE INDEX outbox_finished ON outbox_messages (finished_at) WHERE finished_at IS NOT NULL;

    CREATE INDEX outbox_dead_kind ON outbox_dead_letters (kind, id);
    CREATE INDEX outbox_dead_destination ON outbox_dead_letters (destination, id);
    CREATE INDEX outbox_dead_both ON outbox_dead_letters (destination, kind, id);
    CREATE INDEX outbox_dead_order ON outbox_dead_letters (ordering_key, id) WHERE ordering_key IS NOT NULL;
    CREATE UNIQUE INDEX outbox_dead_dedup ON outbox_dead_letters (dedup_key) WHERE dedup_key IS NOT NULL;

    -- Apart, so that a change of a message does not write its payload anew.
    CREATE TABLE outbox_payloads (
        message INTEGER PRIMARY KEY,
        payload TEXT NOT NULL
    );

    CREATE TABLE outbox_history (
        message INTEGER NOT NULL,
        seq     INTEGER NOT NULL,
        at      INTEGER NOT NULL,
        event   TEXT NOT NULL,
        detail  TEXT,
        PRIMARY KEY (message, seq)
    ) WITHOUT ROWID;

    CREATE TABLE outbox_destinations (
        destination  TEXT PRIMARY KEY,
        due_at       INTEGER,
        full_at      INTEGER NOT NULL DEFAULT 0,
        paused_until INTEGER,
        open_until   INTEGER,
        turn         INTEGER NOT NULL DEFAULT 0,
        failures     INTEGER NOT NULL DEFAULT 0,
        opened       INTEGER NOT NULL DEFAULT 0,
        last_error   TEXT,
        served       INTEGER NOT NULL DEFAULT 0,
        throttled    INTEGER NOT NULL DEFAULT 0,
        refused      INTEGER NOT NULL DEFAULT 0,
        refused_since INTEGER NOT NULL DEFAULT 0,
        spacing      INTEGER,
        ramp_since   INTEGER NOT NULL DEFAULT 0,
        ramp_unit    INTEGER NOT NULL DEFAULT 0,
        origin       TEXT,
        heard        INTEGER
    ) WITHOUT ROWID;
    CREATE INDEX outbox_destination_due ON outbox_destinations (due_at, turn) WHERE due_at IS NOT NULL;
    CREATE INDEX outbox_destination_trouble ON outbox_destinations (destination)
        WHERE failures > 0 OR paused_until IS NOT NULL;

    CREATE TABLE outbox_fan_outs (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        name       TEXT NOT NULL,
        command    TEXT NOT NULL,
        status     TEXT NOT NULL,
        after      TEXT,
        made       INTEGER NOT NULL DEFAULT 0,
        error      TEXT,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL
    );
    CREATE INDEX outbox_fan_out_running ON outbox_fan_outs (id) WHERE status = 'running';
    CREATE INDEX outbox_fan_out_ended ON outbox_fan_outs (updated_at) WHERE status IN ('done', 'canceled');

    CREATE TABLE outbox_callbacks (
        message INTEGER PRIMARY KEY,
        kind    TEXT NOT NULL,
        sent    INTEGER NOT NULL,
        ended   TEXT NOT NULL,
        tries   INTEGER NOT NULL,
        next_at INTEGER,
        error   TEXT NOT NULL
    );
    CREATE INDEX outbox_callback_due ON outbox_callbacks (next_at, message);

    CREATE TABLE outbox_meta (
        version   INTEGER NOT NULL,
        full_at   INTEGER NOT NULL DEFAULT 0,
        next_tick INTEGER NOT NULL DEFAULT 0,
        polls_left INTEGER NOT NULL DEFAULT 0,
        set_back INTEGER NOT NULL DEFAULT 0,
        go_on     INTEGER NOT NULL DEFAULT 0,
        log       INTEGER NOT NULL DEFAULT 0,
        queued    INTEGER NOT NULL DEFAULT 0,
        sending   INTEGER NOT NULL DEFAULT 0,
        sent      INTEGER NOT NULL DEFAULT 0,
        failed    INTEGER NOT NULL DEFAULT 0,
        canceled  INTEGER NOT NULL DEFAULT 0,
        discarded INTEGER NOT NULL DEFAULT 0,
        failing   INTEGER NOT NULL DEFAULT 0
    );
";

/// Statements that need one of the partial indexes name it (`INDEXED BY`): by default SQLite prefers all rows of a
/// status, however many there are, to a partial index.
const INDEXES: &str = "
    -- Due first attempts, and due repetitions, of a destination, in their order.
    CREATE INDEX outbox_first ON outbox_messages (destination, priority, next_at, id)
        WHERE status = 'queued' AND blocked = 0 AND alone = 0 AND attempts = 0;
    CREATE INDEX outbox_again ON outbox_messages (destination, priority, next_at, id)
        WHERE status = 'queued' AND blocked = 0 AND alone = 0 AND attempts > 0;
    -- What is to be tried, or asked about, alone.
    CREATE INDEX outbox_alone ON outbox_messages (next_at, id) WHERE alone = 1 AND blocked = 0 AND next_at IS NOT NULL;
    CREATE INDEX outbox_failing ON outbox_messages (id) WHERE failing_since IS NOT NULL;
    CREATE INDEX outbox_destination_open ON outbox_destinations (destination) WHERE opened > 0;
    CREATE INDEX outbox_destination_idle ON outbox_destinations (full_at) WHERE due_at IS NULL;

    -- Beginning and finishing an attempt changes as few of these as possible.
    CREATE INDEX outbox_status ON outbox_messages (status, id) WHERE status <> 'sending';
    -- Attempts and polls that are on their way have no next time.
    CREATE INDEX outbox_in_flight ON outbox_messages (id) WHERE status = 'sending' AND next_at IS NULL;
    -- Operations that are to be asked about, in the order in which they are due, and in that in which they were enqueued.
    CREATE INDEX outbox_poll ON outbox_messages (next_at) WHERE status = 'sending' AND next_at IS NOT NULL;
    CREATE INDEX outbox_operation ON outbox_messages (id) WHERE status = 'sending' AND next_at IS NOT NULL;
";

/// True if the object has the tables.
pub(super) fn exists(storage: &Storage) -> Result<bool> {
    tables::exists(&storage.sql(), META)
}

/// Creates the tables if the object has none.
pub(super) fn prepare(storage: &Storage) -> Result<()> {
    tables::prepare_waits(storage, "outbox", META, VERSION, |sql| {
        for (table, id) in [
            ("outbox_messages", "INTEGER PRIMARY KEY AUTOINCREMENT"),
            ("outbox_dead_letters", "INTEGER PRIMARY KEY"),
        ] {
            sql.exec(&format!("CREATE TABLE {table} (id {id},{DEFINITIONS})"), ())?;
        }
        sql.exec(TABLES, ())?;
        sql.exec(INDEXES, ()).map(drop)
    })
}
