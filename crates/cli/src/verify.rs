//! `abide verify`: checks everything in a data directory for damage.
//!
//! Opening the directory checks every record of the log that object files lack. Then SQLite checks each object's
//! database, the alarms are compared with the node's index, and every byte of the archive is checked by its checksum.
//! History that was dropped for lack of space is reported, but is not damage.

use std::{io::Write, process::ExitCode};

use abide_storage::{AlarmEntry, ObjectKey, Store};
use anyhow::Result;

use crate::data::DataArgs;

/// Prints a line for each damaged object, and a summary. Fails if there is any.
pub(crate) fn run(args: &DataArgs, out: &mut impl Write) -> Result<ExitCode> {
    let data = args.open()?;
    let objects = data.objects()?;
    let mut damaged = 0;
    for object in &objects {
        if let Err(what) = check(&data.store, object.key) {
            damaged += 1;
            writeln!(
                out,
                "{}\t{}\tdamaged: {what}",
                object.class,
                object.key.id_hex()
            )?;
        }
    }
    writeln!(out, "{} objects, {damaged} damaged", objects.len())?;
    if let Err(what) = data.store.verify_archive() {
        damaged += 1;
        writeln!(out, "{what}")?;
    }
    for hole in data.store.archive_holes() {
        writeln!(out, "{hole}")?;
    }
    data.close()?;
    Ok(if damaged == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// `Err` describes the damage.
fn check(store: &Store, key: ObjectKey) -> Result<(), String> {
    let said = store
        .open_object(key)
        .and_then(|db| db.exec("PRAGMA integrity_check", ())?.all::<String>())
        .map_err(|error| error.to_string())?;
    if said != ["ok"] {
        return Err(said.join("; "));
    }
    let rows = store
        .open_object(key)
        .and_then(|db| db.alarm_entry())
        .map_err(|error| error.to_string())?;
    let index = store.alarms().get(key);
    if !AlarmEntry::agree(index, rows) {
        return Err(format!(
            "its alarms are {rows:?}, but the alarm index has {index:?}"
        ));
    }
    Ok(())
}
