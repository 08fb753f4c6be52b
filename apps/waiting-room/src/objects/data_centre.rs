//! The object of one data centre: who is inside and who waits there, and what the other data centres have said last.
//!
//! Contract: what a worker reports is on disk before the worker hears that it is. The same report again changes nothing. The state that a
//! worker is given for a minute counts everybody whom this data centre let in before that minute, also those of whom a worker that was
//! killed never told.

use std::{cell::RefCell, collections::BTreeMap};

use abide::prelude::*;
use serde::{Deserialize, Serialize};

use super::{TicketCounter, counter::counter_name};
use crate::{
    logic::{
        merge::RoomState,
        minute::Minute,
        report::{Lane, REPORTED_MINUTES, Report},
    },
    ticket::VisitorId,
};

/// A worker that has not reported for so long is not active.
const WORKER_SILENCE: u64 = 60_000;
/// A data centre that nobody has heard of for so long has no part of the slots.
const PEER_SILENCE: u64 = 60_000;

const OPEN_MINUTE: &str = "open_minute";

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS sessions (visitor BLOB PRIMARY KEY, seen INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS sessions_by_time ON sessions (seen);
    CREATE TABLE IF NOT EXISTS waiting (visitor BLOB PRIMARY KEY, bucket INTEGER NOT NULL, seen INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS waiting_by_bucket ON waiting (bucket);
    CREATE INDEX IF NOT EXISTS waiting_by_time ON waiting (seen);
    CREATE TABLE IF NOT EXISTS admitted (visitor BLOB PRIMARY KEY, minute INTEGER NOT NULL, lane INTEGER NOT NULL,
        is_from_anywhere INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS admitted_by_minute ON admitted (minute, lane);
    CREATE TABLE IF NOT EXISTS arrivals (minute INTEGER PRIMARY KEY, count INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS workers (name TEXT PRIMARY KEY, seen INTEGER NOT NULL) WITHOUT ROWID";

/// One data centre of one room.
#[durable_object]
pub struct DataCentre {
    state: State,
    env: Env,
    /// What the others have said. The driver asks again after a start, before anybody is let in.
    peers: RefCell<BTreeMap<String, Report>>,
}

/// What an object has to know of its room.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Terms {
    /// The room's name.
    pub room: String,
    /// The data centre's.
    pub data_centre: String,
    /// How long a minute is, in milliseconds.
    pub minute_millis: u64,
    /// For so long after the last report of a visitor the visitor counts as inside.
    pub session_millis: u64,
    /// For so long after the last look at the queue a visitor counts as waiting.
    pub patience_millis: u64,
}

/// What a worker has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Happening {
    /// A new visitor was queued.
    Joined {
        /// Who.
        visitor: VisitorId,
        /// Where.
        bucket: Minute,
    },
    /// Somebody was let in.
    Admitted {
        /// Who.
        visitor: VisitorId,
        /// When.
        minute: Minute,
        /// Where they stood.
        lane: Lane,
        /// With a number of *Anywhere*.
        is_from_anywhere: bool,
    },
    /// A new visitor was turned away.
    TurnedAway {
        /// When.
        minute: Minute,
    },
    /// A visitor who is inside sent a request.
    Seen {
        /// Who.
        visitor: VisitorId,
    },
    /// A visitor who waits looked at the queue.
    Looked {
        /// Who.
        visitor: VisitorId,
        /// Where.
        bucket: Minute,
    },
}

impl DurableObject for DataCentre {
    fn new(state: State, env: Env) -> Result<Self> {
        state.storage().sql().exec(SCHEMA, ())?;
        Ok(Self {
            state,
            env,
            peers: RefCell::default(),
        })
    }
}

#[rpc]
impl DataCentre {
    /// The process begins. Whoever waited could not look at the queue meanwhile, and has not left for that; whoever had a number, of whom
    /// no worker has told, is inside.
    pub async fn resume(&self, terms: Terms, now: u64) -> Result<()> {
        self.sql().exec("UPDATE waiting SET seen = ?", (now,))?;
        self.sql().exec("DELETE FROM workers", ())?;
        if let Some(open) = self.state.storage().get::<Minute>(OPEN_MINUTE)? {
            let name = counter_name(&terms.room, &terms.data_centre, open);
            let counter = self.env.object::<TicketCounter>().get_by_name(&name);
            for (visitor, lane) in counter.given(open).await?? {
                self.admit(visitor, open, lane, false, now)?;
            }
        }
        Ok(())
    }

    /// Takes what a worker has to tell; the state of the room, as this data centre knows it.
    pub async fn report(
        &self,
        terms: Terms,
        now: u64,
        worker: String,
        happenings: Vec<Happening>,
    ) -> Result<RoomState> {
        let minute = Minute::at(now, terms.minute_millis);
        let minute = self.turn(&terms, minute, now).await?;
        self.sql().exec(
            "INSERT INTO workers (name, seen) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET seen = max(seen, ?2)",
            (worker, now),
        )?;
        for happening in happenings {
            self.note(happening, now, terms.minute_millis)?;
        }
        self.forget(&terms, minute, now)?;
        let mut reports = vec![self.own_report(&terms, minute, now)?];
        reports.extend(self.peers(&terms, now));
        Ok(RoomState::merge(&terms.data_centre, minute, reports))
    }

    /// What the other data centres are told.
    pub async fn summary(&self, terms: Terms, now: u64) -> Result<Report> {
        let minute = self
            .turn(&terms, Minute::at(now, terms.minute_millis), now)
            .await?;
        self.forget(&terms, minute, now)?;
        self.own_report(&terms, minute, now)
    }

    /// Hears what the other data centres have said.
    pub async fn hear(&self, reports: Vec<Report>) -> Result<()> {
        let mut peers = self.peers.borrow_mut();
        for report in reports {
            let known = peers.get(&report.data_centre);
            if known.is_none_or(|known| known.at <= report.at) {
                peers.insert(report.data_centre.clone(), report);
            }
        }
        Ok(())
    }
}

impl DataCentre {
    fn sql(&self) -> Sql {
        self.state.storage().sql()
    }

    /// Begins a minute: the last one's counter gives no more numbers, and everybody who had one is noted.
    async fn turn(&self, terms: &Terms, minute: Minute, now: u64) -> Result<Minute> {
        let open = self.state.storage().get::<Minute>(OPEN_MINUTE)?;
        let Some(open) = open else {
            self.state.storage().put(OPEN_MINUTE, &minute)?;
            return Ok(minute);
        };
        // The clock may have been set back.
        if open >= minute {
            return Ok(open);
        }
        let name = counter_name(&terms.room, &terms.data_centre, open);
        let counter = self.env.object::<TicketCounter>().get_by_name(&name);
        for (visitor, lane) in counter.close(open).await?? {
            self.admit(visitor, open, lane, false, now)?;
        }
        // A later minute may have begun while the counter was asked.
        let minute = self
            .state
            .storage()
            .get(OPEN_MINUTE)?
            .map_or(minute, |open: Minute| open.max(minute));
        self.state.storage().put(OPEN_MINUTE, &minute)?;
        Ok(minute)
    }

    fn note(&self, happening: Happening, now: u64, minute_millis: u64) -> Result<()> {
        match happening {
            Happening::Joined { visitor, bucket } => {
                if self.wait(visitor, bucket, now)? {
                    self.arrive(Minute::at(now, minute_millis))?;
                }
            }
            Happening::Admitted {
                visitor,
                minute,
                lane,
                is_from_anywhere,
            } => self.admit(visitor, minute, lane, is_from_anywhere, now)?,
            Happening::TurnedAway { minute } => self.arrive(minute)?,
            Happening::Seen { visitor } => self.see(visitor, now)?,
            Happening::Looked { visitor, bucket } => {
                self.wait(visitor, bucket, now)?;
            }
        }
        Ok(())
    }

    /// Notes somebody who was let in, once for a minute: whoever comes back with the ticket of the queue is let in again, and counts again.
    fn admit(
        &self,
        visitor: VisitorId,
        minute: Minute,
        lane: Lane,
        is_from_anywhere: bool,
        now: u64,
    ) -> Result<()> {
        let added = self.sql().exec(
            "INSERT INTO admitted (visitor, minute, lane, is_from_anywhere) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET minute = ?2, lane = ?3, is_from_anywhere = ?4 WHERE minute < ?2 RETURNING minute",
            (&visitor.0[..], minute.0, lane.to_column(), is_from_anywhere),
        )?;
        if added.optional::<u64>()?.is_none() {
            return Ok(());
        }
        if lane == Lane::New {
            self.arrive(minute)?;
        }
        self.sql()
            .exec("DELETE FROM waiting WHERE visitor = ?", (&visitor.0[..],))?;
        self.see(visitor, now)
    }

    fn see(&self, visitor: VisitorId, now: u64) -> Result<()> {
        self.sql().exec(
            "INSERT INTO sessions (visitor, seen) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET seen = max(seen, ?2)",
            (&visitor.0[..], now),
        )?;
        Ok(())
    }

    /// Notes somebody who waits, unless they have been let in. True if nobody knew of them.
    fn wait(&self, visitor: VisitorId, bucket: Minute, now: u64) -> Result<bool> {
        let visitor = &visitor.0[..];
        let looked = "UPDATE waiting SET seen = max(seen, ?2) WHERE visitor = ?1 RETURNING bucket";
        if self
            .sql()
            .exec(looked, (visitor, now))?
            .optional::<u64>()?
            .is_some()
        {
            return Ok(false);
        }
        let added = self.sql().exec(
            "INSERT INTO waiting (visitor, bucket, seen) SELECT ?1, ?2, ?3
             WHERE NOT EXISTS (SELECT 1 FROM admitted WHERE visitor = ?1) RETURNING bucket",
            (visitor, bucket.0, now),
        )?;
        Ok(added.optional::<u64>()?.is_some())
    }

    fn arrive(&self, minute: Minute) -> Result<()> {
        self.sql().exec(
            "INSERT INTO arrivals (minute, count) VALUES (?, 1) ON CONFLICT DO UPDATE SET count = count + 1",
            (minute.0,),
        )?;
        Ok(())
    }

    /// Drops what does not count any more.
    fn forget(&self, terms: &Terms, minute: Minute, now: u64) -> Result<()> {
        let sql = self.sql();
        let before = |millis: u64| now.saturating_sub(millis);
        sql.exec(
            "DELETE FROM sessions WHERE seen < ?",
            (before(terms.session_millis),),
        )?;
        sql.exec(
            "DELETE FROM waiting WHERE seen < ?",
            (before(terms.patience_millis),),
        )?;
        sql.exec(
            "DELETE FROM workers WHERE seen < ?",
            (before(WORKER_SILENCE),),
        )?;
        let oldest = minute.before(REPORTED_MINUTES).0;
        sql.exec("DELETE FROM admitted WHERE minute < ?", (oldest,))?;
        sql.exec("DELETE FROM arrivals WHERE minute < ?", (oldest,))?;
        Ok(())
    }

    fn own_report(&self, terms: &Terms, minute: Minute, now: u64) -> Result<Report> {
        let sql = self.sql();
        let count = |query: &str| sql.exec(query, ())?.one::<u64>();
        let by_minute = |query: &str| -> Result<BTreeMap<Minute, u64>> {
            let rows = sql.exec(query, ())?.to_array::<(u64, u64)>()?;
            Ok(rows
                .into_iter()
                .map(|(minute, count)| (Minute(minute), count))
                .collect())
        };
        let by_lane = |condition: &str| -> Result<BTreeMap<Lane, u64>> {
            let query = format!(
                "SELECT lane, count(*) FROM admitted WHERE minute = ? {condition} GROUP BY lane"
            );
            let rows = sql.exec(&query, (minute.0,))?.to_array::<(i64, u64)>()?;
            Ok(rows
                .into_iter()
                .map(|(lane, count)| (Lane::from_column(lane), count))
                .collect())
        };
        Ok(Report {
            data_centre: terms.data_centre.clone(),
            at: now,
            active: count("SELECT count(*) FROM sessions")?,
            workers: count("SELECT count(*) FROM workers")?,
            waiting: by_minute("SELECT bucket, count(*) FROM waiting GROUP BY bucket")?,
            arrivals: by_minute("SELECT minute, count FROM arrivals")?,
            admitted: by_minute("SELECT minute, count(*) FROM admitted GROUP BY minute")?,
            minute,
            is_silent: false,
            admitted_by_lane: by_lane("")?,
            anywhere_by_lane: by_lane("AND is_from_anywhere")?,
        })
    }

    /// What the others have said. One that has fallen silent has no part of the slots and nobody who waits, but its visitors may be
    /// inside for a session.
    fn peers(&self, terms: &Terms, now: u64) -> Vec<Report> {
        let mut peers = self.peers.borrow_mut();
        peers.retain(|_, report| {
            now.saturating_sub(report.at) < terms.session_millis.max(PEER_SILENCE)
        });
        let heard = peers.values().cloned().map(|mut report| {
            if now.saturating_sub(report.at) >= PEER_SILENCE {
                report.is_silent = true;
                report.workers = 0;
                report.waiting.clear();
            }
            report
        });
        heard.collect()
    }
}
