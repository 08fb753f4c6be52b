//! What a text says about its statements, where SQLite does not.

use super::MARK;
use super::tokens::{Token, Tokens};
use crate::error::{Error, Result};
use crate::guard::hides_reserved_name;
use crate::limits::MAX_SQL_BYTES;

/// Why a text without a statement is refused. Comments are none.
pub(super) const EMPTY: &str = "the SQL text is empty";

/// Rejects a user's text that is too long or empty, that SQLite would not read to its end, or that names what is the
/// engine's.
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
    if sql.contains('\0') {
        return Err(Error::input(
            "the SQL text has a NUL character, behind which SQLite does not read: bind values as parameters",
        ));
    }
    if trimmed.ends_with(MARK) || hides_reserved_name(sql) {
        return Err(Error::input("names that begin with _abide_ are reserved"));
    }
    Ok(())
}

/// One of the statements of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    /// From its first word to its semicolon, if it has one.
    pub(super) text: &'a str,
    pub(super) has_parameters: bool,
}

/// The statements of a text, without those that are empty. Nothing is prepared: that alone can have an effect.
///
/// If SQLite finds an error in a statement, the ones behind it may be part of it.
pub(super) fn pieces(sql: &str) -> impl Iterator<Item = Piece<'_>> {
    // As for the statement of a text that has only one.
    let sql = sql.trim();
    let mut tokens = Tokens::of(sql);
    std::iter::from_fn(move || {
        let mut begin = None;
        let (mut end, mut has_parameters) = (sql.len(), false);
        let mut place = Place::Begin;
        for (token, from, to) in tokens.by_ref() {
            if token == Token::Semicolon && begin.is_none() {
                continue;
            }
            begin.get_or_insert(from);
            if token == Token::Semicolon && place.ends_with_semicolon() {
                end = to;
                break;
            }
            has_parameters |= token == Token::Parameter;
            place = place.after(token);
        }
        let text = sql.get(begin?..end)?;
        Some(Piece {
            text,
            has_parameters,
        })
    })
}

/// Returns whether a text has more than one statement.
pub(super) fn has_several(sql: &str) -> bool {
    // Most texts have no semicolon.
    sql.contains(';') && pieces(sql).nth(1).is_some()
}

/// How far a statement has come, as far as it decides whether a semicolon ends it. Only the body of a trigger has others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Begin,
    Explain,
    Create,
    /// In a trigger.
    Trigger,
    /// Behind a semicolon in a trigger.
    NextInTrigger,
    /// Behind `END` in its place.
    EndOfTrigger,
    Other,
}

impl Place {
    fn after(self, token: Token<'_>) -> Self {
        let is = |words: &[&str]| match token {
            Token::Word(word) => words.iter().any(|known| word.eq_ignore_ascii_case(known)),
            _ => false,
        };
        match self {
            Self::Begin if is(&["explain"]) => Self::Explain,
            Self::Explain if is(&["query", "plan"]) => Self::Explain,
            Self::Begin | Self::Explain if is(&["create"]) => Self::Create,
            Self::Create if is(&["temp", "temporary"]) => Self::Create,
            Self::Create if is(&["trigger"]) => Self::Trigger,
            Self::NextInTrigger if is(&["end"]) => Self::EndOfTrigger,
            Self::Trigger | Self::NextInTrigger | Self::EndOfTrigger => match token {
                Token::Semicolon => Self::NextInTrigger,
                _ => Self::Trigger,
            },
            _ => Self::Other,
        }
    }

    fn ends_with_semicolon(self) -> bool {
        !matches!(self, Self::Trigger | Self::NextInTrigger)
    }
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
    /// It is not certain to only read, whatever SQLite says of it. SQLite takes a statement for a reader that has nothing to
    /// do when it is prepared, and writes when it runs again after a change of the schema: a trigger that is created
    /// IF NOT EXISTS or dropped IF EXISTS, and `REINDEX`.
    pub(super) needs_transaction: bool,
}

impl Write {
    pub(super) fn of(sql: &str) -> Self {
        let [first, second] = first_words(sql);
        let is = |word: &str| first.eq_ignore_ascii_case(word);
        let replaces = is("update") || is("delete");
        Self {
            uses_reserve: replaces || is("drop"),
            is_dml: replaces || is("insert") || is("replace") || is("with"),
            creates_virtual_table: is("create") && second.eq_ignore_ascii_case("virtual"),
            needs_transaction: !["select", "values", "with", "pragma", "explain"]
                .iter()
                .any(|word| is(word)),
        }
    }
}

/// Returns whether a statement gives when it runs again what it would if it were prepared anew. A `PRAGMA` has its effect
/// when it is prepared, and an `EXPLAIN` its result; SQLite does not always prepare them again after a change.
pub(super) fn can_run_again(sql: &str) -> bool {
    let [first, _] = first_words(sql);
    !["pragma", "explain"]
        .iter()
        .any(|word| first.eq_ignore_ascii_case(word))
}

/// A statement's first two words, as far as it begins with words.
fn first_words(sql: &str) -> [&str; 2] {
    let tokens = Tokens::of(sql.trim_start()).map(|(token, ..)| token);
    let mut words = tokens
        .skip_while(|token| *token == Token::Semicolon)
        .map_while(|token| match token {
            Token::Word(word) => Some(word),
            _ => None,
        });
    [
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::fallible_iterator::FallibleIterator as _;
    use rusqlite::{Batch, Connection};

    #[test]
    fn only_what_can_never_write_needs_no_transaction() {
        for reads in [
            "SELECT 1",
            "/**/values (1)",
            "WITH c AS (SELECT 1) SELECT * FROM c",
            "PRAGMA user_version",
            "EXPLAIN DELETE FROM t",
        ] {
            assert!(!Write::of(reads).needs_transaction, "{reads}");
        }
        for writes in [
            "REINDEX",
            "CREATE TRIGGER IF NOT EXISTS r",
            "DROP TRIGGER r",
        ] {
            assert!(Write::of(writes).needs_transaction, "{writes}");
        }
    }

    #[test]
    fn what_stands_before_a_statement_is_skipped() {
        assert!(Write::of("  delete FROM t").uses_reserve);
        assert!(Write::of("-- old ones\n /* and more */ DELETE FROM t").uses_reserve);
        assert!(Write::of("\u{a0}\u{feff};\u{feff}/**/;DELETE FROM t").uses_reserve);
        assert!(!Write::of("-- DELETE\nINSERT INTO t VALUES (1)").uses_reserve);
        let virtual_table = "CREATE /* text */ VIRTUAL TABLE f USING fts5(a)";
        assert!(Write::of(virtual_table).creates_virtual_table);
        assert!(!Write::of("CREATE TABLE virtual (a)").creates_virtual_table);
        assert!(Write::of("WITH c AS (SELECT 1) INSERT INTO t SELECT * FROM c").is_dml);
        for empty in ["", "--", "/*", "-- \n", "/* */", "/", ";", "'a'"] {
            assert_eq!(first_words(empty), ["", ""], "{empty:?}");
        }
    }

    /// How many statements a text has before the first error, for SQLite, and the numbers of their parameters.
    fn for_sqlite(db: &Connection, sql: &str) -> (Vec<bool>, bool) {
        let mut batch = Batch::new(db, sql);
        let mut found = Vec::new();
        loop {
            match batch.next() {
                Ok(Some(statement)) => found.push(statement.parameter_count() > 0),
                Ok(None) => return (found, true),
                Err(_) => return (found, false),
            }
        }
    }

    /// The same for the pieces, each of which must be one statement.
    fn for_us(db: &Connection, sql: &str) -> (Vec<bool>, bool) {
        let mut found = Vec::new();
        for piece in pieces(sql) {
            match db.prepare(piece.text) {
                Ok(statement) => {
                    assert_eq!(statement.parameter_count() > 0, piece.has_parameters);
                    found.push(piece.has_parameters);
                }
                Err(rusqlite::Error::MultipleStatement | rusqlite::Error::Empty) => {
                    panic!("{sql:?}: {:?}", piece.text)
                }
                Err(_) => return (found, false),
            }
        }
        (found, true)
    }

    #[test]
    fn texts_are_split_where_sqlite_splits_them() {
        const PARTS: &[&str] = &[
            "SELECT 1",
            "SELECT ",
            "1",
            "?",
            "?2",
            ":a",
            "@a::b",
            "$a(;)",
            "$a(; )",
            "#1",
            ":",
            "::",
            ";",
            ";",
            ";",
            ";",
            " ",
            "\n",
            "\t",
            "\u{b}",
            "\u{c}",
            "\u{feff}",
            "\u{a0}",
            "--",
            "/*",
            "*/",
            "/",
            "-",
            "-- ;\n",
            "/* ; */",
            "/*/",
            "'",
            "';'",
            "''",
            "'it''s;'",
            "\"",
            "\";\"",
            "`;`",
            "[;]",
            "[",
            "]",
            "CREATE TRIGGER r AFTER INSERT ON t BEGIN ",
            "CREATE TRIGGER IF NOT EXISTS r DELETE ON t BEGIN SELECT 1; END",
            "CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN SELECT CASE 1 WHEN 1 THEN 2 END; DELETE FROM t; END",
            "create/**/temporary\u{feff} trigger r delete on t begin select 1;end",
            "EXPLAIN ",
            "EXPLAIN QUERY PLAN ",
            "END",
            "end",
            "END ",
            " END;",
            "; END;",
            "; END -- x\n",
            ";/**/END",
            "END\u{feff}",
            "BEGIN",
            "COMMIT",
            "CASE WHEN 1 THEN 2 END",
            "INSERT INTO t VALUES (1)",
            "INSERT INTO t VALUES (?)",
            "DELETE FROM t",
            "VALUES (x';')",
            "x'00'",
            "1e5",
            ".5",
            "a$b",
            "$",
            "_",
            "(",
            ")",
            ",",
            "AS ",
            "trigger",
            "create ",
            "CREATE TABLE trigger (a)",
            "SELECT 'a' ->> ';'",
            "SELECT 1 AS é",
            "é",
        ];
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE t (a)").unwrap();
        let mut state = 88_172_645_463_325_252_u64;
        let mut below = |most: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as usize % most
        };
        let mut whole = [0; 4];
        for _ in 0..100_000 {
            let length = below(9);
            let part = |_| [PARTS[below(PARTS.len())], ["", "; "][below(4) / 3]].concat();
            let sql: String = (0..length).map(part).collect();
            // Elsewhere a blank for `exec` is one for SQLite, too.
            let sql = sql.trim();
            let expected = for_sqlite(&db, sql);
            assert_eq!(for_us(&db, sql), expected, "{sql:?}");
            if expected.1 {
                whole[expected.0.len().min(3)] += 1;
                assert_eq!(has_several(sql), expected.0.len() > 1, "{sql:?}");
            }
        }
        assert!(whole.iter().all(|count| *count > 50), "{whole:?}");
    }
}
