//! Migration of older tables.

use std::collections::BTreeSet;

use abide::{Result, Sql};

use super::schema;

/// Version 1 assigned a result its position when it was stored, and therefore to some results that the run had not
/// received yet. No step was requested after these: they become stored results without a position, and the run receives
/// them one by one. Names ended with the number of their use, and an event was deleted from its table when it was
/// consumed.
pub(super) fn from_1(sql: &Sql) -> Result<()> {
    sql.exec(
        "ALTER TABLE workflow_instance ADD COLUMN began_at INTEGER NOT NULL DEFAULT 0;
         ALTER TABLE workflow_instance ADD COLUMN set_back INTEGER NOT NULL DEFAULT 0;
         ALTER TABLE workflow_steps RENAME TO workflow_steps_1;
         DROP INDEX workflow_step_seq;
         DROP INDEX workflow_step_child;
         ALTER TABLE workflow_events ADD COLUMN step INTEGER;
         DROP INDEX workflow_event_name;
         ALTER TABLE workflow_keys RENAME TO workflow_keys_1",
        (),
    )?;
    sql.exec(schema::STEPS, ())?;
    sql.exec(schema::REST, ())?;
    let given = "SELECT coalesce(max(asked), 0) FROM workflow_steps_1";
    let given: i64 = sql.exec(given, ())?.one()?;
    sql.exec(
        "UPDATE workflow_instance SET tables = ?1, began_at = created_at,
             canceled_seq = CASE WHEN canceled_seq <= ?2 THEN canceled_seq END",
        (schema::VERSION, given),
    )?;
    sql.exec(
        "INSERT INTO workflow_steps (id, name, occurrence, kind, shielded, asked, state, attempts, key_run, due, seq, event,
             child, child_of, output, error, asked_at, started_at, finished_at)
         SELECT id, name, 0, kind, shielded, asked, state, attempts, key_run, due,
             CASE WHEN seq <= ?1 THEN seq END, event, child, child_of, output, error, asked_at, started_at, finished_at
         FROM workflow_steps_1",
        (given,),
    )?;
    let taken = "SELECT name FROM workflow_steps WHERE kind = 'event'";
    let waits: BTreeSet<String> = sql.exec(taken, ())?.to_array()?.into_iter().collect();
    for wait in &waits {
        sql.exec(
            "INSERT OR IGNORE INTO workflow_events (id, kind, name, payload, at, step)
             SELECT event, kind, ?2, output, asked_at, CASE WHEN seq IS NOT NULL THEN id END FROM workflow_steps
             WHERE name = ?1 AND kind = 'event' AND event IS NOT NULL",
            (wait, event_of(wait, &waits)),
        )?;
    }
    sql.exec(
        "UPDATE workflow_steps SET output = NULL WHERE kind = 'event' AND event IS NOT NULL;
         UPDATE workflow_steps SET state = 'waiting', event = NULL, finished_at = NULL
             WHERE kind = 'event' AND event IS NOT NULL AND seq IS NULL;
         UPDATE workflow_steps SET event = NULL WHERE kind = 'child';
         INSERT INTO workflow_keys SELECT name, 0, run FROM workflow_keys_1;
         DROP TABLE workflow_steps_1;
         DROP TABLE workflow_keys_1",
        (),
    )?;
    Ok(())
}

/// The name of the awaited event: without the number of its use, if the earlier waits exist. The program gives the
/// definite name when it requests the step again.
fn event_of<'a>(wait: &'a str, waits: &BTreeSet<String>) -> &'a str {
    let number = |text: &'a str| -> Option<&'a str> {
        let (name, number) = text.strip_suffix(')')?.rsplit_once(" (")?;
        let number: u32 = number.parse().ok().filter(|number| *number >= 2)?;
        let before = match number - 1 {
            1 => name.to_owned(),
            before => format!("{name} ({before})"),
        };
        waits.contains(&before).then_some(name)
    };
    number(wait).unwrap_or(wait)
}
