//! The tables of a document: its snapshot, and the updates since.
//!
//! `yjs_updates` has a document as the updates that make it, in the order in which they came. A long one takes several rows; all but its
//! last say that there is `more`. A snapshot is an update, too: the first, which took the place of all that it was merged from.
//! Ids only rise.

use abide::{Error, ErrorKind, Result, Storage};
use abide_component::tables;
use serde_bytes::ByteBuf;

use super::limits::PART_BYTES;

/// The version of the tables, kept in `yjs_meta`.
const VERSION: i64 = 1;

const DEFINITIONS: &str = "
    CREATE TABLE yjs_updates (
        id   INTEGER PRIMARY KEY,
        more INTEGER NOT NULL,
        data BLOB NOT NULL
    );
    CREATE TABLE yjs_meta (
        version     INTEGER NOT NULL,
        snapshot    INTEGER NOT NULL DEFAULT 0,
        quarantined INTEGER NOT NULL DEFAULT 0
    );
";

#[derive(Clone, Debug)]
pub(super) struct UpdateRows {
    storage: Storage,
}

impl UpdateRows {
    /// Makes the tables if the object has none.
    pub(super) fn open(storage: &Storage) -> Result<Self> {
        tables::prepare(storage, "document", "yjs_meta", VERSION, |sql| {
            sql.exec(DEFINITIONS, ()).map(drop)
        })?;
        Ok(Self {
            storage: storage.clone(),
        })
    }

    /// The last row of the snapshot; 0 if there is none.
    pub(super) fn snapshot(&self) -> Result<i64> {
        let snapshot = "SELECT snapshot FROM yjs_meta";
        self.storage.sql().exec(snapshot, ())?.one()
    }

    /// Whether the document was found to take too long to read.
    pub(super) fn is_quarantined(&self) -> Result<bool> {
        let quarantined = "SELECT quarantined FROM yjs_meta";
        self.storage.sql().exec(quarantined, ())?.one()
    }

    pub(super) fn quarantine(&self) -> Result<()> {
        let quarantine = "UPDATE yjs_meta SET quarantined = 1";
        self.storage.sql().exec(quarantine, ()).map(drop)
    }

    /// Each update, with the id of its last row.
    pub(super) fn read(&self) -> Result<Vec<(i64, Vec<u8>)>> {
        let mut all = Vec::new();
        let mut update = Vec::new();
        let mut cut_off = false;
        let rows = "SELECT id, more, data FROM yjs_updates ORDER BY id";
        self.storage.sql().for_each(rows, (), |row| {
            let (id, more, data): (i64, bool, ByteBuf) = row.get()?;
            update.extend_from_slice(&data);
            cut_off = more;
            if !more {
                all.push((id, std::mem::take(&mut update)));
            }
            Ok(())
        })?;
        if cut_off {
            return Err(damaged("its last update is cut off"));
        }
        Ok(all)
    }

    /// Appends an update after the last row; returns the id of its own last row.
    pub(super) fn append(&self, last: i64, update: &[u8]) -> Result<i64> {
        if update.len() <= PART_BYTES {
            return self.insert(last, update);
        }
        self.storage.transaction(|| self.insert(last, update))
    }

    /// Puts a snapshot in the place of all updates; returns the id of its last row.
    pub(super) fn replace(&self, last: i64, snapshot: &[u8]) -> Result<i64> {
        let sql = self.storage.sql();
        self.storage.transaction(|| {
            sql.exec("DELETE FROM yjs_updates", ())?;
            let last = self.insert(last, snapshot)?;
            sql.exec("UPDATE yjs_meta SET snapshot = ?1", (last,))?;
            Ok(last)
        })
    }

    fn insert(&self, mut last: i64, update: &[u8]) -> Result<i64> {
        let sql = self.storage.sql();
        let mut parts = update.chunks(PART_BYTES).peekable();
        while let Some(part) = parts.next() {
            last += 1;
            let more = parts.peek().is_some();
            let insert = "INSERT INTO yjs_updates (id, more, data) VALUES (?1, ?2, ?3)";
            sql.exec(insert, (last, more, part))?;
        }
        Ok(last)
    }
}

pub(super) fn damaged(what: &str) -> Error {
    let text = format!("the stored document is damaged: {what}");
    Error::with_kind(ErrorKind::Damaged, text)
}
