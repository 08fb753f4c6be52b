//! The outbox's access to the object's SQL.
//!
//! Contract: the cost of a statement does not grow with the number of rows, except for the few marked ones. In debug
//! builds the plan of each statement is checked before it first runs, so every test checks the statements that it uses.

use abide::{Ctx, Params, Result, Rows};
use abide_component::tables::TablesSql;

use super::schema;

/// The SQL of the outbox's object.
#[derive(Clone, Debug)]
pub(super) struct Sql {
    tables: TablesSql,
    #[cfg(test)]
    statements: std::rc::Rc<std::cell::Cell<usize>>,
}

impl Sql {
    pub(super) fn open(ctx: &Ctx) -> Result<Self> {
        Ok(Self {
            tables: TablesSql::open(ctx, schema::META, schema::prepare)?,
            #[cfg(test)]
            statements: std::rc::Rc::default(),
        })
    }

    /// How many statements were run.
    #[cfg(test)]
    pub(super) fn statements(&self) -> usize {
        self.statements.get()
    }

    /// False if the tables are gone. Call it when earlier transactions are complete.
    pub(super) fn has_tables(&self) -> Result<bool> {
        self.tables.are_there()
    }

    pub(super) fn exec(&self, sql: &str, params: impl Params) -> Result<Rows> {
        #[cfg(debug_assertions)]
        plan::check(self.tables.get()?, sql)?;
        self.exec_on_all(sql, params)
    }

    /// Runs a rare statement that scans all rows.
    pub(super) fn exec_on_all(&self, sql: &str, params: impl Params) -> Result<Rows> {
        #[cfg(test)]
        self.statements.set(self.statements.get() + 1);
        self.tables.exec(sql, params)
    }
}

#[cfg(debug_assertions)]
mod plan {
    use std::{
        collections::BTreeSet,
        sync::{Mutex, PoisonError},
    };

    use abide::{Result, Sql};

    /// Tables that may have very many rows.
    const LARGE: [&str; 4] = [
        "outbox_messages",
        "outbox_dead_letters",
        "outbox_history",
        "outbox_destinations",
    ];

    /// Plans depend on the schema, which is the same for all outboxes: each statement is explained once.
    static CHECKED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

    pub(super) fn check(sql: &Sql, statement: &str) -> Result<()> {
        let checked = || CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
        if checked().contains(statement) {
            return Ok(());
        }
        let explain = format!("EXPLAIN QUERY PLAN {}", with_values(statement));
        let plan: Vec<(i64, i64, i64, String)> = sql.exec(&explain, ())?.all()?;
        for (.., step) in plan {
            assert!(
                !looks_at_all(&step),
                "the outbox must not scan all rows: {step}: {statement}"
            );
        }
        checked().insert(statement.to_owned());
        Ok(())
    }

    /// A plan does not depend on the values of parameters, but they must be bound.
    fn with_values(statement: &str) -> String {
        let mut pieces = statement.split('?');
        let mut text = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            text.push('1');
            text.push_str(piece.trim_start_matches(|c: char| c.is_ascii_digit()));
        }
        text
    }

    fn looks_at_all(step: &str) -> bool {
        let table = step
            .strip_prefix("SCAN ")
            .and_then(|rest| rest.split(' ').next());
        let scans = table.is_some_and(|table| LARGE.contains(&table));
        // Nearly every row may have one status.
        scans || step.contains("TEMP B-TREE") || step.contains("outbox_status (status=?)")
    }

    #[cfg(test)]
    mod tests {
        use super::{looks_at_all, with_values};

        #[test]
        fn steps_that_look_at_every_row_are_told_from_others() {
            assert!(looks_at_all("SCAN outbox_messages"));
            assert!(looks_at_all("SCAN outbox_history USING INDEX some"));
            assert!(looks_at_all("USE TEMP B-TREE FOR ORDER BY"));
            assert!(looks_at_all(
                "SEARCH outbox_messages USING INDEX outbox_status (status=?)"
            ));
            assert!(!looks_at_all(
                "SEARCH outbox_messages USING INDEX outbox_status (status=? AND rowid<?)"
            ));
            assert!(!looks_at_all("SCAN outbox_meta"));
            assert!(!looks_at_all(
                "SEARCH outbox_messages USING INDEX outbox_due (destination=?)"
            ));
        }

        #[test]
        fn every_parameter_gets_a_value() {
            assert_eq!(
                with_values("SELECT a FROM b WHERE c = ?1 AND d < ?12 LIMIT ?2"),
                "SELECT a FROM b WHERE c = 1 AND d < 1 LIMIT 1"
            );
        }
    }
}
