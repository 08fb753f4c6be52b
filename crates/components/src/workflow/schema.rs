//! The tables of an instance, in its object's database. `docs/format.md` documents them.

use abide::{Result, Storage};

use abide_component::tables;

/// The version of the tables, kept in `workflow_instance`.
pub(super) const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE workflow_instance (
        tables       INTEGER NOT NULL,
        workflow     TEXT NOT NULL,
        id           TEXT NOT NULL,
        status       TEXT NOT NULL,
        run          INTEGER NOT NULL DEFAULT 1,
        cancel       TEXT,
        canceled_seq INTEGER,
        error        TEXT,
        parent       TEXT,
        created_at   INTEGER NOT NULL,
        updated_at   INTEGER NOT NULL,
        finished_at  INTEGER,
        version      INTEGER NOT NULL,
        told         INTEGER NOT NULL DEFAULT 0,
        began_at     INTEGER NOT NULL,
        set_back     INTEGER NOT NULL
    );
    -- Apart, so that a change of the instance does not write them anew.
    CREATE TABLE workflow_values (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

    CREATE TABLE workflow_notices (
        -- Never used again: what was sent is not taken for what has taken its place.
        id       INTEGER PRIMARY KEY AUTOINCREMENT,
        kind     TEXT NOT NULL,
        target   TEXT NOT NULL,
        payload  TEXT NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        due      INTEGER NOT NULL,
        UNIQUE (kind, target)
    );
    CREATE INDEX workflow_notice_due ON workflow_notices (due);

    CREATE TABLE workflow_steps (
        id          INTEGER PRIMARY KEY,
        name        TEXT NOT NULL,
        -- Which use of the name it is, from 1.
        occurrence  INTEGER NOT NULL,
        kind        TEXT NOT NULL,
        shielded    INTEGER NOT NULL,
        asked       INTEGER NOT NULL,
        state       TEXT NOT NULL,
        attempts    INTEGER NOT NULL DEFAULT 0,
        key_run     INTEGER NOT NULL,
        due         INTEGER,
        -- True if `due` is a time that the program named, and not the end of a wait.
        fixed       INTEGER NOT NULL DEFAULT 0,
        seq         INTEGER,
        event       INTEGER,
        child       TEXT,
        child_of    TEXT,
        output      TEXT,
        error       TEXT,
        asked_at    INTEGER NOT NULL,
        started_at  INTEGER,
        finished_at INTEGER,
        UNIQUE (name, occurrence)
    );
    CREATE UNIQUE INDEX workflow_step_seq ON workflow_steps (seq) WHERE seq IS NOT NULL;
    CREATE INDEX workflow_step_child ON workflow_steps (child) WHERE child IS NOT NULL;

    CREATE TABLE workflow_events (
        id      INTEGER PRIMARY KEY AUTOINCREMENT,
        kind    TEXT NOT NULL,
        name    TEXT NOT NULL,
        payload TEXT NOT NULL,
        at      INTEGER NOT NULL,
        -- The step that has taken it.
        step    INTEGER
    );
    CREATE INDEX workflow_event_waiting ON workflow_events (kind, name, id) WHERE step IS NULL;

    -- Runs whose idempotency keys steps keep although the instance was restarted.
    CREATE TABLE workflow_keys (
        name       TEXT NOT NULL,
        occurrence INTEGER NOT NULL,
        run        INTEGER NOT NULL,
        PRIMARY KEY (name, occurrence)
    ) WITHOUT ROWID;

    -- Which version of a part of the program an instance goes by.
    CREATE TABLE workflow_versions (
        change  TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        asked   INTEGER NOT NULL
    ) WITHOUT ROWID;
";

/// True if the object has the tables.
///
/// # Errors
/// If they have another version.
pub(super) fn exists(storage: &Storage) -> Result<bool> {
    let sql = storage.sql();
    if !tables::exists(&sql, "workflow_instance")? {
        return Ok(false);
    }
    let version = sql.exec("SELECT tables FROM workflow_instance", ())?;
    tables::check("workflow", version.one()?, VERSION)?;
    Ok(true)
}

/// Creates the tables.
pub(super) fn create(storage: &Storage) -> Result<()> {
    storage.sql().exec(TABLES, ()).map(drop)
}
