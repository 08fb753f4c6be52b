-- An outbox as version 1 of its tables left it: 10 s after it was made, in the middle of everything.

CREATE TABLE outbox_messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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
    fan_out          INTEGER
);
CREATE TABLE outbox_dead_letters (
    id INTEGER PRIMARY KEY,
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
    fan_out          INTEGER
);

    -- Due attempts of a destination, in their order.
    CREATE INDEX outbox_due ON outbox_messages (destination, priority, next_at, id)
        WHERE status = 'queued' AND blocked = 0;
    -- Due polls; and attempts that are on their way, which have no next time.
    CREATE INDEX outbox_sending ON outbox_messages (next_at) WHERE status = 'sending';
    CREATE INDEX outbox_deadline ON outbox_messages (deadline) WHERE deadline IS NOT NULL AND status = 'queued';
    CREATE INDEX outbox_order ON outbox_messages (ordering_key, blocked, id)
        WHERE ordering_key IS NOT NULL AND finished_at IS NULL;
    CREATE UNIQUE INDEX outbox_dedup ON outbox_messages (dedup_key) WHERE dedup_key IS NOT NULL;
    CREATE INDEX outbox_status ON outbox_messages (status, id);
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
        last_error   TEXT
    ) WITHOUT ROWID;
    CREATE INDEX outbox_destination_due ON outbox_destinations (due_at, turn) WHERE due_at IS NOT NULL;
    CREATE INDEX outbox_destination_idle ON outbox_destinations (full_at)
        WHERE due_at IS NULL AND failures = 0 AND paused_until IS NULL;
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

    CREATE TABLE outbox_meta (
        version   INTEGER NOT NULL,
        full_at   INTEGER NOT NULL DEFAULT 0,
        next_tick INTEGER NOT NULL DEFAULT 0,
        last_seen INTEGER NOT NULL DEFAULT 0,
        own_alarm INTEGER,
        go_on     INTEGER NOT NULL DEFAULT 0,
        queued    INTEGER NOT NULL DEFAULT 0,
        sending   INTEGER NOT NULL DEFAULT 0,
        sent      INTEGER NOT NULL DEFAULT 0,
        failed    INTEGER NOT NULL DEFAULT 0,
        canceled  INTEGER NOT NULL DEFAULT 0,
        discarded INTEGER NOT NULL DEFAULT 0
    );

-- Never tried; tried and waiting; in an order; on its way; sent; later; and a dead letter.
INSERT INTO outbox_messages (id, kind, status, destination, summary, idempotency_key, priority, blocked, next_at, created_at, updated_at, changes)
    VALUES (1, 'note', 'queued', 'bob', 'm1', 'msg_00000000000000000000000000000001', 1, 0, 1767225590000, 1767225590000, 1767225590000, 1);
INSERT INTO outbox_messages (id, kind, status, destination, summary, idempotency_key, priority, blocked, next_at, created_at, updated_at, changes, attempts, first_attempt_at, last_error)
    VALUES (2, 'note', 'queued', 'bob', 'm2', 'msg_00000000000000000000000000000002', 1, 0, 1767225604000, 1767225590000, 1767225590000, 7, 3, 1767225592000, 'busy');
INSERT INTO outbox_messages (id, kind, status, destination, summary, idempotency_key, priority, blocked, next_at, created_at, updated_at, changes, ordering_key)
    VALUES (3, 'note', 'queued', 'bob', 'm3', 'msg_00000000000000000000000000000003', 1, 0, 1767225590000, 1767225590000, 1767225590000, 1, 'k');
INSERT INTO outbox_messages (id, kind, status, destination, summary, idempotency_key, priority, blocked, next_at, created_at, updated_at, changes, ordering_key)
    VALUES (4, 'note', 'queued', 'bob', 'm4', 'msg_00000000000000000000000000000004', 1, 1, 1767225590000, 1767225590000, 1767225590000, 1, 'k');
INSERT INTO outbox_messages (id, kind, status, destination, summary, idempotency_key, priority, blocked, next_at, created_at, updated_at, changes, attempts, first_attempt_at)
    VALUES (5, 'note', 'sending', 'bob', 'm5', 'msg_00000000000000000000000000000005', 1, 0, NULL, 1767225590000, 1767225590000, 2, 1, 1767225599000);
INSERT INTO outbox_messages (id, kind, status, destination, summary, idempotency_key, priority, blocked, next_at, created_at, updated_at, changes, attempts, finished_at)
    VALUES (6, 'note', 'sent', 'bob', 'm6', 'msg_00000000000000000000000000000006', 1, 0, NULL, 1767225590000, 1767225590000, 3, 1, 1767225591000);
INSERT INTO outbox_messages (id, kind, status, destination, summary, idempotency_key, priority, blocked, next_at, created_at, updated_at, changes, not_before)
    VALUES (7, 'note', 'queued', 'bob', 'm7', 'msg_00000000000000000000000000000007', 1, 0, 1767225605000, 1767225590000, 1767225590000, 1, 1767225605000);
INSERT INTO outbox_dead_letters (id, kind, status, destination, summary, idempotency_key, priority, blocked, next_at, created_at, updated_at, changes, attempts, finished_at, last_error)
    VALUES (8, 'note', 'failed', 'eve', 'm8', 'msg_00000000000000000000000000000008', 1, 0, NULL, 1767225590000, 1767225590000, 11, 5, 1767225598000, 'gone');

INSERT INTO outbox_payloads (message, payload) VALUES (1, '{"to":"bob","text":"m1"}');
INSERT INTO outbox_history (message, seq, at, event) VALUES (1, 1, 1767225590000, 'queued');
INSERT INTO outbox_payloads (message, payload) VALUES (2, '{"to":"bob","text":"m2"}');
INSERT INTO outbox_history (message, seq, at, event) VALUES (2, 1, 1767225590000, 'queued');
INSERT INTO outbox_payloads (message, payload) VALUES (3, '{"to":"bob","text":"m3"}');
INSERT INTO outbox_history (message, seq, at, event) VALUES (3, 1, 1767225590000, 'queued');
INSERT INTO outbox_payloads (message, payload) VALUES (4, '{"to":"bob","text":"m4"}');
INSERT INTO outbox_history (message, seq, at, event) VALUES (4, 1, 1767225590000, 'queued');
INSERT INTO outbox_payloads (message, payload) VALUES (5, '{"to":"bob","text":"m5"}');
INSERT INTO outbox_history (message, seq, at, event) VALUES (5, 1, 1767225590000, 'queued');
INSERT INTO outbox_payloads (message, payload) VALUES (6, '{"to":"bob","text":"m6"}');
INSERT INTO outbox_history (message, seq, at, event) VALUES (6, 1, 1767225590000, 'queued');
INSERT INTO outbox_payloads (message, payload) VALUES (7, '{"to":"bob","text":"m7"}');
INSERT INTO outbox_history (message, seq, at, event) VALUES (7, 1, 1767225590000, 'queued');
INSERT INTO outbox_payloads (message, payload) VALUES (8, '{"to":"eve","text":"m8"}');
INSERT INTO outbox_history (message, seq, at, event) VALUES (8, 1, 1767225590000, 'queued');

INSERT INTO outbox_destinations (destination, due_at, full_at, failures) VALUES ('bob', 1767225590000, 0, 2);
INSERT INTO outbox_destinations (destination, full_at, paused_until, failures, opened) VALUES ('eve', 0, 1767225602000, 3, 1);
INSERT INTO outbox_meta (version, last_seen, queued, sending, sent, failed) VALUES (1, 1767225599000, 5, 1, 1, 1);
UPDATE sqlite_sequence SET seq = 8 WHERE name = 'outbox_messages';
