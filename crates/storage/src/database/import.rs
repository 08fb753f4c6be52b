//! Imports: the database of a new object comes from a file, of an object or made by another program.

use super::{ObjectDb, State};
use crate::error::{Error, Result};
use crate::guard::reserved;
use crate::ident::Position;
use crate::template;
use crate::timeline::{Afterwards, TimelineId, TimelineRow};

/// The reserved tables that a database may have, with their columns.
const RESERVED: [(&str, &str); 4] = [
    ("_abide_kv", "key,value"),
    ("_abide_meta", "key,value"),
    ("_abide_alarms", "name,value"),
    (
        "_abide_idempotency",
        "seq,key,method,fingerprint,result,time,bytes,total",
    ),
];

/// The timelines in an object's rows.
#[derive(Default)]
struct Timelines {
    born: Option<TimelineId>,
    present: Option<TimelineRow>,
}

impl ObjectDb {
    /// Returns an error unless the database, which is staged, is one that an object can have. SQLite has not checked its pages.
    pub(crate) fn must_be_importable(&self) -> Result<()> {
        let mut virtual_tables = Vec::new();
        let all = "SELECT type, name, tbl_name, rootpage FROM sqlite_schema/*abide*/";
        self.internal_rows(all, (), |row| {
            let text = |at| row.get::<_, String>(at).map_err(|e| self.sql_error(&e));
            let (kind, name, table) = (text(0)?, text(1)?, text(2)?);
            let page: Option<i64> = row.get(3).map_err(|e| self.sql_error(&e))?;
            if kind == "table" && page.unwrap_or(0) == 0 {
                virtual_tables.push(name.clone());
            }
            if !reserved(&name) && !reserved(&table) {
                return Ok(());
            }
            let is_known = RESERVED.iter().any(|(known, _)| *known == table);
            let is_own = match &*kind {
                "table" => name == table,
                "index" => name.starts_with("sqlite_autoindex_"),
                _ => false,
            };
            if is_known && is_own {
                return Ok(());
            }
            Err(Error::input(format!(
                "the {kind} {name:?} is not one of an object: names that begin with {} are reserved; rename or drop it",
                template::RESERVED_PREFIX
            )))
        })?;
        for (table, columns) in RESERVED {
            let found = "SELECT group_concat(name, ',') FROM pragma_table_info(?1)/*abide*/";
            let found = self.internal_row(found, [table], |row| row.get::<_, Option<String>>(0))?;
            if let Some(found) = found.flatten()
                && found != columns
            {
                return Err(Error::input(format!(
                    "the table {table} has the columns {found} instead of {columns}: it is not of an object; drop it"
                )));
            }
        }
        for table in virtual_tables {
            let quoted = table.replace('"', "\"\"");
            let read = self.exec(&format!("SELECT * FROM \"{quoted}\" LIMIT 0"), ());
            read.map_err(|error| {
                Error::input(format!(
                    "the virtual table {table:?} cannot be used: {error}; drop it"
                ))
            })?;
        }
        if self.has_meta()? {
            self.alarms()?;
        }
        Ok(())
    }

    /// The highest position of a timeline that the database knows of.
    pub(crate) fn newest_timeline(&self) -> Result<Option<Position>> {
        let Timelines { born, present } = self.stored_timelines()?;
        let present = present.map(|row| row.id);
        Ok(born.max(present).map(|id| id.at()))
    }

    fn stored_timelines(&self) -> Result<Timelines> {
        let mut found = Timelines::default();
        if !self.has_meta()? {
            return Ok(found);
        }
        let rows = "SELECT key, value FROM _abide_meta WHERE key IN ('born', 'timeline')/*abide*/";
        self.internal_rows(rows, (), |row| {
            let text = |at| row.get::<_, String>(at).map_err(|e| self.sql_error(&e));
            let (key, value) = (text(0)?, text(1)?);
            if key == "born" {
                found.born = Some(value.parse()?);
            } else {
                found.present = Some(TimelineRow::read(&value)?);
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn has_meta(&self) -> Result<bool> {
        let has = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = '_abide_meta')/*abide*/";
        let has = self.internal_row(has, (), |row| row.get(0))?;
        Ok(has.unwrap_or(false))
    }

    /// Commits the staged pages as those of a new object. If it is dormant, it does not know the results of calls of the object
    /// that it was: their callers did not call it.
    pub(crate) fn commit_imported(
        &self,
        name: Option<&str>,
        source: [u8; 32],
        afterwards: Afterwards,
    ) -> Result<()> {
        let before = self.stored_timelines()?.present;
        self.begin_in_any()?;
        let dormant =
            afterwards == Afterwards::Dormant || before.is_some_and(|before| before.dormant);
        self.begin_imported(source, afterwards, dormant)?;
        if dormant {
            self.remember_only(&[])?;
        }
        match name {
            Some(name) => self.store_name(name)?,
            None => {
                self.internal("DELETE FROM _abide_meta WHERE key = 'name'/*abide*/", ())?;
            }
        }
        self.forget_requested_restore()?;
        self.commit_staged()
    }

    /// Begins the transaction in a database that may lack the reserved tables.
    fn begin_in_any(&self) -> Result<()> {
        self.control(&self.begin)?;
        self.state.set(State::Transaction);
        self.bound.set(self.file.bound());
        for table in template::TABLES {
            self.internal(table, ())?;
        }
        self.store_identity()
    }
}
