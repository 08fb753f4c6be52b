//! What the text of a statement says about it, where SQLite does not.

/// The statement's first words, without comments before them.
fn first_words<const N: usize>(sql: &str) -> [&str; N] {
    let mut rest = sql;
    std::array::from_fn(|_| {
        rest = without_comments(rest);
        let end = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        word
    })
}

fn begins_with_one_of(sql: &str, words: &[&str]) -> bool {
    let [first] = first_words(sql);
    words.iter().any(|word| first.eq_ignore_ascii_case(word))
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

/// Returns whether a statement can be expected to free or replace something. It may use the reserve.
pub(super) fn uses_reserve(sql: &str) -> bool {
    begins_with_one_of(sql, &["delete", "update", "drop"])
}

/// Returns whether a statement that writes is an `INSERT`, `UPDATE` or `DELETE`: SQLite's `changes()` is about these.
pub(super) fn is_dml(sql: &str) -> bool {
    begins_with_one_of(sql, &["insert", "update", "delete", "replace", "with"])
}

/// Returns whether a statement creates a virtual table.
pub(super) fn creates_virtual_table(sql: &str) -> bool {
    let [first, second] = first_words(sql);
    first.eq_ignore_ascii_case("create") && second.eq_ignore_ascii_case("virtual")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_before_a_statement_are_skipped() {
        assert!(uses_reserve("  delete FROM t"));
        assert!(uses_reserve("-- old ones\n /* and more */ DELETE FROM t"));
        assert!(!uses_reserve("-- DELETE\nINSERT INTO t VALUES (1)"));
        assert!(creates_virtual_table(
            "CREATE /* text */ VIRTUAL TABLE f USING fts5(a)"
        ));
        assert!(!creates_virtual_table("CREATE TABLE virtual (a)"));
        assert!(is_dml("WITH c AS (SELECT 1) INSERT INTO t SELECT * FROM c"));
        for empty in ["", "--", "/*", "-- \n", "/* */", "/"] {
            assert_eq!(first_words::<1>(empty), [""], "{empty:?}");
        }
    }
}
