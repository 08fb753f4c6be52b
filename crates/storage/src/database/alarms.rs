//! The alarms of an object, as its database holds them. The unnamed alarm is a row of `_abide_meta`: JSON text under
//! the key `alarm`. Named alarms are rows of `_abide_alarms`, a table that is created for the first of them.

use super::ObjectDb;
use crate::alarm_entry::{AlarmChange, AlarmEntry};
use crate::alarms::AlarmRow;
use crate::error::{Error, Result};
use crate::limits::{MAX_ALARM_NAME_BYTES, MAX_NAMED_ALARMS};
use crate::timeline::TimelineRow;
use std::collections::BTreeMap;

/// What a connection knows of its object's alarms.
#[derive(Debug, Default)]
pub(crate) enum KnownAlarms {
    /// The rows have not been read yet.
    #[default]
    Unread,
    /// The contents of the rows.
    Read(Alarms),
}

#[derive(Debug, Default)]
pub(crate) struct Alarms {
    /// By name; the unnamed alarm has the empty name.
    rows: BTreeMap<Box<str>, AlarmRow>,
    /// The table `_abide_alarms` exists.
    has_table: bool,
    /// A restore is to be performed at once: the object is due, whatever its alarms are.
    due_for_restore: bool,
    /// When the object is due to be told of its timeline, in steady time ([`ClockTime::steady`](crate::ClockTime::steady)). That comes before its alarms.
    tell_at: Option<i64>,
    /// The object's alarms do not go off.
    dormant: bool,
}

impl Alarms {
    /// The pending alarm that is due first.
    fn first(&self, set_back: i64) -> Option<(&str, &AlarmRow)> {
        let pending = self.rows.iter().filter(|(_, row)| !row.failed);
        pending
            .map(|(name, row)| (&**name, row))
            .min_by_key(|(_, row)| row.entry().due_at(set_back))
    }

    fn has_names(&self) -> bool {
        self.rows.keys().any(|name| !name.is_empty())
    }

    /// The entry for the index.
    ///
    /// The object stays a suspect until every unfinished attempt of an earlier process has been repeated. Apart from
    /// `cut_off`, the entry does not depend on the current process, because the next process reads it as it is.
    fn entry(&self, generation: u32, set_back: i64) -> Option<AlarmEntry> {
        if self.is_silent() && !self.due_for_restore {
            return None;
        }
        let entry = self.entry_of_rows(generation, set_back);
        let (due, wait) = match (self.due_for_restore, self.tell_at) {
            (true, _) => (0, false),
            (false, Some(tell_at)) if !self.dormant => (tell_at, true),
            (false, _) => return entry,
        };
        Some(AlarmEntry {
            due,
            failed: false,
            wait,
            ..entry.unwrap_or(AlarmEntry::at(0))
        })
    }

    fn is_silent(&self) -> bool {
        self.dormant
    }

    fn entry_of_rows(&self, generation: u32, set_back: i64) -> Option<AlarmEntry> {
        let of = |row: &AlarmRow| AlarmEntry {
            cut_off: !row.failed && row.was_cut_off(generation),
            ..row.entry()
        };
        let first = self.first(set_back).map(|(_, row)| row);
        let first = of(first.or_else(|| self.rows.values().next())?);
        if !self.has_names() {
            return Some(first);
        }
        let all = || self.rows.values().map(of);
        let wait = all().any(|entry| entry.wait);
        Some(AlarmEntry {
            // A wait may become the first when the clock is set back.
            due: if wait && !first.wait {
                first.due.saturating_add(set_back)
            } else {
                first.due
            },
            wait,
            failing: all().any(|entry| entry.failing),
            begun: all().filter_map(|entry| entry.begun).max(),
            cut_off: all().any(|entry| entry.cut_off),
            named: true,
            some_failed: all().any(|entry| entry.failed),
            ..first
        })
    }
}

impl ObjectDb {
    /// The object's unnamed alarm, as of the current transaction.
    pub fn alarm(&self) -> Result<Option<AlarmRow>> {
        self.named_alarm("")
    }

    /// The alarm with this name, as of the current transaction. The unnamed alarm has the empty name.
    pub fn named_alarm(&self, name: &str) -> Result<Option<AlarmRow>> {
        self.with_alarms(|alarms| alarms.rows.get(name).cloned())
    }

    /// All alarms of the object by name, as of the current transaction.
    pub fn alarms(&self) -> Result<Vec<(Box<str>, AlarmRow)>> {
        self.with_alarms(|alarms| {
            let rows = alarms.rows.iter();
            rows.map(|(name, row)| (name.clone(), row.clone()))
                .collect()
        })
    }

    /// The pending alarm that is due first; `None` if the object is dormant.
    pub fn first_alarm(&self) -> Result<Option<(Box<str>, AlarmRow)>> {
        let set_back = self.set_back();
        self.with_alarms(|alarms| {
            if alarms.is_silent() {
                return None;
            }
            let first = alarms.first(set_back);
            first.map(|(name, row)| (name.into(), row.clone()))
        })
    }

    /// The index entry that the object's alarms should have.
    pub fn alarm_entry(&self) -> Result<Option<AlarmEntry>> {
        let (generation, set_back) = (self.generation(), self.set_back());
        self.with_alarms(|alarms| alarms.entry(generation, set_back))
    }

    /// Sets or removes the object's unnamed alarm, in the current transaction.
    pub fn set_alarm(&self, alarm: Option<&AlarmRow>) -> Result<()> {
        self.set_named_alarm("", alarm)
    }

    /// Sets or removes the alarm with this name, in the current transaction.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the name is too long, or the object already has the maximum
    /// number of named alarms.
    pub fn set_named_alarm(&self, name: &str, alarm: Option<&AlarmRow>) -> Result<()> {
        if name.len() > MAX_ALARM_NAME_BYTES {
            return Err(Error::input(format!(
                "an alarm name has at most {MAX_ALARM_NAME_BYTES} bytes; this one has {}",
                name.len()
            )));
        }
        let (is_new, named, has_table) = self.with_alarms(|alarms| {
            let is_new = !alarms.rows.contains_key(name);
            let named = alarms.rows.len() - usize::from(alarms.rows.contains_key(""));
            (is_new, named, alarms.has_table)
        })?;
        if is_new && alarm.is_none() {
            // The index may still be out of date, so the entry is committed again.
            return self.begin().map(|()| self.touch_alarm());
        }
        if is_new && !name.is_empty() && named >= MAX_NAMED_ALARMS {
            return Err(Error::input(format!(
                "an object has at most {MAX_NAMED_ALARMS} named alarms: keep further times in a table and set one alarm to the earliest"
            )));
        }
        self.begin()?;
        self.touch_alarm();
        let mut known = self.known_alarms.take();
        if !name.is_empty() && !has_table {
            let sql = "CREATE TABLE _abide_alarms (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID/*abide*/";
            self.internal(sql, ())?;
        }
        match alarm {
            None if name.is_empty() => {
                self.internal("DELETE FROM _abide_meta WHERE key = 'alarm'/*abide*/", ())
            }
            None => self.internal("DELETE FROM _abide_alarms WHERE name = ?1/*abide*/", [name]),
            Some(alarm) => {
                let text = serde_json::to_string(alarm)
                    .map_err(|error| Error::input(format!("encoding the alarm: {error}")))?;
                if name.is_empty() {
                    let sql = "INSERT INTO _abide_meta (key, value) VALUES ('alarm', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1/*abide*/";
                    self.internal(sql, [text])
                } else {
                    let sql = "INSERT INTO _abide_alarms (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2/*abide*/";
                    self.internal(sql, [name, &text])
                }
            }
        }?;
        if let KnownAlarms::Read(alarms) = &mut known {
            alarms.has_table |= !name.is_empty();
            match alarm {
                Some(alarm) => alarms.rows.insert(name.into(), alarm.clone()),
                None => alarms.rows.remove(name),
            };
        }
        *self.known_alarms.borrow_mut() = known;
        Ok(())
    }

    /// Removes all alarms, in the current transaction.
    pub(crate) fn clear_alarms(&self) -> Result<()> {
        self.begin()?;
        self.touch_alarm();
        self.known_alarms.take();
        self.internal("DELETE FROM _abide_meta WHERE key = 'alarm'/*abide*/", ())?;
        self.internal("DROP TABLE IF EXISTS _abide_alarms/*abide*/", ())?;
        Ok(())
    }

    /// Commits the object's alarms again, whether or not they have changed, to correct the index.
    pub fn repeat_alarms(&self) -> Result<()> {
        self.begin()?;
        self.touch_alarm();
        self.next_bookmark();
        Ok(())
    }

    /// The change that the transaction makes to the alarms, if it has touched any.
    pub(crate) fn alarm_change(&self) -> Result<AlarmChange> {
        Ok(match self.alarm_entry()? {
            Some(entry) => AlarmChange::Set(entry),
            None => AlarmChange::Cleared,
        })
    }

    fn with_alarms<R>(&self, f: impl FnOnce(&Alarms) -> R) -> Result<R> {
        if let KnownAlarms::Read(alarms) = &*self.known_alarms.borrow() {
            return Ok(f(alarms));
        }
        let alarms = self.read_alarms()?;
        let result = f(&alarms);
        *self.known_alarms.borrow_mut() = KnownAlarms::Read(alarms);
        Ok(result)
    }

    fn read_alarms(&self) -> Result<Alarms> {
        let mut alarms = Alarms::default();
        let own = "SELECT '', value FROM _abide_meta WHERE key = 'alarm'/*abide*/";
        self.read_alarms_of(own, &mut alarms.rows)?;
        let present = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = '_abide_alarms'),
            EXISTS (SELECT 1 FROM _abide_meta WHERE key = 'restore_at_once'),
            (SELECT value FROM _abide_meta WHERE key = 'timeline')/*abide*/";
        let present = self.internal_row(present, (), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, Option<String>>(2)?))
        })?;
        let timeline;
        (alarms.has_table, alarms.due_for_restore, timeline) = present.unwrap_or_default();
        if let Some(timeline) = timeline {
            let timeline = TimelineRow::read(&timeline)?;
            alarms.tell_at = timeline.untold.map(|untold| untold.due);
            alarms.dormant = timeline.dormant;
        }
        if alarms.has_table {
            let named = "SELECT name, value FROM _abide_alarms/*abide*/";
            self.read_alarms_of(named, &mut alarms.rows)?;
        }
        Ok(alarms)
    }

    fn read_alarms_of(
        &self,
        sql: &'static str,
        rows: &mut BTreeMap<Box<str>, AlarmRow>,
    ) -> Result<()> {
        self.internal_rows(sql, (), |row| {
            let read = |at| row.get::<_, String>(at).map_err(|e| self.sql_error(&e));
            let (name, text) = (read(0)?, read(1)?);
            let alarm = serde_json::from_str(&text).map_err(|error| {
                let what = match &*name {
                    "" => "the object's alarm".to_owned(),
                    name => format!("the object's alarm {name:?}"),
                };
                Error::damaged(format!("{what} cannot be read: {error}"))
            })?;
            rows.insert(name.into(), alarm);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarm_entry::Isolation;
    use crate::alarms::BegunAttempt;

    /// The index keeps what it was told in an earlier epoch.
    #[test]
    fn attempts_of_two_processes_look_the_same_to_a_third() {
        let begun = |epoch, isolation| AlarmRow {
            begun: Some(BegunAttempt { epoch, isolation }),
            ..AlarmRow::at(50)
        };
        let rows = [
            ("first".into(), begun(1, Isolation::Free)),
            ("second".into(), begun(2, Isolation::Few)),
        ];
        let alarms = Alarms {
            rows: rows.into(),
            has_table: true,
            ..Alarms::default()
        };
        let told = alarms.entry(2, 0);
        assert!(told.is_some_and(|entry| entry.cut_off), "{told:?}");
        assert!(AlarmEntry::agree(told, alarms.entry(3, 0)), "{told:?}");
    }
}
