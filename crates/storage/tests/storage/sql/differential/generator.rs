//! Random statements over a few names, so that they often meet what others have made.

use abide_storage::{SplitMix64, Value};

#[derive(Debug)]
pub(crate) enum Step {
    Sql {
        sql: String,
        params: Vec<Value>,
        each: bool,
    },
    EngineWrites(u64),
    Commit,
    OpenAgain,
}

pub(crate) struct Generator(SplitMix64);

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }

    /// One of the texts, with its placeholders filled: `{t}` a table, `{c}` a column, `{v}` a value, `{e}` an expression.
    fn fill(&mut self, from: &[&str]) -> String {
        let mut text = self.pick(from).to_owned();
        while let Some(at) = text.find('{') {
            let filled = match &text[at..=at + 2] {
                "{t}" => self.pick(&["a", "b", "c", "d"]).to_owned(),
                "{c}" => self.pick(&["x", "y", "z", "id"]).to_owned(),
                "{v}" => self.value(),
                "{e}" => self.expression(),
                other => panic!("{other}"),
            };
            text.replace_range(at..=at + 2, &filled);
        }
        text
    }

    fn value(&mut self) -> String {
        match self.below(8) {
            0 => "NULL".to_owned(),
            1 => self
                .pick(&[
                    "'one'",
                    "'Two'",
                    "''",
                    "'été'",
                    "x'0041'",
                    "1.5",
                    "-0.0",
                    "9007199254740993",
                ])
                .to_owned(),
            2 => "?1".to_owned(),
            _ => self.below(12).to_string(),
        }
    }

    fn expression(&mut self) -> String {
        self.fill(&[
            "{c}",
            "{c}",
            "{v}",
            "{c} + {v}",
            "{c} || {v}",
            "coalesce({c}, {v})",
            "{c} IS NULL",
            "{c} = {v}",
            "{c} BETWEEN 2 AND {v}",
            "{c} IN (1, 2, {v})",
            "CASE WHEN {c} > 3 THEN {v} ELSE {c} END",
            "typeof({c})",
            "length({c})",
            "abs({v})",
            "{c} LIKE '%o%'",
            "CAST({c} AS TEXT)",
            "{c} COLLATE NOCASE",
            "json_array({c}, 1)",
            "changes()",
            "(SELECT count(*) FROM {t})",
            "EXISTS (SELECT 1 FROM {t} WHERE {c} = {v})",
            "round({c}, 1)",
        ])
    }

    pub(crate) fn step(&mut self) -> Step {
        match self.below(40) {
            0..2 => Step::EngineWrites(self.below(5)),
            2..6 => Step::Commit,
            6 => Step::OpenAgain,
            _ => self.sql(),
        }
    }

    fn sql(&mut self) -> Step {
        let (mut sql, many) = match self.below(20) {
            0..3 => (self.schema(), false),
            3 => (format!("{}; {}", self.schema(), self.write()), true),
            4..11 => (self.write(), false),
            11 => (format!("{}; {}", self.write(), self.read()), true),
            _ => (self.read(), false),
        };
        let params = if sql.contains("?1") {
            if many {
                // Only one of several statements may have parameters.
                sql = sql.replace("?1", "7");
                vec![]
            } else {
                let number = i64::try_from(self.below(9)).unwrap_or(0);
                let text = Value::Text("Two".to_owned());
                vec![if number > 6 {
                    text
                } else {
                    Value::Integer(number)
                }]
            }
        } else {
            vec![]
        };
        Step::Sql {
            sql,
            params,
            each: !many && self.below(2) == 0,
        }
    }

    fn schema(&mut self) -> String {
        self.fill(&[
            "CREATE TABLE {t} (id INTEGER PRIMARY KEY, x, y TEXT, z INTEGER)",
            "CREATE TABLE IF NOT EXISTS {t} (id INTEGER PRIMARY KEY, x, y, z)",
            "CREATE TABLE IF NOT EXISTS {t} (id INTEGER PRIMARY KEY AUTOINCREMENT, x DEFAULT 7, y UNIQUE, z NOT NULL DEFAULT 1)",
            "CREATE TABLE {t} (id INTEGER PRIMARY KEY, x INTEGER, y TEXT, z ANY) STRICT",
            "CREATE TABLE {t} (id, x, y, z, PRIMARY KEY (x, y)) WITHOUT ROWID",
            "CREATE TABLE {t} (id INTEGER PRIMARY KEY, x REFERENCES {t} DEFERRABLE INITIALLY DEFERRED, y, z CHECK (z <> 4))",
            "CREATE TABLE {t} (id INTEGER PRIMARY KEY, x REFERENCES {t} ON DELETE CASCADE, y AS (x + 1), z AS (y * 2) STORED)",
            "CREATE TABLE {t} AS SELECT 1 AS id, {v} AS x, {v} AS y, {v} AS z",
            "CREATE VIRTUAL TABLE IF NOT EXISTS f USING fts5 (x, y)",
            "CREATE INDEX IF NOT EXISTS i1 ON {t} ({c}, {c})",
            "CREATE UNIQUE INDEX i2 ON {t} ({c}) WHERE {c} > 5",
            "CREATE INDEX i3 ON {t} (lower({c}) DESC)",
            "DROP INDEX IF EXISTS i1",
            "DROP INDEX i2",
            "CREATE VIEW IF NOT EXISTS v AS SELECT id, x, y AS z, z AS y FROM {t}",
            "CREATE VIEW w AS SELECT * FROM {t}",
            "DROP VIEW IF EXISTS v",
            "DROP VIEW w",
            "CREATE TRIGGER IF NOT EXISTS g AFTER INSERT ON {t} BEGIN UPDATE {t} SET x = new.id WHERE id = 3; END",
            "CREATE TRIGGER h BEFORE DELETE ON {t} WHEN old.id = 5 BEGIN SELECT RAISE(ABORT, 'five stays'); END",
            "CREATE TRIGGER k INSTEAD OF INSERT ON v BEGIN INSERT INTO {t} (x) VALUES (new.x); END",
            "DROP TRIGGER IF EXISTS g",
            "DROP TRIGGER h",
            "ALTER TABLE {t} ADD COLUMN more DEFAULT 3",
            "ALTER TABLE {t} RENAME COLUMN {c} TO w",
            "ALTER TABLE {t} RENAME COLUMN w TO x",
            "ALTER TABLE {t} DROP COLUMN {c}",
            "ALTER TABLE {t} RENAME TO {t}",
            "DROP TABLE {t}",
            "DROP TABLE IF EXISTS {t}",
            "REINDEX",
            "ANALYZE",
            "PRAGMA user_version = 5",
            "CREATE TABLE {t}",
            "ALTER TABLE nowhere ADD COLUMN x",
        ])
    }

    fn write(&mut self) -> String {
        self.fill(&[
            "INSERT INTO {t} ({c}, {c}) VALUES ({v}, {v})",
            "INSERT INTO {t} (x, y, z) VALUES ({v}, {v}, {v}), ({v}, {v}, {v})",
            "INSERT INTO {t} (id, x, y) VALUES ({v}, {v}, {v}) RETURNING *",
            "INSERT OR IGNORE INTO {t} (id, x, z) VALUES ({v}, {v}, {v}) RETURNING id, x",
            "INSERT OR REPLACE INTO {t} (id, y) VALUES ({v}, {v})",
            "INSERT OR FAIL INTO {t} (id, y) VALUES (1, {v}), (2, {v}), (1, {v})",
            "INSERT OR ROLLBACK INTO {t} (id, x) VALUES (3, {v})",
            "INSERT INTO {t} (id, x, y) VALUES ({v}, {v}, {v}) ON CONFLICT DO NOTHING",
            "INSERT INTO {t} (id, x) VALUES ({v}, {v}) ON CONFLICT (id) DO UPDATE SET x = excluded.x, y = {v} RETURNING x, y",
            "INSERT INTO {t} (x, y) SELECT {e}, {e} FROM {t}, (SELECT 1 LIMIT 1) LIMIT 5",
            "INSERT INTO {t} DEFAULT VALUES",
            "INSERT INTO {t} VALUES ({v}, {v}, {v}, {v})",
            "WITH c AS (SELECT {v} AS x) INSERT INTO {t} (x) SELECT x FROM c",
            "REPLACE INTO {t} (id, z) VALUES ({v}, {v})",
            "UPDATE {t} SET {c} = {e}",
            "UPDATE {t} SET {c} = {e} WHERE {e} RETURNING *",
            "UPDATE OR IGNORE {t} SET id = {v} WHERE {c} = {v}",
            "UPDATE {t} SET x = o.y FROM {t} AS o WHERE o.id = {t}.id",
            "DELETE FROM {t} WHERE {e}",
            "DELETE FROM {t} WHERE {c} = {v} RETURNING {e}",
            "DELETE FROM {t}",
            "-- a comment\nDELETE FROM {t} WHERE {c} > 8",
            "INSERT INTO f (x, y) VALUES ('one two', {v})",
            "DELETE FROM f WHERE x MATCH 'two'",
            "INSERT INTO v (x) VALUES ({v})",
            "INSERT INTO nowhere VALUES (1)",
        ])
    }

    fn read(&mut self) -> String {
        self.fill(&[
            "SELECT * FROM {t}",
            "SELECT * FROM {t}",
            "SELECT * FROM {t} ORDER BY {c}, {c} DESC LIMIT 3",
            "SELECT {e} AS p, {e}, {e} FROM {t} WHERE {e}",
            "SELECT {c}, count(*), sum(x), min(y), group_concat(z) FROM {t} GROUP BY {c} HAVING count(*) < 5",
            "SELECT DISTINCT {e} FROM {t}",
            "SELECT * FROM {t} JOIN {t} USING (id)",
            "SELECT p.*, q.x FROM {t} AS p LEFT JOIN {t} AS q ON p.x = q.id",
            "SELECT id, row_number() OVER (PARTITION BY x ORDER BY id), sum(z) OVER (ORDER BY id) FROM {t}",
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i, {v} FROM n",
            "SELECT x FROM {t} UNION SELECT y FROM {t} EXCEPT SELECT {v} ORDER BY 1",
            "SELECT * FROM v",
            "SELECT * FROM w",
            "SELECT * FROM f('one')",
            "SELECT changes(), last_insert_rowid()",
            "SELECT key, value FROM json_each('[1, null, \"x\"]')",
            "SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_info('{t}')",
            "PRAGMA table_info({t})",
            "PRAGMA user_version",
            "EXPLAIN QUERY PLAN SELECT 1",
            "VALUES (1, {v}), ({v}, 4)",
            "SELECT {c} FROM {t} WHERE nowhere = 1",
            "SELEC 1",
        ])
    }
}
