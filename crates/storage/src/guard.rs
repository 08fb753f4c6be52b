//! What users' SQL may do. While a statement is prepared, SQLite asks an authorizer about each of its operations. A
//! forbidden operation is rejected with a message that names the call to use instead.

use crate::limits::{MAX_SQL_BYTES, ROW_OVERHEAD_BYTES};
use crate::sql_limits::SqlLimits;
use crate::sync::Mutex;
use crate::template::RESERVED_PREFIX;
use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Pragmas that only read, check or advise. `name = value` is allowed where the flag says so.
const PRAGMAS: &[(&str, bool)] = &[
    ("data_version", false),
    ("case_sensitive_like", true),
    ("collation_list", false),
    ("compile_options", false),
    ("defer_foreign_keys", true),
    ("foreign_key_check", true),
    ("foreign_key_list", true),
    ("foreign_keys", true),
    ("freelist_count", false),
    ("function_list", false),
    ("ignore_check_constraints", true),
    ("index_info", true),
    ("index_list", true),
    ("index_xinfo", true),
    ("integrity_check", true),
    ("legacy_alter_table", true),
    ("module_list", false),
    ("page_count", false),
    ("page_size", false),
    ("pragma_list", false),
    ("quick_check", true),
    ("recursive_triggers", true),
    ("reverse_unordered_selects", true),
    ("table_info", true),
    ("table_list", true),
    ("table_xinfo", true),
    ("user_version", true),
];

/// The message for ATTACH, and for VACUUM, which attaches internally.
pub(crate) const NO_ATTACH: &str = "ATTACH, DETACH and VACUUM are not available: an object has one database; call another object instead";

/// SQLite's name for the object's database.
const MAIN: &str = "main";

/// The authorizer's state, shared with the connection's owner.
#[derive(Clone, Default)]
pub(crate) struct Guard(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// True while the engine's own statements are prepared.
    trusted: AtomicBool,
    refusal: Mutex<Option<String>>,
}

impl Guard {
    /// Runs `prepare` with the engine's own privileges.
    pub(crate) fn trusted<R>(&self, prepare: impl FnOnce() -> R) -> R {
        let before = self.0.trusted.swap(true, Ordering::Relaxed);
        let result = prepare();
        self.0.trusted.store(before, Ordering::Relaxed);
        result
    }

    /// Why the last statement was refused.
    pub(crate) fn take_refusal(&self) -> Option<String> {
        self.0.refusal.lock().take()
    }

    /// Installs the authorizer and SQLite's own limits on a connection.
    pub(crate) fn attach(
        &self,
        connection: &mut Connection,
        sql: SqlLimits,
    ) -> rusqlite::Result<()> {
        let inner = self.0.clone();
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            // A trigger created by a user has the user's privileges, even if another statement fires it.
            if context.accessor.is_none() && inner.trusted.load(Ordering::Relaxed) {
                return Authorization::Allow;
            }
            if skips(&context) {
                return Authorization::Ignore;
            }
            match refuse(&context) {
                None => Authorization::Allow,
                Some(why) => {
                    inner.refusal.lock().get_or_insert(why);
                    Authorization::Deny
                }
            }
        }))?;
        let limits = [
            (Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_SQL_BYTES),
            (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, sql.parameters),
            (Limit::SQLITE_LIMIT_COLUMN, sql.columns),
            (
                Limit::SQLITE_LIMIT_LENGTH,
                sql.value_bytes + ROW_OVERHEAD_BYTES,
            ),
            (Limit::SQLITE_LIMIT_ATTACHED, 1), // for the VACUUM after delete_all; the authorizer rejects it for users
        ];
        for (limit, value) in limits {
            connection.set_limit(limit, i32::try_from(value).unwrap_or(i32::MAX))?;
        }
        Ok(())
    }
}

/// A virtual table of this name would have shadow tables whose names begin with [`RESERVED_PREFIX`].
const RESERVED_NAME: &str = "_abide";

pub(crate) fn reserved(name: &str) -> bool {
    let begins = |with: &str| {
        let prefix = name.get(..with.len());
        prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(with))
    };
    begins(RESERVED_PREFIX) || (begins(RESERVED_NAME) && name.len() == RESERVED_NAME.len())
}

fn reserved_name(name: &str) -> Option<String> {
    reserved(name).then(|| format!("{name}: names that begin with {RESERVED_PREFIX} are reserved; use the key-value calls or another name"))
}

/// Returns whether a statement may give a table a reserved name, or refer to a reserved table: the authorizer sees neither
/// the new names of `ALTER` nor the tables of `REFERENCES`.
pub(crate) fn hides_reserved_name(sql: &str) -> bool {
    // Runs for every statement: in almost all cases a search for one byte is enough.
    let mut underscores = sql.match_indices('_');
    underscores.any(|(at, _)| is_reserved_word(sql, at))
        && ["alter", "references"]
            .iter()
            .any(|word| contains(sql, word))
}

/// Returns whether a reserved name begins at this place.
fn is_reserved_word(sql: &str, at: usize) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let (before, rest) = sql.split_at(at);
    let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    reserved(&rest[..end]) && !before.ends_with(is_part)
}

fn contains(sql: &str, word: &str) -> bool {
    let mut places = sql.as_bytes().windows(word.len());
    places.any(|place| place.eq_ignore_ascii_case(word.as_bytes()))
}

/// `ANALYZE` of all tables leaves the engine's out.
fn skips(context: &AuthContext<'_>) -> bool {
    matches!(context.action, AuthAction::Analyze { table_name } if reserved(table_name))
}

/// Returns whether an operation is on another database than the object's. An object has one; the other that SQLite always
/// has, `temp`, is neither durable nor bounded, and its tables hide those of the object.
fn is_elsewhere(context: &AuthContext<'_>) -> bool {
    // `ALTER TABLE` looks for temporary triggers and views that name the table, and finds none.
    const SCHEMAS: [&str; 2] = ["sqlite_temp_master", "sqlite_temp_schema"];
    let of_temp_schema = match context.action {
        AuthAction::Read { table_name, .. } | AuthAction::Update { table_name, .. } => {
            SCHEMAS.contains(&table_name)
        }
        _ => false,
    };
    let database = match context.action {
        // Here the context has the name of a column.
        AuthAction::AlterTable { database_name, .. } => database_name,
        _ => context.database_name.unwrap_or(MAIN),
    };
    !database.eq_ignore_ascii_case(MAIN) && !of_temp_schema
}

fn refuse(context: &AuthContext<'_>) -> Option<String> {
    use AuthAction as A;
    const TEMP: &str = "temporary tables, views, triggers and indexes are not available: use an ordinary table or memory";
    if is_elsewhere(context) {
        return Some(TEMP.to_owned());
    }
    match context.action {
        A::Transaction { .. } => Some(
            "BEGIN, COMMIT and ROLLBACK are not available in exec: what you write between two awaits is one transaction; \
             use transaction to roll a part of it back"
                .to_owned(),
        ),
        A::Savepoint { .. } => Some("SAVEPOINT, RELEASE and ROLLBACK TO are not available in exec: use transaction, which nests".to_owned()),
        A::Attach { .. } | A::Detach { .. } => Some(NO_ATTACH.to_owned()),
        A::CreateTempIndex { .. }
        | A::CreateTempTable { .. }
        | A::CreateTempTrigger { .. }
        | A::CreateTempView { .. }
        | A::DropTempIndex { .. }
        | A::DropTempTable { .. }
        | A::DropTempTrigger { .. }
        | A::DropTempView { .. } => Some(TEMP.to_owned()),
        A::Pragma { pragma_name, pragma_value } => {
            let name = pragma_name.to_ascii_lowercase();
            match PRAGMAS.iter().find(|(known, _)| *known == name) {
                Some((_, true)) => None,
                Some((_, false)) if pragma_value.is_none() => None,
                Some(_) => Some(format!("PRAGMA {name} can be read but not set")),
                None => Some(format!("PRAGMA {name} is not available: the engine configures the database")),
            }
        }
        A::CreateIndex { index_name, table_name } | A::DropIndex { index_name, table_name } => {
            reserved_name(index_name).or_else(|| reserved_name(table_name))
        }
        A::CreateTrigger { trigger_name, table_name } | A::DropTrigger { trigger_name, table_name } => {
            reserved_name(trigger_name).or_else(|| reserved_name(table_name))
        }
        A::CreateView { view_name } | A::DropView { view_name } => reserved_name(view_name),
        A::CreateTable { table_name }
        | A::DropTable { table_name }
        | A::Insert { table_name }
        | A::Delete { table_name }
        | A::Update { table_name, .. }
        | A::Read { table_name, .. }
        | A::AlterTable { table_name, .. } => reserved_name(table_name),
        A::CreateVtable { table_name, module_name } => reserved_name(table_name).or_else(|| {
            let allowed = ["fts5", "rtree", "rtree_i32", "geopoly"];
            (!allowed.contains(&module_name.to_ascii_lowercase().as_str()))
                .then(|| format!("virtual tables of module {module_name} are not available; use fts5 or rtree"))
        }),
        A::Function { function_name } if function_name.eq_ignore_ascii_case("load_extension") => {
            Some("load_extension is not available".to_owned())
        }
        _ => None,
    }
}
