//! `abide sql`: SQL on one object's database.

use std::io::Write;

use abide::Value;
use anyhow::{Result, bail};
use clap::Args;

use crate::{data::DataArgs, object::ObjectArg};

/// The object and the statements to run.
#[derive(Args)]
pub(crate) struct SqlArgs {
    #[command(flatten)]
    object: ObjectArg,

    /// The statement, or several separated by semicolons; prints the rows of the last one
    sql: String,

    /// Keep changes made by the statements
    #[arg(long)]
    write: bool,

    #[command(flatten)]
    data: DataArgs,
}

/// Runs the statements and prints the rows as tab-separated values, below a line of column names.
pub(crate) fn run(args: &SqlArgs, out: &mut impl Write) -> Result<()> {
    let data = args.data.open()?;
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
