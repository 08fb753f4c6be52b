//! The statements that both databases understand.

use super::{Table, Type};
use crate::broken::{Variant, broken};

/// A name in a statement. Names are checked when they are declared, and may be words of SQL.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// How a database calls the types.
pub(super) type TypeName = fn(Type) -> &'static str;

/// The statement that makes the table, if it is not there.
pub(super) fn create(table: &Table, type_name: TypeName) -> String {
    let columns: Vec<String> = table
        .all_columns()
        .map(|(name, of)| {
            let rest = match name {
                "id" => " PRIMARY KEY",
                "seq" | "changed_at" => " NOT NULL",
                _ => "",
            };
            format!("{} {}{rest}", quoted(name), type_name(of))
        })
        .collect();
    let columns = columns.join(", ");
    let name = quoted(&table.name);
    format!("CREATE TABLE IF NOT EXISTS {name} ({columns})")
}

/// Statements that make the table's indexes, if they are not there.
pub(super) fn create_indexes(table: &Table) -> Vec<String> {
    let index = |columns: &Vec<String>| {
        let index = quoted(&format!("{}_by_{}", table.name, hash(columns)));
        let columns: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
        let (name, columns) = (quoted(&table.name), columns.join(", "));
        format!("CREATE INDEX IF NOT EXISTS {index} ON {name} ({columns})")
    };
    table.indexes.iter().map(index).collect()
}

/// The name of an index says what it is on, and is short.
fn hash(columns: &[String]) -> String {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(columns.join(","));
    hash[..4]
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// A statement that adds a column.
pub(super) fn add_column(table: &Table, name: &str, of: Type, type_name: TypeName) -> String {
    let (table, name) = (quoted(&table.name), quoted(name));
    format!("ALTER TABLE {table} ADD COLUMN {name} {}", type_name(of))
}

/// The statement that writes rows, but for where they come from.
pub(super) fn upsert(table: &Table, source: &str) -> String {
    let names: Vec<String> = table.all_columns().map(|(name, _)| quoted(name)).collect();
    let changes = names.iter().skip(1);
    let changes: Vec<String> = changes
        .map(|name| format!("{name} = excluded.{name}"))
        .collect();
    if broken(Variant::OlderWritten) {
        let (table, names, changes) = (quoted(&table.name), names.join(", "), changes.join(", "));
        return format!(
            "INSERT INTO {table} ({names}) {source} ON CONFLICT (id) DO UPDATE SET {changes}"
        );
    }
    format!(
        "INSERT INTO {table} ({names}) {source} ON CONFLICT (id) DO UPDATE SET {changes} WHERE excluded.seq > {table}.seq",
        table = quoted(&table.name),
        names = names.join(", "),
        changes = changes.join(", "),
    )
}

/// Which of the declared columns a table lacks, given those that it has; the error names one that cannot be.
pub(super) fn missing<'a>(
    table: &'a Table,
    has: &[(String, String)],
    type_name: TypeName,
) -> Result<Vec<(&'a str, Type)>, String> {
    let mut missing = Vec::new();
    for (name, of) in table.all_columns() {
        match has.iter().find(|(known, _)| known == name) {
            None => missing.push((name, of)),
            Some((_, known)) if known.eq_ignore_ascii_case(type_name(of)) => {}
            Some((_, known)) => {
                return Err(format!(
                    "column `{name}` of table `{}` is {known} and was declared as {}: give it another name, or drop the table, \
                     start again and rebuild",
                    table.name,
                    type_name(of)
                ));
            }
        }
    }
    Ok(missing)
}
