//! The statements that both databases understand.

use super::{Table, Type};

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
                "id" | "source" | "timeline" | "seq" | "changed_at" => " NOT NULL",
                _ => "",
            };
            format!("{} {}{rest}", quoted(name), type_name(of))
        })
        .collect();
    let columns = columns.join(", ");
    let name = quoted(&table.name);
    format!("CREATE TABLE IF NOT EXISTS {name} ({columns}, PRIMARY KEY (id, source))")
}

/// The table of the objects that have left a timeline. Its name cannot be declared.
const SOURCES: &str = "_projection_sources";

/// The statement that makes the table of objects that have left a timeline, if it is not there.
pub(super) fn create_sources(type_name: TypeName) -> String {
    let text = type_name(Type::Text);
    format!(
        "CREATE TABLE IF NOT EXISTS {SOURCES} (source {text} PRIMARY KEY, timeline {text} NOT NULL)"
    )
}

/// The statement that records the timeline of an object: `$1` is the object, `$2` the timeline. Ids of timelines have one
/// length, so they compare alike in every collation.
pub(super) fn begin_timeline() -> String {
    format!(
        "INSERT INTO {SOURCES} (source, timeline) VALUES ($1, $2) ON CONFLICT (source) DO UPDATE
         SET timeline = excluded.timeline WHERE excluded.timeline > {SOURCES}.timeline"
    )
}

/// The statement that removes the rows of an object from before a timeline, with the same parameters.
pub(super) fn remove_earlier(table: &Table) -> String {
    let table = quoted(&table.name);
    format!("DELETE FROM {table} WHERE source = $1 AND timeline < $2")
}

/// Statements that make the table's indexes, if they are not there.
pub(super) fn create_indexes(table: &Table) -> Vec<String> {
    let index = |columns: &Vec<String>| {
        let index = quoted(&format!("{}_by_{}", table.name, hash(columns)));
        let columns: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
        let (name, columns) = (quoted(&table.name), columns.join(", "));
        format!("CREATE INDEX IF NOT EXISTS {index} ON {name} ({columns})")
    };
    let of_source = vec!["source".to_owned()];
    let declared = table.indexes.iter();
    declared.chain([&of_source]).map(index).collect()
}

/// The name of an index says what it is on, and is short.
fn hash(columns: &[String]) -> String {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(columns.join(","));
    hex::encode(&hash[..4])
}

/// A statement that adds a column.
pub(super) fn add_column(table: &Table, name: &str, of: Type, type_name: TypeName) -> String {
    let (table, name) = (quoted(&table.name), quoted(name));
    format!("ALTER TABLE {table} ADD COLUMN {name} {}", type_name(of))
}

/// The names of a table's columns, in order.
#[cfg(feature = "postgres")]
pub(super) fn names(table: &Table) -> String {
    let names: Vec<String> = table.all_columns().map(|(name, _)| quoted(name)).collect();
    names.join(", ")
}

/// The statement that writes rows, given a relation `fed` with all columns. Rows of a timeline that their object has left
/// are late.
pub(super) fn upsert(table: &Table, fed: &str) -> String {
    let names: Vec<String> = table.all_columns().map(|(name, _)| quoted(name)).collect();
    let changes = names.iter().skip(2);
    let changes: Vec<String> = changes
        .map(|name| format!("{name} = excluded.{name}"))
        .collect();
    format!(
        "INSERT INTO {table} ({names}) SELECT * FROM {fed}
         WHERE NOT EXISTS (SELECT 1 FROM {SOURCES} AS known WHERE known.source = fed.source AND known.timeline > fed.timeline)
         ON CONFLICT (id, source) DO UPDATE SET {changes} WHERE {later}",
        table = quoted(&table.name),
        names = names.join(", "),
        changes = changes.join(", "),
        later = later(table),
    )
}

/// The condition that a fed row is newer than the one in the table.
fn later(table: &Table) -> String {
    let table = quoted(&table.name);
    format!("(excluded.timeline, excluded.seq) > ({table}.timeline, {table}.seq)")
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
