//! What the text of a statement says about it, where SQLite does not.

use super::MARK;
use crate::error::{Error, Result};
use crate::guard::hides_reserved_name;
use crate::limits::MAX_SQL_BYTES;

/// Why a text without a statement is refused. Comments are none.
pub(super) const EMPTY: &str = "the SQL text is empty";

/// Rejects a user's text that is too long or empty, or that names what is the engine's.
pub(super) fn check(sql: &str) -> Result<()> {
    if sql.len() > MAX_SQL_BYTES {
        return Err(Error::limit(format!(
            "the SQL text has {} bytes, but the limit is {MAX_SQL_BYTES}: bind values as parameters",
            sql.len()
        )));
    }
    let trimmed = sql.trim();
    if trimmed.is_empty() {
        return Err(Error::input(EMPTY));
    }
    if trimmed.ends_with(MARK) || hides_reserved_name(sql) {
        return Err(Error::input("names that begin with _abide_ are reserved"));
    }
    Ok(())
}

/// What the first words of a statement that writes say about it.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent facts")]
pub(super) struct Write {
    /// It can be expected to free or replace something: it may use the reserve.
    pub(super) uses_reserve: bool,
    /// It is an `INSERT`, `UPDATE` or `DELETE`: SQLite's `changes()` is about these.
    pub(super) is_dml: bool,
    pub(super) creates_virtual_table: bool,
    /// It creates or drops a trigger. With IF (NOT) EXISTS such a statement can be read-only when it is prepared, and write
    /// when it runs again after a change of the schema.
    pub(super) is_of_trigger: bool,
}

impl Write {
    pub(super) fn of(sql: &str) -> Self {
        let (first, rest) = first_word(sql);
        let is = |word: &str| first.eq_ignore_ascii_case(word);
        let (second, _) = first_word(rest);
        let replaces = is("update") || is("delete");
        Self {
            uses_reserve: replaces || is("drop"),
            is_dml: replaces || is("insert") || is("replace") || is("with"),
            creates_virtual_table: is("create") && second.eq_ignore_ascii_case("virtual"),
            is_of_trigger: (is("create") || is("drop")) && second.eq_ignore_ascii_case("trigger"),
        }
    }
}

/// A statement's first word, without comments before it, and what follows.
fn first_word(sql: &str) -> (&str, &str) {
    let rest = without_comments(sql);
    let end = rest.bytes().position(|byte| !byte.is_ascii_alphabetic());
    rest.split_at(end.unwrap_or(rest.len()))
}

fn without_comments(sql: &str) -> &str {
    let mut rest = sql.trim_start();
    loop {
        let after = if let Some(comment) = rest.strip_prefix("--") {
            comment.split_once('\n').map(|(_, after)| after)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map(|(_, after)| after)
        } else {
            return rest;
        };
        rest = after.unwrap_or_default().trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_before_a_statement_are_skipped() {
        assert!(Write::of("  delete FROM t").uses_reserve);
        assert!(Write::of("-- old ones\n /* and more */ DELETE FROM t").uses_reserve);
        assert!(!Write::of("-- DELETE\nINSERT INTO t VALUES (1)").uses_reserve);
        let virtual_table = "CREATE /* text */ VIRTUAL TABLE f USING fts5(a)";
        assert!(Write::of(virtual_table).creates_virtual_table);
        assert!(!Write::of("CREATE TABLE virtual (a)").creates_virtual_table);
        assert!(Write::of("WITH c AS (SELECT 1) INSERT INTO t SELECT * FROM c").is_dml);
        for empty in ["", "--", "/*", "-- \n", "/* */", "/"] {
            assert_eq!(first_word(empty).0, "", "{empty:?}");
        }
    }
}
