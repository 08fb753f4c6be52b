//! `abide sql`: SQL on one object's database, or on a copy of it.
//!
//! On a directory that no node serves, statements run on the object itself, and may change it. A running node, or the past, gives a
//! copy of the database, which statements only read.

use std::{env, io::Write};

use abide::Value;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use rusqlite::{
    Batch, Connection, OpenFlags, fallible_iterator::FallibleIterator as _, types::ValueRef,
};

use crate::{
    data::Data,
    export::{Copy, PastArgs},
    node::{NodeArgs, Source},
    object::ObjectArg,
};

/// The object and the statements to run.
#[derive(Args)]
pub(crate) struct SqlArgs {
    #[command(flatten)]
    object: ObjectArg,

    /// The statement, or several separated by semicolons; prints the rows of the last one
    sql: String,

    /// Keep changes made by the statements; no node serves the directory
    #[arg(long, conflicts_with_all = ["at", "bookmark"])]
    write: bool,

    #[command(flatten)]
    past: PastArgs,

    #[command(flatten)]
    node: NodeArgs,
}

/// Runs the statements and prints the rows as tab-separated values, below a line of column names.
pub(crate) fn run(args: &SqlArgs, out: &mut impl Write) -> Result<()> {
    let at = args.past.moment();
    let dir = env::temp_dir();
    let copy = match args.node.source()? {
        Source::Data(data) if at.is_none() => return on_object(args, data, out),
        Source::Data(data) => {
            let copy = Copy::of_data(&data, &args.object, at, &dir)?;
            data.close()?;
            copy
        }
        Source::Node(node) => {
            ensure!(
                !args.write,
                "a node serves the directory: stop it before SQL changes an object"
            );
            Copy::of_node(&node, &args.object, at, &dir)?
        }
    };
    on_copy(&copy, &args.sql, out)
}

fn on_object(args: &SqlArgs, data: Data, out: &mut impl Write) -> Result<()> {
    let object = args.object.in_data(&data)?;
    let db = data.store.open_object(object.key)?;
    let rows = db.exec(&args.sql, ())?;
    if db.in_transaction() {
        if !args.write {
            db.rollback();
            bail!(
                "the statements would change the object, and were rolled back; add --write to keep the changes"
            );
        }
        data.audited("sql", Some(&object), Some(args.sql.clone()), || {
            Ok(db.commit()?)
        })?;
    }
    print(rows.columns(), &rows.raw(), out)?;
    drop(db);
    data.close()
}

fn on_copy(copy: &Copy, sql: &str, out: &mut impl Write) -> Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(&copy.path, flags).context("opening the copy")?;
    let mut batch = Batch::new(&db, sql);
    let (mut columns, mut rows) = (Vec::new(), Vec::new());
    while let Some(mut statement) = batch.next()? {
        ensure!(
            statement.readonly(),
            "the statements would change the object: this is a copy of it, which can only be read"
        );
        columns = statement.column_names().map(str::to_owned).collect();
        rows = Vec::new();
        let count = statement.column_count();
        let mut found = statement.query(())?;
        while let Some(row) = found.next()? {
            let values = (0..count).map(|column| row.get_ref(column).map(value));
            rows.push(values.collect::<Result<_, _>>()?);
        }
    }
    print(&columns, &rows, out)
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

fn print(columns: &[String], rows: &[Vec<Value>], out: &mut impl Write) -> Result<()> {
    if !columns.is_empty() {
        writeln!(out, "{}", columns.join("\t"))?;
    }
    for row in rows {
        writeln!(
            out,
            "{}",
            row.iter().map(show).collect::<Vec<_>>().join("\t")
        )?;
    }
    Ok(())
}

/// A value on one line, as in SQL, but text without quotes.
fn show(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.escape_debug().to_string(),
        Value::Blob(bytes) => format!("x'{}'", hex::encode(bytes)),
    }
}
