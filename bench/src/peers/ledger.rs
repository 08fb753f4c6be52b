//! The bank in plain SQLite: one file, one connection, one thread that writes, as fast as that can be.
//!
//! A commit is durable (WAL, `synchronous=FULL`) before its transfers count. With `batch` above 1 this many transfers share a
//! commit, which is what a program does that has them waiting; each still checks its balance.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use rusqlite::{Connection, params};

use crate::{
    figures::Latencies,
    transfers::{BALANCE, BALANCE_AT_FIRST, FILL, SCHEMA, SET, TOTAL, Transfer, Transfers},
};

pub(crate) const NAME: &str = "SQLite, one writer, WAL, synchronous=FULL";

pub(crate) struct Ledger {
    db: Connection,
    transfers: Transfers,
    accounts: i64,
}

impl Ledger {
    pub(crate) fn create(dir: &Path, accounts: i64, transfers: Transfers) -> Result<Self> {
        let db = Connection::open(dir.join("bank.sqlite"))?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.execute_batch(SCHEMA)?;
        db.execute(FILL, params![accounts, BALANCE_AT_FIRST])?;
        Ok(Self {
            db,
            transfers,
            accounts,
        })
    }

    /// The latency of each transfer that was durable within the time.
    pub(crate) fn run(&mut self, batch: usize, length: Duration) -> Result<Latencies> {
        let (mut latencies, begun) = (Latencies::default(), Instant::now());
        loop {
            let start = Instant::now();
            self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            for transfer in self.transfers.by_ref().take(batch) {
                transfer_in(&self.db, transfer)?;
            }
            self.db.prepare_cached("COMMIT")?.execute([])?;
            let now = Instant::now();
            if now - begun > length {
                return Ok(latencies);
            }
            (0..batch).for_each(|_| latencies.push(now - start));
        }
    }

    /// No money was made or lost.
    pub(crate) fn check(&self) -> Result<()> {
        let total: i64 = self.db.query_row(TOTAL, [], |row| row.get(0))?;
        ensure!(
            total == self.accounts * BALANCE_AT_FIRST,
            "the peer has {total}"
        );
        Ok(())
    }
}

fn transfer_in(db: &Connection, Transfer { from, to, amount }: Transfer) -> Result<()> {
    let balance = |id| -> rusqlite::Result<i64> {
        db.prepare_cached(BALANCE)?
            .query_row([id], |row| row.get(0))
    };
    let (paying, paid) = (balance(from)?, balance(to)?);
    ensure!(paying >= amount, "account {from} has only {paying}");
    db.prepare_cached(SET)?.execute([from, paying - amount])?;
    db.prepare_cached(SET)?.execute([to, paid + amount])?;
    Ok(())
}
