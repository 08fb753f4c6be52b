//! The schedule's tables, in its object's database. `docs/format.md` documents them.

use abide::{Ctx, Result};

use abide_component::tables::{self, TablesSql};

/// The version of the tables, kept in `schedule_meta`.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE schedule_timers (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        name       TEXT NOT NULL UNIQUE,
        spec       TEXT NOT NULL,
        type       TEXT AS (spec ->> 'kind'),
        metadata   TEXT AS (spec ->> 'metadata'),
        generation INTEGER NOT NULL DEFAULT 0,
        -- The object and the timeline on which it was set like this: keys of occurrences contain it.
        source     TEXT NOT NULL,
        -- The planned occurrence that has gone off last, and how often one had the time of an earlier one, or a time before it.
        last_due   INTEGER,
        repeated   INTEGER NOT NULL DEFAULT 0,
        anchor     INTEGER NOT NULL,
        due_at     INTEGER,
        fire_at    INTEGER,
        queued     INTEGER NOT NULL DEFAULT 0,
        -- 0 if the occurrence is the first that is due; otherwise the timer catches up, and this is its place in the line.
        turn       INTEGER NOT NULL DEFAULT 0,
        ended_at   INTEGER,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL
    );
    CREATE INDEX schedule_fire ON schedule_timers (fire_at) WHERE fire_at IS NOT NULL AND turn = 0;
    CREATE INDEX schedule_behind ON schedule_timers (turn) WHERE fire_at IS NOT NULL AND turn > 0;
    CREATE INDEX schedule_ended ON schedule_timers (ended_at) WHERE ended_at IS NOT NULL;

    CREATE TABLE schedule_runs (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        timer      INTEGER NOT NULL,
        generation INTEGER NOT NULL,
        due_at     INTEGER NOT NULL,
        -- Distinguishes occurrences of one time: the timer's `repeated`, or negative if it was asked for.
        number     INTEGER NOT NULL DEFAULT 0,
        state      TEXT NOT NULL,
        fire_at    INTEGER,
        -- True if it catches up.
        behind     INTEGER NOT NULL DEFAULT 0,
        -- True if nothing else is to be in flight with its next attempt, or is with the present one.
        alone      INTEGER NOT NULL DEFAULT 0,
        attempts   INTEGER NOT NULL DEFAULT 0,
        -- How many of the attempts were throttled and do not count.
        throttled  INTEGER NOT NULL DEFAULT 0,
        -- Since when each attempt was throttled; NULL if the newest was not.
        throttled_since INTEGER,
        last_error TEXT,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL
    );
    CREATE INDEX schedule_runs_fire ON schedule_runs (behind, fire_at, id) WHERE fire_at IS NOT NULL;
    CREATE INDEX schedule_runs_alone ON schedule_runs (fire_at, id) WHERE alone = 1;
    CREATE INDEX schedule_runs_timer ON schedule_runs (timer, state, id);
    CREATE INDEX schedule_runs_taken ON schedule_runs (id) WHERE state IN ('claimed', 'running');
    CREATE INDEX schedule_runs_failed ON schedule_runs (id) WHERE state = 'failed';

    CREATE TABLE schedule_history (
        id     INTEGER PRIMARY KEY AUTOINCREMENT,
        at     INTEGER NOT NULL,
        timer  TEXT NOT NULL,
        event  TEXT NOT NULL,
        due_at INTEGER,
        detail TEXT
    );
    CREATE INDEX schedule_history_timer ON schedule_history (timer, id);

    CREATE TABLE schedule_meta (
        version   INTEGER NOT NULL,
        set_back INTEGER NOT NULL DEFAULT 0,
        timers    INTEGER NOT NULL DEFAULT 0,
        ended     INTEGER NOT NULL DEFAULT 0
    );
    CREATE TRIGGER schedule_added AFTER INSERT ON schedule_timers BEGIN
        UPDATE schedule_meta SET timers = timers + 1;
    END;
    CREATE TRIGGER schedule_moved AFTER UPDATE OF ended_at ON schedule_timers
        WHEN (old.ended_at IS NULL) <> (new.ended_at IS NULL) BEGIN
        UPDATE schedule_meta SET
            timers = timers + iif(new.ended_at IS NULL, 1, -1),
            ended = ended + iif(new.ended_at IS NULL, -1, 1);
    END;
    CREATE TRIGGER schedule_removed AFTER DELETE ON schedule_timers BEGIN
        UPDATE schedule_meta SET
            timers = timers - (old.ended_at IS NULL),
            ended = ended - (old.ended_at IS NOT NULL);
    END;
";

const META: &str = "schedule_meta";

/// Creates the tables if the object has none.
pub(super) fn open(ctx: &Ctx) -> Result<TablesSql> {
    TablesSql::open(ctx, META, |storage| {
        tables::prepare_waits(storage, "schedule", META, VERSION, |sql| {
            sql.exec(TABLES, ()).map(drop)
        })
    })
}
