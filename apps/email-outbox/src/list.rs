//! Mailing lists: one command, and a mail for each recipient.
//!
//! Contract: a list is stored with its recipients in the transaction that answers the request. Its mails are then
//! created in batches, each once, even if the process ends in between. A list that is canceled or dismissed is deleted
//! with its remaining recipients.

use abide::{Error, Result, Sql, Storage};
use abide::{
    outbox::handlers::{Email, SmtpDelivery},
    outbox::{Batch, Deliver, FanOut, FanOutStatus, Outbox},
};
use serde::{Deserialize, Serialize};

use crate::Draft;

/// Lists that a page shows.
const SHOWN: usize = 3;

/// The newest lists that are considered for display.
const LOOKED_AT: usize = 100;

/// The lists of the outbox's object.
#[derive(Clone, Debug)]
pub struct Lists {
    storage: Storage,
}

/// The progress of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Its fan-out.
    pub id: i64,
    /// Its subject.
    pub subject: String,
    /// Recipients.
    pub total: i64,
    /// Created mails.
    pub made: i64,
    /// Its status.
    pub status: FanOutStatus,
    /// Why it failed.
    pub error: Option<String>,
}

/// The content of a list's mails.
#[derive(Serialize, Deserialize)]
struct Letter {
    from: String,
    subject: String,
    text: String,
}

impl Lists {
    /// Makes the tables.
    pub(crate) fn open(storage: &Storage) -> Result<Self> {
        storage.sql().exec(
            "CREATE TABLE IF NOT EXISTS lists (
                 id INTEGER PRIMARY KEY, letter TEXT NOT NULL, total INTEGER NOT NULL, fan_out INTEGER
             )",
            (),
        )?;
        storage.sql().exec(
            "CREATE INDEX IF NOT EXISTS lists_by_fan_out ON lists (fan_out)",
            (),
        )?;
        storage.sql().exec(
            "CREATE TABLE IF NOT EXISTS recipients (
                 list INTEGER NOT NULL, place INTEGER NOT NULL, address TEXT NOT NULL, PRIMARY KEY (list, place)
             ) WITHOUT ROWID",
            (),
        )?;
        Ok(Self {
            storage: storage.clone(),
        })
    }

    /// Stores a list and begins to create its mails, or does neither. Returns the fan-out's id.
    pub(crate) fn begin(
        &self,
        outbox: &Outbox,
        from: &str,
        draft: Draft,
    ) -> Result<i64, abide::outbox::OutboxError> {
        let sql = self.storage.sql();
        let letter = Letter {
            from: from.to_owned(),
            subject: draft.subject,
            text: draft.text,
        };
        let letter = serde_json::to_string(&letter).map_err(Error::from_std)?;
        let total = i64::try_from(draft.to.len()).unwrap_or(i64::MAX);
        self.storage.transaction(|| {
            let list: i64 = sql
                .exec(
                    "INSERT INTO lists (letter, total) VALUES (?1, ?2) RETURNING id",
                    (letter, total),
                )?
                .one()?;
            for (place, address) in (1_i64..).zip(&draft.to) {
                sql.exec(
                    "INSERT INTO recipients (list, place, address) VALUES (?1, ?2, ?3)",
                    (list, place, address),
                )?;
            }
            let fan_out = outbox.fan_out::<Mailing>(&MailTo { list })?;
            sql.exec(
                "UPDATE lists SET fan_out = ?2 WHERE id = ?1",
                (list, fan_out),
            )?;
            Ok(fan_out)
        })
    }

    /// The newest lists and their progress: first those that may need an operator.
    pub(crate) fn newest(&self, outbox: &Outbox) -> Result<Vec<Progress>> {
        let mut all = Vec::new();
        let open = |status| matches!(status, FanOutStatus::Running | FanOutStatus::Failed);
        let (open, ended): (Vec<_>, Vec<_>) = outbox
            .fan_outs(LOOKED_AT)?
            .into_iter()
            .partition(|record| open(record.status));
        for record in open.into_iter().chain(ended) {
            if all.len() == SHOWN {
                break;
            }
            let found: Option<(String, i64)> = self
                .sql()
                .exec(
                    "SELECT letter, total FROM lists WHERE fan_out = ?1",
                    (record.id,),
                )?
                .optional()?;
            let Some((letter, total)) = found else {
                continue;
            };
            all.push(Progress {
                id: record.id,
                subject: letter_of(&letter)?.subject,
                total,
                made: record.made,
                status: record.status,
                error: record.error,
            });
        }
        Ok(all)
    }

    /// Deletes a list that has ended, and its recipients.
    pub(crate) fn forget(&self, fan_out: i64) -> Result<()> {
        let sql = self.sql();
        sql.exec(
            "DELETE FROM recipients WHERE list IN (SELECT id FROM lists WHERE fan_out = ?1)",
            (fan_out,),
        )?;
        sql.exec("DELETE FROM lists WHERE fan_out = ?1", (fan_out,))?;
        Ok(())
    }

    fn sql(&self) -> Sql {
        self.storage.sql()
    }
}

fn letter_of(text: &str) -> Result<Letter> {
    serde_json::from_str(text).map_err(Error::from_std)
}

/// The fan-out of a list.
#[derive(Clone, Copy, Debug)]
pub struct Mailing;

/// Which list.
#[derive(Debug, Serialize, Deserialize)]
pub struct MailTo {
    list: i64,
}

impl FanOut for Mailing {
    type Command = MailTo;
    const NAME: &'static str = "list";

    fn batch(
        &self,
        storage: &Storage,
        command: &MailTo,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Batch> {
        let sql = storage.sql();
        let list = command.list;
        let letter: String = sql
            .exec("SELECT letter FROM lists WHERE id = ?1", (list,))?
            .one()?;
        let letter = letter_of(&letter)?;
        let after: i64 = after.map_or(Ok(0), str::parse).map_err(Error::from_std)?;
        let recipients: Vec<(i64, String)> = sql
            .exec(
                "SELECT place, address FROM recipients WHERE list = ?1 AND place > ?2 ORDER BY place LIMIT ?3",
                (list, after, i64::try_from(limit).unwrap_or(i64::MAX)),
            )?
            .all()?;
        let end = recipients.last().map(|(place, _)| *place);
        let mut messages = Vec::with_capacity(recipients.len());
        for (_, address) in &recipients {
            let mail = Email::new(&*letter.from, &*letter.subject)
                .to(address)
                .text(&*letter.text);
            messages.push(SmtpDelivery::message(&mail)?);
        }
        // Recipients whose mails were created are deleted.
        if let Some(end) = end {
            sql.exec(
                "DELETE FROM recipients WHERE list = ?1 AND place <= ?2",
                (list, end),
            )?;
        }
        Ok(Batch {
            next: end
                .filter(|_| recipients.len() == limit)
                .map(|end| end.to_string()),
            messages,
        })
    }
}
